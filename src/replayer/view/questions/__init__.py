"""Questions of a page about all ticks of a tape: find next, who wrote this, branch from here; each answered in a process."""
