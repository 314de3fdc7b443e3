"""The rows written between two keyframes, as blocks."""
