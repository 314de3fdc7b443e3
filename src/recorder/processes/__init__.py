"""Worker processes, forks and signals.

A ``Pool`` (pool.py) works on many items: outcomes as they arrive or in order, with progress and cancel.
``ForkPool`` forks a process for each item, ``SpawnPool`` keeps fresh interpreters, ``ExecutorPool`` uses an Executor,
``InlinePool`` works in this process, which may be unable to fork (fork_hazard.py).
``in_a_copy`` (fork_call.py) makes one call in a forked copy of this process.
``start_python`` (interpreter.py) starts a process with a different interpreter, environment or hash seed.
"""
