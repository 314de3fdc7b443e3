"""Questions about all ticks of a recording: where a condition holds, and which step changed a value last."""
