"""Random graphs of ordinary Python objects, random changes of them, and a canonical form to compare them by."""
