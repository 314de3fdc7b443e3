"""A second zoo: planted defects and sound programs that look suspicious, each with its declared truth, as TOML files.

They were written from a list of causes, before the code that finds them was read. ``specimen.py`` reads the files and
describes their keys, ``plain_loop.py`` establishes the truth without the recorder, ``user_commands.py`` records and asks
as a user does, and ``verdict.py`` judges what was printed.
"""
