"""Changes found by dirty pages: userfaultfd write protection on Linux."""
