"""Continue a tape that was closed, killed or torn."""
