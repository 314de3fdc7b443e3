"""The command `record`, one module a subcommand."""
