"""Tapes at URLs: file systems of fsspec, ranges of their files, what is kept of them, errors of stores."""
