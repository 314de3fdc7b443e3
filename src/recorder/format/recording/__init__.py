"""All files of a tape as one recording of frames and states."""
