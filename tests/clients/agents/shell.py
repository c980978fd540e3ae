"""The one tool that the agents have, called as Claude Code calls its own: `Bash`."""

import subprocess

NAME = "Bash"
DESCRIPTION = "Runs a shell command in the working folder and returns what it prints."
PARAMETERS = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    "required": ["command"],
}


def run(command: str) -> str:
    """What the command prints on both channels."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout or "(nothing was printed)"
