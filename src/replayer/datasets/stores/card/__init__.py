"""The dataset card: what a data set holds, for people and for the library ``datasets``."""
