"""Two workers behind Debian's HAProxy, of which one is taken away in mid-run."""

import collections
import subprocess

from stack import Stack, answers, free_port, until
from told import sound, told

CONFIG = """\
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend workers
  bind {bind} proto h2
  default_backend workers
backend workers
  balance leastconn
  option redispatch
  server one {one} proto h2 check inter 200ms
  server two {two} proto h2 check inter 200ms
"""


class Balancer:
    def __init__(self, program, place, one, two):
        self.at = f"127.0.0.1:{free_port()}"
        (place / "haproxy.cfg").write_text(CONFIG.format(bind=self.at, one=one, two=two))
        log = open(place / "haproxy.log", "ab")
        # In the foreground, so that its process is ours to end.
        self.process = subprocess.Popen([program, "-db", "-f", str(place / "haproxy.cfg")], stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()


def check_taken_away(binary, program, haproxy, work):
    """Runs are spread over both workers; when one is killed, its runs go on with the other."""
    with Stack(binary, program, work, "balanced") as stack:
        listen = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        balancer = stack.keep(Balancer(haproxy, stack.work, *listen))
        url = f"http://{balancer.at}"
        # The engine asks through the balancer for the services before a worker has registered.
        workers = [stack.worker(name, listen=at, advertise=url) for name, at in zip(("one", "two"), listen)]
        stack.folder.take(0.5)
        followers = [stack.begin("lead")[0] for _ in range(6)]
        until(lambda: len(stack.folder.ran) > 40, "the runs are on their way")
        shares = collections.Counter(stack.folder.workers)
        assert min(shares["one"], shares["two"]) >= 5, f"both have a share: {shares}"
        workers[0].kill()
        for follower in followers:
            status, events = follower.end()
            report = told(events)
            assert status == 0 and report["outcome"] == "answered", (status, report)
        sound(stack.folder, len(followers))
        return f"{dict(shares)} calls before, {dict(collections.Counter(stack.folder.workers))} in all"
