"""What holds for the events and the calls of every run."""

import collections

from stack import KEYS


def told(events):
    """Each run of a tree tells its events once, in order, with one end. Returns the end of the first run."""
    runs = collections.defaultdict(list)
    for event in events:
        runs[event["run"]].append(event)
    for run, of in runs.items():
        assert [event["seq"] for event in of] == list(range(len(of))), f"{run}: events are missing or told twice"
        ends = [event for event in of if event["event"] in ("done", "error")]
        calls, results = ([event["id"] for event in of if event["event"] == kind] for kind in ("tool_execute", "tool_result"))
        assert sorted(calls) == sorted(results), f"{run}: calls and results do not match"
        assert len(ends) == 1 and of[-1] is ends[0], f"{run}: {len(ends)} ends"
    assert events[-1]["run"] == events[0]["run"]
    return events[-1]


def sound(folder, ends):
    """In the runs of the tree that ended so, no call that may not run twice has run twice, and each was run, but for
    those of which the model was told that they were interrupted. Returns the number of calls that ran again."""
    times = collections.Counter(folder.ran)
    interrupted = sum(end["answer"].count("interrupted.") for end in ends)
    missing = sum(max(len(ends) - times[key], 0) for key in KEYS)
    assert missing <= interrupted, f"{missing} calls were not run, {interrupted} were interrupted: {times}"
    for key in KEYS:
        assert times[key] <= len(ends) or key[0] == "p", f"{key} was run {times[key]} times in {len(ends)} runs"
    return sum(max(times[key] - len(ends), 0) for key in KEYS)
