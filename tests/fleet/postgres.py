"""A PostgreSQL with a password, which keeps what it is told when it is killed."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PASSWORD = "password-of-the-store"
# The longest time that its start may take, in seconds: the processes of one that was killed go one by one.
PATIENCE = 60


class Postgres:
    name = "PostgreSQL"

    def __init__(self, program):
        self.programs, self.process = pathlib.Path(program).resolve().parent, None
        with socket.socket() as at:
            at.bind(("127.0.0.1", 0))
            self.port = at.getsockname()[1]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="softland-fleet-"))
        # It refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        (self.folder / "password").write_text(PASSWORD)
        if self.user:
            shutil.chown(self.folder, self.user)
            shutil.chown(self.folder / "password", self.user)
        self.run("initdb", "--auth=scram-sha-256", "--username=softland", "--no-sync",
                 f"--pwfile={self.folder}/password", "-D", self.folder / "data").wait()
        self.start()

    @property
    def url(self):
        return f"postgres://softland:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def run(self, program, *words):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([self.programs / program, *words], user=self.user, group=self.user,
                                extra_groups=[] if self.user else None, cwd="/", **quiet)

    def start(self):
        end = time.monotonic() + PATIENCE
        while self.process is None or not self.asks("SELECT 1"):
            assert time.monotonic() < end, f"PostgreSQL does not start within {PATIENCE} s"
            if self.process is None or self.process.poll() is not None:
                self.process = self.run("postgres", "-D", self.folder / "data", "-p", str(self.port),
                                        "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200",
                                        "-c", f"unix_socket_directories={self.folder}")
            time.sleep(0.02)

    def asks(self, statements):
        """Runs statements. Returns what they print; nothing if they fail."""
        psql = ["psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", statements, self.url]
        done = subprocess.run(psql, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    def accounts(self, beginning):
        """What the accounts whose names begin so have spent together, and what they hold, in nano-dollars."""
        sums = self.asks("SELECT coalesce(sum(spent), 0), coalesce(sum(reserved), 0) FROM softland_accounts"
                         f" WHERE starts_with(name, '{beginning}')")
        # Before a gateway has come there are no tables.
        return tuple(map(int, sums.split("|"))) if sums else (0, 0)

    def forget(self):
        self.asks("SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def kill(self):
        # The processes that serve its sessions outlive it for a moment, and answer meanwhile. It is stopped
        # first, so that it starts no others.
        self.process.send_signal(signal.SIGSTOP)
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
                                  capture_output=True, text=True).stdout
        for process in [*map(int, children.split()), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def end(self):
        self.kill()
        # The last of its processes may still write there.
        shutil.rmtree(self.folder, ignore_errors=True)
