"""Draw what the page of `replay view` shows into files: pictures, GIFs and videos, for `replay render`."""
