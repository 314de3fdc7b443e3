"""The lookup file of a tape: what is known of its intervals, and which of them a question can skip."""
