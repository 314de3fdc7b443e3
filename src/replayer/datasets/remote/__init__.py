"""Data sets at URLs: made on this machine, then uploaded with the manifest last."""
