"""Programs of public packages with a known defect, as their users write them, and small ones with the same defects."""
