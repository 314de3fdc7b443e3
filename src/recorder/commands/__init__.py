"""The command `record`: one module per subcommand."""
