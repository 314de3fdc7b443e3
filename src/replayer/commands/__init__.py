"""The command `replay`, one module a subcommand."""
