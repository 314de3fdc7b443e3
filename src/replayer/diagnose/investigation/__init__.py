"""One bad tick investigated with several tools: explained, and where that names no line, checked and certified."""
