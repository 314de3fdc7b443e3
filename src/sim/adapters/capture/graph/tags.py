"""The kinds of the cells of a graph. Tapes hold these numbers: only append to them."""

ROOT = 0  # The number of the node that is the list of all roots.
NONE, FALSE, TRUE, INT, FLOAT = 0, 1, 2, 3, 4  # The payload of the last two is the number itself.
NODE_TAG, VALUE_TAG = 5, 6  # The payload is the number of a node, or of an immutable value.
