"""What changed in a state: rows since a baseline, words of one tick; by marks, by a scan, or by both."""
