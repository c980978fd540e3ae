#!/usr/bin/env node
// The command `softland` of npm: runs the program of the package for this platform, which npm has
// installed beside this one as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { isatty } = require("node:tty");
const { optionalDependencies } = require("./package.json");

const PREFIX = "softland-";
const SOURCES = "https://github.com/softland/softland/blob/main/docs/install.md";

function findProgram() {
  const platform = `${process.platform}-${process.arch}`;
  const name = PREFIX + platform;
  const program = process.platform === "win32" ? "softland.exe" : "softland";
  if (!Object.hasOwn(optionalDependencies, name)) {
    const known = Object.keys(optionalDependencies).map((name) => name.slice(PREFIX.length));
    fail(`there is no program for ${platform}, only for ${known.join(", ")}`);
  }
  try {
    return require.resolve(`${name}/${program}`);
  } catch {
    const musl = process.platform === "linux" ? ", and npm leaves it out where the C library is not glibc" : "";
    fail(
      `the package ${name} is missing. It is an optional dependency: install without --omit=optional. ` +
        `A lock file of another platform may lack it${musl}`
    );
  }
}

function fail(what) {
  console.error(`softland: ${what}. Other ways to install: ${SOURCES}`);
  process.exit(1);
}

const child = spawn(findProgram(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => fail(`the program does not start: ${error.message}`));
// A terminal sends Ctrl-C to the program as well. Other signals reach this process alone.
const fromTerminal = [0, 1, 2].some(isatty);
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" || !fromTerminal) {
      child.kill(signal);
    }
  });
}
child.on("exit", (status, signal) => {
  if (signal === null) {
    process.exit(status);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
