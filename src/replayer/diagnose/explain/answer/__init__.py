"""The answer of explain as data, and the parts of it that two traces give: orders of sets, lines that write."""
