"""Which functions serving executes: a linker script that lays them side by side, and a check of it.

    order.py write BINARY FOLDER SCRIPT   the script, from the traces in FOLDER, BINARY's symbols, and
                                          BINARY.map, the linker's map of it
    order.py check BINARY FOLDER          how much of the program is mapped for what was executed

`bench/order` makes the traces (Callgrind's, with instructions) and calls this.
"""

import bisect
import collections
import glob
import os
import re
import subprocess
import sys

# The symbol behind the last of them.
END = "softland_serving_end"
# Before the name of a function that the compiler takes for rarely called.
RARE = "unlikely."
# A prefix stands for all below it where at least this much of their bytes was executed: fewer
# patterns, which go on matching when code moves, for a somewhat larger section.
SHARE = 0.4
# The kernel maps this much around a page that is missing (fault_around_bytes).
AROUND = 1 << 16
PAGE = 1 << 12
# MiB of the program's code that may be mapped where serving goes: 12.3 without an order, 5.2 when the
# list was new, 6.7 where no hash holds. What is above says that it is out of date, or not used.
MOST = 8

HEAD = """\
/* Made by bench/order; do not edit. Functions that serving executes, for the linker (build.rs) to lay
   side by side: the kernel maps 64 KiB around each page that is touched, so that functions strewn
   over the program cost several times their size in memory. A pattern matches a function's section
   by its mangled name, `?` and `*` where a number, a hash or less used functions may stand. */
"""
# Where the compiler has a profile, it names what is hot itself.
HOT = """\
/* What a profile says is hot, where there is one (scripts/release). */
*(
.text.hot
.text.hot.*
)
"""
WHY = [
    "Generic functions of which few instances are executed: those, by their hashes.",
    "Where most is executed.",
    "The families of the first, should another compiler hash otherwise.",
]


def main(arguments):
    match arguments:
        case ["write", binary, folder, script]:
            write(binary, executed(binary, folder), script)
        case ["check", binary, folder]:
            check(binary, executed(binary, folder))
        case _:
            sys.exit(__doc__)


def executed(binary, folder):
    """Addresses of the instructions of the binary that ran, by Callgrind's files."""
    found = set()
    for name in glob.glob(os.path.join(folder, "callgrind.*")):
        objects, ours, address = {}, False, 0
        for line in open(name, encoding="utf-8", errors="replace"):
            if line.startswith(("ob=", "cob=")):
                number, path = re.match(r"c?ob=\((\d+)\)(?: (.*))?", line.rstrip()).groups()
                if path:
                    objects[number] = os.path.realpath(path) == os.path.realpath(binary)
                if line.startswith("ob="):
                    ours = objects[number]
            elif line[0] in "+-*" or line.startswith("0x"):
                # Relative to the line before, `*` the same.
                word = line.split(" ", 1)[0]
                if word[0] == "0":
                    address = int(word, 16)
                elif word[0] != "*":
                    address += int(word, 0)
                if ours:
                    found.add(address)
    if not found:
        sys.exit(f"order: nothing of {binary} was executed by the traces in {folder}")
    return found


# --- the script


def write(binary, addresses, script):
    functions = symbols(binary)
    starts = [start for start, _, _ in functions]
    ran = collections.Counter()
    for address in addresses:
        at = bisect.bisect_right(starts, address) - 1
        start, size, _ = functions[at]
        if at >= 0 and address < start + size:
            ran[start] += 1
    root, rare = Node(), rarely(binary + ".map")
    for start, size, name in functions:
        where = RARE if name in rare else ""
        root.add([where, *tokens(name)], size, name if start in ran else None)
    own, most, some = set(), set(), set()
    for pattern, node in root.patterns():
        dense = node.ran >= SHARE * node.bytes
        (most if dense else some).add(pattern)
        if not dense:
            own.update(filter(None, (hashed(pattern, name) for name in node.names)))
    with open(script, "w", encoding="utf-8") as file:
        file.write(HEAD + "SECTIONS { .text : {\n" + HOT)
        for why, patterns in zip(WHY, [own, most, some]):
            # By a profile, what runs only once has such a name, too.
            names = patterns | {RARE + pattern.removeprefix(RARE) for pattern in patterns}
            lines = "".join(f".text.{name}\n" for name in sorted(names))
            file.write(f"/* {why} */\n*(\n{lines})\n")
        file.write(f"{END} = .; }} }} INSERT BEFORE .fini;\n")
    print(f"patterns: {len(own)} with a hash, {len(most)}, {len(some)}")
    many = sum(size for start, size, _ in functions if start in ran)
    print(f"executed: {len(ran)} functions of {many} bytes")


