"""A specialist that `softland mcp` serves to a client: an agent of its own, whose model is the simulator
within the process, in a folder with a few notes."""

import json

SERVER = "specialists"
NAME = "gardener"
TOOL = f"mcp__{SERVER}__{NAME}"
QUESTION = "When are beans planted?"
FOUND = "Beans are planted in May."
NOTES = {"beans.md": FOUND, "peas.md": "Peas are planted in March.", "soil.md": "Beans like it warm."}


def prepare(binary, folder, limit):
    """Writes the notes, the agent, which lands after `limit` calls, and the client's file of servers."""
    notes, agents = folder / "notes", folder / "agents"
    notes.mkdir()
    agents.mkdir()
    for name, text in NOTES.items():
        (notes / name).write_text(f"{text}\n", encoding="utf-8")
    (agents / f"{NAME}.md").write_text(
        f"""---
name: {NAME}
description: Knows what is planted when.
tools: list_dir, grep, read_file
tool_calls_limit: {limit}
---
Answer from the notes.
""",
        encoding="utf-8",
    )
    arguments = ["mcp", str(agents), "--root", str(notes), "--model", "sim/reader"]
    servers = {SERVER: {"type": "stdio", "command": str(binary), "args": arguments}}
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file
