"""One step of a session, recorded: what each tick costs."""
