"""The first divergent tick as data: where it is, which fields differ, which causes were tested."""
