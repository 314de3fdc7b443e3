"""Rows of the tables of a data set: states, training pairs, actions and events; and rows as columns."""
