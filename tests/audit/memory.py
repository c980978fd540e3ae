#!/usr/bin/env python3
"""Peak memory of `softland audit` on files that are far larger than its limit.

usage: memory.py SOFTLAND [--bytes N] [--most MB] [--folder DIR]
  --bytes   size of each file (2e9)
  --most    memory that it may take at most, in MB of 10^6 bytes (300)
  --folder  where the files are made, one at a time (a temporary folder; needs the room of one)

Makes a session of Claude Code as JSONL, one document of messages on a single line, the same session
compressed, lines of just below and just above 64 MiB, and an activity CSV from either end; audits each
alone and prints size, time and the peak of resident memory. Every row of a CSV has an id, which is kept: it
may take 100 bytes more for each. Exits 1 where one took more than it may, or was not read. Linux."""
import argparse, gzip, json, multiprocessing, os, subprocess, sys, tempfile, time

RESULT = "".join(f"{n:6}\tall work and no play makes \\ \"jack\" a dull boy\n" for n in range(150))
LINE = 64 << 20


def claude(n):
    """The lines of one round: a call and its result, as Claude Code writes them."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_767_225_600 + 7 * n))
    common = {"sessionId": "s1", "timestamp": stamp, "version": "2.1.0", "cwd": "/project", "isSidechain": False}
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 2100, "cache_read_input_tokens": 90_000, "output_tokens": 180}
    call = {"type": "tool_use", "id": f"toolu_{n}", "name": "Read", "input": {"file_path": f"/project/{n}.txt"}}
    said = {"id": f"msg_{n}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [call], "usage": usage}
    back = {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": f"{n}\n{RESULT}"}
    yield {"type": "assistant", "uuid": f"a{n}", "parentUuid": f"u{n - 1}", "message": said, **common}
    yield {"type": "user", "uuid": f"u{n}", "parentUuid": f"a{n}", "message": {"role": "user", "content": [back]}, **common}


def rounds(size):
    """Texts of rounds until they come to so many bytes; a person speaks now and then."""
    written = n = 0
    while written < size:
        lines = []
        if n % 40 == 0:
            person = {"type": "user", "uuid": f"p{n}", "sessionId": "s1", "message": {"role": "user", "content": f"Go on with part {n}."}}
            lines.append(person)
        text = "".join(json.dumps(line) + "\n" for line in [*lines, *claude(n)])
        written += len(text)
        n += 1
        yield text


def jsonl(path, size):
    with open(path, "w") as file:
        file.writelines(rounds(size))


def packed(path, size):
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(rounds(size))


def document(path, size):
    """One document on one line."""
    with open(path, "w") as file:
        file.write('{"id":"long","messages":[{"role":"user","content":"go"}')
        written = n = 0
        while written < size:
            call = {"type": "tool_use", "id": f"t{n}", "name": "read_file", "input": {"path": f"{n}.txt"}}
            back = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"{n}\n{RESULT}"}
            text = "".join("," + json.dumps({"role": role, "content": [block]}) for role, block in [("assistant", call), ("user", back)])
            file.write(text)
            written += len(text)
            n += 1
        file.write("]}")


def long_lines(path, size):
    """Lines of a message each, by turns a little below the limit of a line and a little above."""
    with open(path, "w") as file:
        file.write(json.dumps({"role": "user", "content": "go"}) + "\n")
        written = n = 0
        while written < size:
            length = LINE + (4096 if n % 2 else -4096)
            text = json.dumps({"role": "assistant" if n % 4 < 2 else "user", "content": f"{n} "})
            file.write(text[:-2] + "x" * (length - len(text)) + text[-2:] + "\n")
            written += length
            n += 1


def activity(path, size, newest_first=False):
    """OpenRouter's activity: sixty conversations side by side, each of eighty requests that grow."""
    def row(n):
        chain, turn = n % 60, n // 60 % 80
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + n // 4))
        prompt = 3000 + 7919 * chain % 2000 + 900 * turn
        end = "stop" if turn == 79 else "tool_calls"
        return (f"gen-{1_767_225_600 + n // 4}-{n:016x},{stamp}.{n % 1000:03},0.{prompt:06},0,{prompt},{120 + n % 7},0,0,"
                f"anthropic/claude-sonnet-4.5,agent {chain % 6},key {chain % 3},Anthropic,true,{end},{900 + n % 400}\n")
    length = len(row(0))
    numbers = range(int(size) // length)
    with open(path, "w") as file:
        file.write("generation_id,created_at,cost_total,cost_cache,tokens_prompt,tokens_completion,tokens_reasoning,"
                   "tokens_cached,model_permaslug,app_name,api_key_name,provider_name,streamed,finish_reason_normalized,"
                   "generation_time_ms\n")
        file.writelines(map(row, reversed(numbers) if newest_first else numbers))


def newest_first(path, size):
    activity(path, size, True)


def audit(binary, path):
    """Seconds, peak of resident memory in bytes, and the report."""
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        child = subprocess.Popen([binary, "audit", path, "--format", "json"], stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - begun
        out.seek(0)
        return took, used.ru_maxrss * 1024, json.load(out) if child.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("softland")
    parser.add_argument("--bytes", type=float, default=2e9)
    parser.add_argument("--most", type=float, default=300)
    parser.add_argument("--folder")
    args = parser.parse_args()
    failed = False
    for make in (jsonl, document, packed, long_lines, activity, newest_first):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            path = os.path.join(folder, make.__name__)
            # In a process of its own: what this one has taken would count as its children's peak.
            making = multiprocessing.Process(target=make, args=(path, args.bytes))
            making.start()
            making.join()
            size = os.path.getsize(path)
            took, peak, report = audit(args.softland, path)
            turns = report["totals"]["turns"] if report else 0
            print(f"{make.__name__:12} {size / 1e6:7.0f} MB  {turns:7} turns  {took:5.1f} s  {peak / 1e6:5.0f} MB at most", flush=True)
            ids = 100 * turns if make in (activity, newest_first) else 0
            failed |= peak > args.most * 1e6 + ids or turns == 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
