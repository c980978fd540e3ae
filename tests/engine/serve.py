"""Runs a command with a server of Restate, which it names in SOFTLAND_RESTATE as `INGRESS ADMIN`.

    serve.py RESTATE-SERVER WORK [--long] -- COMMAND…
"""

import os
import pathlib
import subprocess
import sys

from stack import Server


def main(program, work, *words):
    at = words.index("--")
    server = Server(program, pathlib.Path(work)).start()
    environment = dict(os.environ, SOFTLAND_RESTATE=f"http://{server.ingress} http://{server.admin}")
    if "--long" in words[:at]:
        environment["SOFTLAND_LONG"] = "1"
    try:
        return subprocess.run(words[at + 1:], env=environment).returncode
    finally:
        server.kill()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
