"""Outputs of a tick besides the state: what the simulation and functions of the user give for the tape."""
