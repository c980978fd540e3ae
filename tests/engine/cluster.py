"""A cluster of three nodes, of which each is killed in a run of its own."""

import time

from stack import COST_USD, Server, Stack, free_port, until
from told import sound, told


def start_nodes(stack):
    nodes = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    all_nodes = ", ".join(f'"http://{node}"' for node in nodes)
    servers = []
    for at, (name, node) in enumerate(zip(("one", "two", "three"), nodes)):
        servers.append(stack.keep(Server(
            stack.program, stack.work / name, name, more="default-replication = 2", node=node, provision=at == 0,
            metadata=f"[metadata-client]\naddresses = [{all_nodes}]")))
        servers[-1].launch()
    for server in servers:
        server.wait()
    return servers


def check_nodes(binary, program, work):
    """Each node is killed once, while a tree is at work: the same answer, and no call twice that may not run twice."""
    with Stack(binary, program, work, "cluster", serves=False) as stack:
        servers = start_nodes(stack)
        stack.server = servers[0]
        worker = stack.worker()
        answers, again, longest = set(), 0, 0.0
        for victim in [None, *servers]:
            # The client and the worker ask a node that lives.
            stack.server = next(server for server in servers if server is not victim)
            worker.kill()
            worker = stack.worker(listen=worker.listen)
            stack.folder.forget()
            stack.folder.take(0.3)
            asked = stack.model.asked
            follower, _ = stack.begin("lead")
            until(lambda: "n8" in stack.folder.ran, "the sub-agents are at work")
            began = time.monotonic()
            if victim:
                victim.kill()
            status, events = follower.end()
            report = told(events)
            assert status == 0 and report["outcome"] == "answered", (status, report, victim and victim.name)
            bill = (stack.model.asked - asked) * COST_USD
            assert report["cost_usd"] >= bill * 0.9999, (report, bill)
            again += sound(stack.folder, [report])
            longest = max(longest, time.monotonic() - began)
            if "interrupted" not in report["answer"]:
                answers.add(report["answer"])
            if victim:
                victim.launch()
                victim.wait()
        assert len(answers) == 1, answers
        return f"{again} calls again, {longest:.1f} s at most after a node was killed"
