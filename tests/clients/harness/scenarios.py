"""Scenario files for `softland sim` (docs/scenarios.md). All use the one tool `Bash`; each call
adds a line to `marker.txt`, so that what a client really ran can be counted."""

import json

MARKER = "marker.txt"
ANSWER = "All steps were done."
LANDED = "I was stopped early and have only these steps."
AFTER_NUDGE = "Sorry, I had stopped without a word; the step was done."


class Writer:
    """Writes the turns of one scenario; where the client wants an object, answers call its tool."""

    def __init__(self, structured):
        self._structured = structured
        self._lines = []

    def step(self, *numbers, when=None):
        """A turn that calls `Bash` once for each number."""
        self._turn(when)
        self._thinking(f"Step {numbers[0]} comes next.")
        for number in numbers:
            command = f"echo step-{number} >> {MARKER}; wc -l < {MARKER}"
            self._call("Bash", {"command": command, "description": f"Takes step {number}"})
        return self

    def answer(self, text, when=None):
        self._turn(when)
        self._thinking("That is what I can say.")
        if self._structured:
            self._call("final_result", {"summary": text, "steps": 1})
        else:
            self._lines.append(f"text = {json.dumps(text)}")
        return self

    def nothing(self, when=None):
        """A turn without a visible block."""
        self._turn(when)
        self._thinking("What did that result say?")
        return self

    def write(self, path):
        path.write_text("\n".join([f'name = "{path.stem}"', *self._lines, ""]), encoding="utf-8")
        return path

    def _turn(self, when):
        self._lines.append("[[turn]]")
        if when == "unable":
            # No call that goes on is possible: none at all, or only that of the answer's tool.
            when = "forced" if self._structured else "none"
        if when:
            self._lines.append(f'when = "{when}"')

    def _thinking(self, text):
        """Only where the client has the model think; it comes back signed and bound."""
        self._lines.append(f"thinking = {json.dumps(text)}")

    def _call(self, tool, arguments):
        # JSON strings without control characters are TOML strings too.
        fields = ", ".join(f"{key} = {json.dumps(value)}" for key, value in arguments.items())
        self._lines += ["[[turn.call]]", f'tool = "{tool}"', f"input = {{ {fields} }}"]


def shown(text, structured):
    """What a client prints for that answer."""
    if structured:
        return json.dumps({"summary": text, "steps": 1}, separators=(",", ":"))
    return text
