"""The command `softland-ai`: runs the program `softland` of the same package.

The package bears the name softland-ai, so `uvx softland-ai` looks for a command of that name. The
command `softland` is the program itself and needs no Python.
"""

import importlib.metadata
import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = "softland.exe" if os.name == "nt" else "softland"


def main():
    program = find_program()
    if program is None:
        sys.exit(f"softland-ai: {PROGRAM} is missing from this installation; install softland-ai again")
    if os.name == "nt":  # no process can be replaced there
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's
        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])


def find_program():
    """The program as the installer has recorded it, or as `pip install --target` has moved it."""
    folder = Path(__file__).resolve().parent
    files = importlib.metadata.files("softland-ai") or []
    recorded = [file.locate() for file in files if file.name == PROGRAM]
    moved = [folder / "bin" / PROGRAM, folder / "Scripts" / PROGRAM]
    return next((str(path) for path in [*recorded, *moved] if os.path.isfile(path)), None)


if __name__ == "__main__":
    main()
