"""Scenario files for `softland sim` (docs/scenarios.md). All use the one tool of the client that
runs commands; each call adds a line to `marker.txt`, so that what a client really ran can be
counted. A client that reads edits out of text is given an edit of that file instead."""

import json

MARKER = "marker.txt"
ANSWER = "All steps were done."
LANDED = "I was stopped early and have only these steps."
AFTER_NUDGE = "Sorry, I had stopped without a word; the step was done."
# What aider says of an empty turn.
NO_ANSWER = "Empty response received from LLM. Check your provider account?"
EDIT = f"""{ANSWER}

{MARKER}
```
<<<<<<< SEARCH
=======
step-1
>>>>>>> REPLACE
```"""


class Writer:
    """Writes the turns of one scenario; where the client wants an object, answers call its tool."""

    def __init__(self, client):
        self._client = client
        self._lines = []

    def step(self, *numbers, when=None):
        """A turn that calls the client's tool once for each number."""
        self._turn(when)
        self._thinking(f"Step {numbers[0]} comes next.")
        for number in numbers:
            self._lines += ["[[turn.call]]", *self._call(number)]
        return self

    def consult(self, tool, arguments):
        """A turn that calls another tool than the client's own."""
        self._turn(None)
        self._thinking("Somebody else may know that.")
        self._lines += ["[[turn.call]]", f'tool = "{tool}"', f"input = {_table(arguments)}"]
        return self

    def edit(self, more=""):
        """A turn that adds a line in the form of an edit; the first of every run is this."""
        self._turn(None)
        self._lines += ['repeat = "forever"', f"text = {json.dumps(more + EDIT)}"]
        return self

    def answer(self, text, when=None):
        self._turn(when)
        self._thinking("That is what I can say.")
        if self._client.structured:
            given = _table({"summary": text, "steps": 1})
            self._lines += ["[[turn.call]]", 'tool = "final_result"', f"input = {given}"]
        elif self._client.answers_by:
            tool, key = self._client.answers_by
            given = _table({key: text})
            self._lines += ["[[turn.call]]", f'tool = "{tool}"', f"input = {given}"]
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
            when = "forced" if self._client.structured else "none"
        if when:
            self._lines.append(f'when = "{when}"')

    def _thinking(self, text):
        """Only where the client has the model think; it comes back signed and bound."""
        self._lines.append(f"thinking = {json.dumps(text)}")

    def _call(self, number):
        tool, arguments = self._client.call(number)
        if isinstance(arguments, str):
            given = f"raw = {json.dumps(arguments)}"
        else:
            given = f"input = {_table(arguments)}"
        return [f'tool = "{tool}"', given]


def _table(fields):
    # JSON strings without control characters are TOML strings too.
    return "{ " + ", ".join(f"{key} = {json.dumps(one)}" for key, one in fields.items()) + " }"


def shown(text, structured):
    """What a client prints for that answer."""
    if structured:
        return json.dumps({"summary": text, "steps": 1}, separators=(",", ":"))
    return text
