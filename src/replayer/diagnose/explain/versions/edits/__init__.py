"""The edits inside one function of two versions of the code, and which of them make the difference."""
