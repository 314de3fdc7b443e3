"""`replay view` in a process that ends with the one that started it, such as ``record run --live``."""

from __future__ import annotations

from recorder.processes.interpreter import begin_as_python
from replayer.commands.main import main

if __name__ == "__main__":
    begin_as_python()
    main()
