"""Tries packages as people install them: in empty folders and environments, without a network."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path

import softland_build as build

sys.path.insert(0, str(build.ROOT / "tests/clients"))
from harness.install import NotHere, installed  # noqa: E402

RUN = ["run", "examples/analyst.md", "What did we decide about pricing?", "--root", "examples/notes", "--format", "json"]
# A landed run in this process: the vendor's SDK with a loop of its own, of python/tests.
IN_PROCESS = """
import json, re, subprocess, sys
import softland
from loops import clients, run_loop
import httpx2
command = ["softland", "sim", "--listen", "127.0.0.1:0", "--scenario", "looper"]
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
try:
    url = re.search(r"http://[0-9.:]+", server.stderr.readline())[0]
    softland.install(hosts=[url.removeprefix("http://")], tool_calls_limit=4, repeat_limit=50)
    with softland.run() as run:
        run_loop(clients("anthropic", url, httpx2.Client()), "anthropic")
finally:
    server.terminate()
    server.wait()
print(json.dumps({"outcome": run.outcome, "answered_by": run.answered_by, "file": softland.__file__}))
"""
# From the installer's start to a landed run.
SECONDS = 20
MACHINES = {"x64": 62, "arm64": 183}
GLIBC = re.compile(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)")


def try_packages(dist, here, names, timed):
    """Tries what is in `dist` for these platforms, of which `here` is this machine's. The time is held
    only where the program is as small as it will be installed."""
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        shutil.copytree(build.ROOT / "examples", work / "examples")
        for name in names:
            wheel = find_wheel(dist, name)
            if name.startswith("linux"):
                check_program(wheel, name)
            if name == here:
                try_wheel(dist, work, timed)
                try_uvx(dist, work)
                if any(dist.glob("*.tgz")):
                    try_npm(dist, name, work, timed)
            elif name == "linux-arm64":
                try_emulated(wheel, work)


def find_wheel(dist, name):
    system, machine = name.split("-")
    system = {"linux": "manylinux", "darwin": "macosx", "win32": "win"}[system]
    machine = {"x64": "x86_64|amd64", "arm64": "aarch64|arm64"}[machine]
    [wheel] = [path for path in dist.glob("*.whl") if re.search(f"-{system}_.*({machine})\\.whl$", path.name)]
    return wheel


def check_program(wheel, name):
    """Program and module in the wheel are for the machine, and need no newer glibc than its tag says."""
    promised = int(re.search(r"manylinux_2_(\d+)_", wheel.name).group(1))
    needed = {}
    with zipfile.ZipFile(wheel) as files, tempfile.TemporaryDirectory() as folder:
        for end in ["/scripts/softland", "softland/_native.abi3.so"]:
            [member] = [entry for entry in files.infolist() if entry.filename.endswith(end)]
            program = Path(files.extract(member, folder))
            machine = int.from_bytes(program.read_bytes()[18:20], "little")
            expect(machine == MACHINES[name.split("-")[1]], f"{wheel.name}: {end} is for the ELF machine {machine}")
            expect(member.external_attr >> 16 & 0o111 == 0o111, f"{member.filename} is not executable")
            needed[end] = newest_glibc(program)
    expect(max(needed.values()) <= promised, f"{wheel.name} needs newer glibcs: {needed}")
    print(f"ok  {wheel.name}: needs glibc 2.{max(needed.values())}")


def newest_glibc(program):
    """The second number of the newest glibc whose symbols an ELF program asks for."""
    return max(int(found) for found in GLIBC.findall(program.read_bytes()))


def try_wheel(dist, work, timed):
    folder = work / "venv"
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    environment = clean_environment(work, commands)
    since = time.monotonic()
    pip = [commands / "python", "-m", "pip", "--disable-pip-version-check"]
    call([*pip, "install", "--quiet", "--no-index", "--find-links", dist, "softland-ai"], work, environment)
    land(["softland"], work, environment)
    how = land_in_process(folder, work, environment)
    took = time.monotonic() - since
    expect(took < SECONDS or not timed, f"from pip install to landed runs it took {took:.1f} s")
    for command in [["softland"], ["softland-ai"], ["python", "-m", "softland_ai"]]:
        try_command(command, work, environment)
    call([*pip, "uninstall", "--quiet", "--yes", "softland-ai"], work, environment)
    left = [path.name for path in [*commands.glob("softland*"), *folder.glob("lib/*/site-packages/softland*")]]
    expect(not left, f"pip uninstall leaves {left}")
    print(f"ok  pip: from pip install to a landed run of the command, and {how}, in {took:.1f} s")


def land_in_process(folder, work, environment):
    """A run of an SDK lands in a process that imports the module as installed; returns what was tried."""
    code = "import softland; softland.install(tool_calls_limit=3); print(softland.__version__)"
    said = call(["python", "-c", code], work, environment)
    expect(said.strip() == build.VERSION, f"the module's version is {said}")
    try:
        packages = installed("python-module.txt")
    except NotHere as why:
        return f"the import of the module (no run in process: {why})"
    paths = [str(packages), str(build.ROOT / "python/tests")]
    environment = environment | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    end = json.loads(call(["python", "-c", IN_PROCESS], work, environment))
    expect((end["outcome"], end["answered_by"]) == ("landed", "model"), f"the run in process ended so: {end}")
    expect(Path(end["file"]).is_relative_to(folder.resolve()), f"another module was imported: {end}")
    return "one in process"


def try_uvx(dist, work):
    """`uvx softland-ai`, with the uv of this machine or PyPI's."""
    uvx = shutil.which("uvx")
    if uvx is None:
        folder = work / "uv"
        venv.create(folder, with_pip=True)
        commands = folder / ("Scripts" if os.name == "nt" else "bin")
        command = [commands / "python", "-m", "pip", "install", "--quiet", "uv"]
        if subprocess.run(command, stdin=subprocess.DEVNULL).returncode != 0:
            print("skipped  uvx: there is no uv here, and PyPI has not given one")
            return
        uvx = commands / "uvx"
    environment = clean_environment(work, Path(uvx).parent) | {"UV_PYTHON": sys.executable}
    try_command([uvx, "--no-index", "--find-links", dist, "softland-ai"], work, environment)
    print("ok  uvx softland-ai")