def symbols(binary):
    """The functions: start, size, name."""
    said = subprocess.check_output(["nm", "-S", "--defined-only", binary], text=True)
    rows = [line.split() for line in said.splitlines()]
    found = [(int(r[0], 16), int(r[1], 16), r[3]) for r in rows if len(r) == 4 and r[2] in "tTwW"]
    if not found:
        sys.exit(f"order: {binary} has no symbols")
    return sorted(found)


def rarely(file):
    """The functions that the compiler takes for rarely called: their sections have another name.
    C compilers put a part of a function there, too; the function itself is elsewhere then."""
    with open(file, encoding="utf-8") as lines:
        found = re.findall(r"\.text\.(unlikely\.)?([^\s()]+)", lines.read())
    return {name for rare, name in found if rare} - {name for rare, name in found if not rare}


class Node:
    """The functions below a prefix of their names: their bytes, and what of them was executed."""

    def __init__(self):
        self.below, self.bytes, self.ran, self.names = {}, 0, 0, []

    def add(self, parts, size, name):
        """`name` where it was executed."""
        node = self
        node.count(size, name)
        for part in parts:
            node = node.below.setdefault(part, Node())
            node.count(size, name)

    def count(self, size, name):
        self.bytes += size
        if name:
            self.ran += size
            self.names.append(name)

    def patterns(self, prefix="", depth=0):
        if not self.ran:
            return
        if not self.below:
            yield prefix, self
        elif depth > 2 and self.ran >= SHARE * self.bytes:
            yield prefix + "*", self
        else:
            for part, node in self.below.items():
                yield from node.patterns(prefix + part, depth + 1)


def hashed(pattern, name):
    """The one function of those that a pattern matches, by the beginning of its hash."""
    found = re.search(r"17h[0-9a-f]{16}E", name)
    return found and re.match(r"(unlikely\.)?_ZN.{,12}", pattern)[0] + f"*{found[0][:10]}*"


def tokens(name):
    """A mangled name in parts, as a pattern that holds for other hashes and crates' ids."""
    name = re.sub(r"\.llvm\.\d+$", "", name)
    if name.startswith("_R"):
        name = re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name)
        return re.findall(r"[A-Z]|[^A-Z]+", name) + ["*"]
    if not name.startswith("_ZN"):
        return re.findall(r"[A-Z_][^A-Z_]*|[^A-Z_]+", name) + [""]
    parts, rest = ["_ZN"], name[3:]
    while number := re.match(r"\d+", rest):
        end = number.end() + int(number[0])
        word, rest = rest[:end], rest[end:]
        if re.fullmatch(r"17h[0-9a-f]{16}", word):
            break
        # Types within a name: cut there, and let another type's length be as good.
        if "$" in word or ".." in word:
            word = "?" * number.end() + word[number.end():]
        parts += re.findall(r".*?(?:\$LT\$|\.\.|u20\$)|.+", word)
    return parts + ["17h*"]


# --- the check


def check(binary, addresses):
    mapped = len({address // AROUND for address in addresses}) * AROUND / (1 << 20)
    touched = len({address // PAGE for address in addresses}) * PAGE / (1 << 20)
    print(
        f"serving executes {len(addresses)} instructions on {touched:.1f} MiB of pages, for which"
        f" {mapped:.1f} MiB of the program are mapped (at most {MOST})"
    )
    if mapped > MOST:
        sys.exit("order: too much of the program is mapped; bench/order makes the list anew")


main(sys.argv[1:])
