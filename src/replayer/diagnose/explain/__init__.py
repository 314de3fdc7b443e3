"""The operation and source line of a divergence: one tick traced in two variants."""