def try_npm(dist, name, work, timed):
    folder = work / "node"
    folder.mkdir()
    shutil.copytree(work / "examples", folder / "examples")
    npm, npx = shutil.which("npm"), shutil.which("npx")
    environment = clean_environment(work, Path(shutil.which("node")).parent)
    environment["npm_config_cache"] = str(work / "npm-cache")
    main, program = (dist / f"{package}-{build.VERSION}.tgz" for package in ["softland", f"softland-{name}"])
    install = [npm, "install", "--offline", "--no-audit", "--no-fund", "--silent"]
    since = time.monotonic()
    call([*install, main, program], folder, environment)
    land([npx, "softland"], folder, environment)
    took = time.monotonic() - since
    expect(took < SECONDS or not timed, f"from npm install to a landed run it took {took:.1f} s")
    try_command([npx, "softland"], folder, environment)
    if os.name == "posix":
        for number in [signal.SIGTERM, signal.SIGINT]:
            try_signal(number, ["node_modules/.bin/softland"], folder, environment)
    shutil.rmtree(folder / f"node_modules/softland-{name}")
    said = call([npx, "softland", "--version"], folder, environment, status=1)
    expect(f"softland-{name} is missing" in said, f"without its program npm's package says: {said}")
    print(f"ok  npm: from npm install to a landed run in {took:.1f} s")


def try_emulated(wheel, work):
    """The program for arm64, by qemu with the libraries of Debian's libc6-arm64-cross."""
    libraries = Path("/usr/aarch64-linux-gnu")
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None or not libraries.exists():
        print("skipped  the program for arm64: no qemu-user-static and libc6-arm64-cross here")
        return
    with zipfile.ZipFile(wheel) as files:
        [member] = [name for name in files.namelist() if name.endswith("/softland")]
        program = Path(files.extract(member, work / "arm64"))
    program.chmod(0o755)
    command = [qemu, "-L", libraries, program]
    environment = clean_environment(work, Path(qemu).parent)
    try_command(command, work, environment)
    land(command, work, environment)
    print("ok  linux-arm64: landed a run under qemu")


def land(command, work, environment):
    """A run on the simulator that reaches its limit and ends in the model's answer."""
    said = call([*command, *RUN], work, environment)
    end = json.loads(said.splitlines()[-1])
    expect((end["outcome"], end["answered_by"]) == ("landed", "model"), f"{command} ended so: {end}")


def try_command(command, work, environment):
    """The version is the workspace's, and the exit status is the program's."""
    said = call([*command, "--version"], work, environment)
    expect(said.strip() == f"softland {build.VERSION}", f"{command} --version says {said}")
    call([*command, "run", "--no-such-flag"], work, environment, status=2)


def try_signal(number, command, work, environment):
    """A signal to the launcher, which has no terminal here, ends the program behind it."""
    server = [*command, "sim", "--listen", "127.0.0.1:0"]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(server, cwd=work, env=environment, start_new_session=True, **streams)
    try:
        address = re.search(r"http://([\d.]+):(\d+)", process.stderr.readline())
        process.send_signal(number)
        process.wait(SECONDS)
        with socket.socket() as client:
            refused = client.connect_ex((address[1], int(address[2]))) != 0
        expect(refused, f"the program goes on behind a launcher that got the signal {number}")
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def clean_environment(work, commands):
    """What a new user's shell has: these commands, the system's, and a home without anything in it."""
    kept = {"LANG", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "TMP", "PATHEXT", "COMSPEC"}
    environment = {name: value for name, value in os.environ.items() if name.upper() in kept}
    home = work / "home"
    home.mkdir(exist_ok=True)
    environment |= {"HOME": str(home), "USERPROFILE": str(home), "APPDATA": str(home), "LOCALAPPDATA": str(home)}
    return environment | {"PATH": f"{commands}{os.pathsep}{os.defpath}"}


def call(command, work, environment, status=0):
    """Returns what a command prints, both streams where it fails; the exit status must be as given."""
    command = [str(part) for part in command]
    command[0] = shutil.which(command[0], path=environment["PATH"]) or command[0]
    streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8"}
    done = subprocess.run(command, cwd=work, env=environment, timeout=300, **streams)
    said = done.stdout if status == 0 else done.stdout + done.stderr
    expect(done.returncode == status, f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return said


def expect(holds, otherwise):
    if not holds:
        sys.exit(f"packages: {otherwise}")
