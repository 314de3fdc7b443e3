"""Work on the machines of a cluster: the pool that Ray runs, behind the same promises as local ones.

A process of its own speaks with Ray (ray_process.py). The caller's process has none of Ray's threads and signal handlers,
and can be forked as before. Each Ray worker has a fresh interpreter beside it (worker_host.py), which forks a process for
each item as ForkPool does.
"""
