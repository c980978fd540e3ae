//! Instructions by Callgrind, and the file that keeps them: a line that says what they were
//! counted with, then a path and its instructions, with a tab between them.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::paths::{MOST, PATHS};

/// How much more than kept is too much, in percent; and how much less is worth keeping.
const MARGIN: u64 = 5;

/// Counts, and compares with the file. Where the tools are others than those of the file, it says
/// so and compares nothing: another compiler writes other instructions.
#[expect(clippy::print_stdout, reason = "this prints what was counted")]
pub(crate) fn check(file: &Path) -> Result<(), String> {
    let Some(tools) = tools()? else { return Ok(()) };
    crate::growth::check()?;
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let kept = Kept::read(&text)?;
    if kept.tools != tools {
        println!("skipped: counted with {}, here is {tools}", kept.tools);
        return Ok(());
    }
    let mut worse = Vec::new();
    for (name, what) in PATHS {
        let now = count(name)?;
        let Some(before) = kept.of(name) else {
            return Err(format!(
                "{name} is not in {}; `bench/instructions --update`",
                file.display()
            ));
        };
        let word = judge(before, now);
        println!("{word:<7} {name}: {now} instructions, kept {before} ({what})");
        if word == "FAIL" {
            worse.push(name);
        }
    }
    if worse.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more than {MARGIN} % over what is kept: {}. If it must be: `bench/instructions --update`",
        worse.join(", ")
    ))
}

/// Counts, and keeps.
#[expect(clippy::print_stdout, reason = "this prints what was counted")]
pub(crate) fn update(file: &Path) -> Result<(), String> {
    let Some(tools) = tools()? else { return Ok(()) };
    let mut text = format!("# {tools}\n");
    for (name, _) in PATHS {
        text += &format!("{name}\t{}\n", count(name)?);
    }
    print!("{text}");
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// `ok`, `FAIL`, or `better` where the kept figure should be renewed.
fn judge(before: u64, now: u64) -> &'static str {
    if now * 100 > before * (100 + MARGIN) {
        "FAIL"
    } else if now * 100 < before * (100 - MARGIN) {
        "better"
    } else {
        "ok"
    }
}

struct Kept {
    tools: String,
    counts: Vec<(String, u64)>,
}

impl Kept {
    fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let tools = lines.next().and_then(|line| line.strip_prefix("# "));
        let tools = tools.ok_or("the file does not begin with its tools")?.to_owned();
        let pair = |line: &str| {
            let (name, count) = line.split_once('\t')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        let counts: Option<_> = lines.map(pair).collect();
        Ok(Self { tools, counts: counts.ok_or("a line is no path, tab and number")? })
    }

    fn of(&self, name: &str) -> Option<u64> {
        self.counts.iter().find(|(kept, _)| kept == name).map(|(_, count)| *count)
    }
}

/// What decides on the instructions beside the code; `None`, and a line that says so, where they
/// cannot be counted.
#[expect(clippy::print_stdout, reason = "this prints what was not counted")]
fn tools() -> Result<Option<String>, String> {
    let Ok(valgrind) = said("valgrind", &["--version"]) else {
        println!("skipped: valgrind is not installed");
        return Ok(None);
    };
    let rustc = said("rustc", &["--version"])?;
    let rustc = rustc.split(" (").next().unwrap_or(&rustc).to_owned();
    let libc = said("getconf", &["GNU_LIBC_VERSION"]).unwrap_or_else(|_| "another libc".to_owned());
    // `memchr` and the C library take wider registers where the processor has them.
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let wide = if cpu.split_whitespace().any(|flag| flag == "avx2") { "avx2" } else { "no avx2" };
    Ok(Some(format!("{rustc}, {valgrind}, {libc}, {}, {wide}", env::consts::ARCH)))
}

fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(words).output();
    let out = out.map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Instructions of a path, once.
fn count(name: &str) -> Result<u64, String> {
    let (few, many) = (MOST / 4, MOST);
    let more = collected("run", name, many)?.saturating_sub(collected("run", name, few)?);
    Ok(more / (many - few) as u64)
}

/// All instructions of this program, so called.
pub(crate) fn collected(verb: &str, name: &str, number: usize) -> Result<u64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([verb, name, &number.to_string()])
        // So that what is on the stack, and where, does not depend on who runs this.
        .env_clear()
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("{name}: {said}"));
    }
    read_collected(&said).ok_or_else(|| format!("{name}: no count in: {said}"))
}

/// `==1== Collected : 123`
fn read_collected(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_a_margin() {
        assert_eq!(judge(1000, 1050), "ok");
        assert_eq!(judge(1000, 1051), "FAIL");
        assert_eq!(judge(1000, 950), "ok");
        assert_eq!(judge(1000, 949), "better");
    }

    #[test]
    fn files_and_counts_are_read() {
        let kept = Kept::read("# rustc 1, valgrind\nsse\t12\nrelay\t34\n").expect("a file");
        assert_eq!((kept.of("relay"), kept.of("none")), (Some(34), None));
        assert!(Kept::read("sse\t12\n").is_err() && Kept::read("# x\nsse 12\n").is_err());
        assert_eq!(read_collected("==9== \n==9== Collected : 4711\n"), Some(4711));
        assert_eq!(read_collected("nothing"), None);
    }
}
