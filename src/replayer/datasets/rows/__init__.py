"""Rows of the tables of a data set (states, training pairs, actions, events), collected as columns."""
