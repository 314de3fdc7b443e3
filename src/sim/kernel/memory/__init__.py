"""Read from the memory of objects, where its layout is known: types, numbers, and which attributes are their own."""
