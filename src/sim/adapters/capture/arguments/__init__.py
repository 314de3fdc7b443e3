"""Objects in the arguments of a recorded call: how they are written, and where those stand that the recorded object holds."""
