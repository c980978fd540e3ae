"""The table at the end: a line for each client and protocol, a column for each thing checked."""

from . import cases


def row(client, packages):
    """An empty line."""
    version = client.version(packages)
    return {"client": f"{client.name} {version}", "protocol": client.protocol, "cells": {}}


def note(row, column, is_good):
    """One more thing that was checked; a cell is good if all of them were."""
    row["cells"][column] = row["cells"].get(column, True) and is_good


def show(rows):
    if not rows:
        return
    head = ["client", "protocol", *cases.COLUMNS.values()]
    lines = [head, *(_cells(one) for one in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    print()
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    print("  – : does not apply or was not asked for (docs/clients/README.md)\n")


def _cells(row):
    words = {True: "ok", False: "FAILED", None: "–"}
    cells = (words[row["cells"].get(column)] for column in cases.COLUMNS)
    return [row["client"], row["protocol"], *cells]
