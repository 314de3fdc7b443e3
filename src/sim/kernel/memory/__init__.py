"""Read from the memory of objects, where its layout is known (types, numbers, own attributes); give free memory back."""
