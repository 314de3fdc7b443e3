"""An intact tape made from a damaged one."""
