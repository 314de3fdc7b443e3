"""Changes of a state: rows since a baseline, or words of one tick; found by marks, by a scan, or by both."""
