"""Calls that leave the user's code during a traced step: they get plain arrays and the modules as they were."""
