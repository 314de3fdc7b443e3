"""Draw what the page of `replay view` shows into files: pictures, GIFs, videos and pages, for `replay render`."""
