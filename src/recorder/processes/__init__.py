"""Worker processes, forks and signals.

Work on many items goes through a ``Pool`` (pool.py): items in order, outcomes as they come or in order, progress, cancel.
``ForkPool`` forks a process for each item, ``SpawnPool`` keeps fresh interpreters, ``ExecutorPool`` uses an Executor.
One call in a copy of this process is ``in_a_copy`` (fork_call.py).
Another interpreter, other variables or another hash seed is ``start_python`` (interpreter.py).
"""
