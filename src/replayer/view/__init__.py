"""The page of `replay view`: a server on this machine, a process for each tape, and the files of the page."""
