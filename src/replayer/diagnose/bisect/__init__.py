"""The first commit of the user's repository under which a tape no longer verifies."""
