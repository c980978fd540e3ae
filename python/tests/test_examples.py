"""The examples, each in a process of its own, with the simulator as their provider."""

import os
import re
import subprocess
import sys
from pathlib import Path

import softland

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
LINES = 40
# Adds the simulator's host to what the example installs.
RUN = """
import runpy, sys
import softland
plain, host = softland.install, sys.argv[2]
softland.install = lambda *names, **keys: plain(*names, hosts=[host], **keys)
path, sys.argv = sys.argv[1], [sys.argv[1], *sys.argv[3:]]
runpy.run_path(path, run_name="__main__")
"""
CHAT = """
import runpy, sys
import softland
plain, host = softland.install, sys.argv[2]
softland.install = lambda *names, **keys: plain(*names, hosts=[host], **keys)
from fastapi.testclient import TestClient
app = runpy.run_path(sys.argv[1])["app"]
print(TestClient(app).get("/chat", params={"question": "And now?"}).text)
"""


def run(server, code, example, *arguments):
    folder = Path(softland.__file__).resolve().parents[1]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "any",
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": "any",
    }
    command = [sys.executable, "-c", code, str(EXAMPLES / example), server.host, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_examples_are_short():
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text().splitlines()) <= LINES, path


def test_specialist(sim):
    answer, told = run(sim("looper"), RUN, "specialist.py", "What of pricing?")
    assert answer.strip() and "landed after" in told


def test_wallet_guard(sim):
    answer, told = run(sim("looper"), RUN, "wallet_guard.py", "0.05")
    assert answer.strip() and "(cost)" in told
    [spent] = re.findall(r"\$(\d+\.\d+) of \$0\.05", told)
    assert 0 < float(spent) <= 0.05, told


def test_text_tags(sim):
    answer, told = run(sim("looper"), RUN, "text_tags.py", "What of pricing?")
    assert answer.strip() and "<use_tool>" not in answer
    assert "landed after" in told
    # Words behind a call, which pretend to know its result, do not reach the program.
    answer, told = run(sim("tail"), RUN, "text_tags.py", "What of pricing?")
    assert "nothing is amiss" not in answer and "answered after 1 calls" in told


def test_chat_endpoint(sim):
    said, _ = run(sim("looper"), CHAT, "chat_endpoint.py")
    assert "[landed," in said


def test_research_langchain(sim):
    # A long question, so that the input costs more than what is reserved for output.
    asked = ["What did we decide about pricing? " * 3300, "1.5"]
    answer, told = run(sim("sweeper"), RUN, "research_langchain.py", *asked)
    assert told.count("softland: warn: About 20% of the cost limit remains") == 1, told
    assert answer.strip() and "landed (cost)" in told, told
