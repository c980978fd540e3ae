"""Two workers behind Debian's HAProxy, of which one is taken away in mid-run."""

import collections
import subprocess

from stack import COST_USD, Stack, free_port, until
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
    """Runs are spread over both workers; when one is killed or stopped, its runs go on with the other."""
    with Stack(binary, program, work, "balanced") as stack:
        listen = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        balancer = stack.keep(Balancer(haproxy, stack.work, *listen))
        url = f"http://{balancer.at}"
        stack.folder.take(0.5)
        # The engine asks through the balancer for the services before a worker has registered.
        other = stack.worker("two", listen=listen[1], advertise=url)
        told_of = []
        for way in ("killed", "stopped"):
            stack.folder.forget()
            worker = stack.worker("one", listen=listen[0], advertise=url)
            told_of.append(take_away(stack, worker, way))
        other.kill()
        return "; ".join(told_of)


def take_away(stack, worker, way):
    asked = stack.model.asked
    followers = [stack.begin("lead")[0] for _ in range(6)]
    until(lambda: len(stack.folder.ran) > 40, "the runs are on their way")
    shares = collections.Counter(stack.folder.workers)
    assert min(shares["one"], shares["two"]) >= 5, f"both have a share: {shares}"
    if way == "killed":
        worker.kill()
    else:
        status, _ = worker.terminate()
        assert status == 0, worker.said
    ended = [told(follower.end()[1]) for follower in followers]
    assert all(end["outcome"] == "answered" for end in ended), ended
    again = sound(stack.folder, ended)
    whole = {end["answer"] for end in ended if "interrupted" not in end["answer"]}
    assert len(whole) <= 1, whole
    bill = (stack.model.asked - asked) * COST_USD
    assert sum(end["cost_usd"] for end in ended) >= bill * 0.9999, (ended, bill)
    if way == "stopped":
        interrupted = [end["answer"] for end in ended if "interrupted" in end["answer"]]
        assert again == 0 and not interrupted, (again, interrupted)
    return f"{way} after {shares['one']} of {shares.total()} calls, {again} calls again"
