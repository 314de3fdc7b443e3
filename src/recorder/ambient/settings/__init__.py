"""Settings of libraries that code may change while the process runs."""
