"""A network namespace in which only loopback exists: whatever a client calls beside the address it
is given fails at once, and nothing leaves the machine."""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

INSIDE = "SOFTLAND_CLIENTS_INSIDE"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
UNSHARE = ["unshare", "--user", "--map-root-user", "--net"]


def is_inside():
    return INSIDE in os.environ


def why_not():
    """Why this machine cannot make such a namespace; `None` where it can."""
    if shutil.which("unshare") is None:
        return "no network namespace: `unshare` (util-linux) is not installed"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"no network namespace: {tried.stderr.strip()}" if tried.returncode != 0 else None


def enter(arguments):
    """Runs this program again inside, with these arguments; gives its status."""
    command = [*UNSHARE, sys.executable, *arguments]
    return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode


def prepare():
    """Brings loopback up, and makes sure that it is alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        request = struct.pack("16sh14x", b"lo", flags | IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    if others:
        raise RuntimeError(f"the namespace has more than loopback: {', '.join(others)}")
