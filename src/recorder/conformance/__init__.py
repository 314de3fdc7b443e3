"""The simulation contract, checked by trials: repeat, reload, restart in another process."""
