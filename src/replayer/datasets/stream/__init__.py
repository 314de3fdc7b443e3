"""Training data without files: NumPy, PyTorch, xarray."""
