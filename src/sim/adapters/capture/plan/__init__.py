"""How the attributes of objects are written after each step: planned once, and for objects that replace others."""
