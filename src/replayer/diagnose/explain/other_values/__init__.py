"""Other values outside the state that are put in before a step: those of the recording, as far as they can be found by trying."""
