"""A tape that is being recorded, on the page of `replay view`: its head, its marks, the end of the recording."""
