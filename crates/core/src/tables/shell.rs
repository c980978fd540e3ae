//! The effect of a shell command line: it reads, writes or polls, if that is plain to see.
//!
//! This is no shell. It splits at `;`, `&&`, `||`, `|`, `&` and newlines outside quotes, and looks
//! at the first words of each part. Anything that it does not understand (substitutions, unknown
//! programs, interpreters) makes the whole line unknown, never "reads".

use super::{TableWord, ToolKind, w};

/// The longest command line that is parsed; longer lines (here-documents, mostly) are unknown.
const MAX_BYTES: usize = 4096;

/// Programs that only read, sorted. Source of all: their manual pages.
pub(super) static READERS: &[TableWord] = &[
    w("[", "POSIX"),
    w("ack", "ack(1)"),
    w("ag", "ag(1)"),
    w("awk", "POSIX; without output of its own"),
    w("basename", "POSIX"),
    w("bat", "bat(1)"),
    w("cat", "POSIX"),
    w("cd", "POSIX"),
    w("cmp", "POSIX"),
    w("comm", "POSIX"),
    w("cut", "POSIX"),
    w("date", "POSIX"),
    w("df", "POSIX"),
    w("diff", "POSIX"),
    w("dirname", "POSIX"),
    w("du", "POSIX"),
    w("echo", "POSIX"),
    w("egrep", "grep(1)"),
    w("env", "POSIX"),
    w("eza", "eza(1)"),
    w("false", "POSIX"),
    w("fd", "fd(1)"),
    w("fgrep", "grep(1)"),
    w("file", "POSIX"),
    w("find", "POSIX; without -delete and -exec"),
    w("git", "git(1), by its subcommand"),
    w("grep", "POSIX"),
    w("head", "POSIX"),
    w("id", "POSIX"),
    w("jq", "jq(1)"),
    w("less", "less(1)"),
    w("ls", "POSIX"),
    w("md5sum", "coreutils"),
    w("more", "POSIX"),
    w("nl", "POSIX"),
    w("od", "POSIX"),
    w("printenv", "coreutils"),
    w("printf", "POSIX"),
    w("ps", "POSIX"),
    w("pwd", "POSIX"),
    w("readlink", "coreutils"),
    w("realpath", "coreutils"),
    w("rg", "rg(1)"),
    w("sed", "POSIX; without -i"),
    w("set", "POSIX"),
    w("sha256sum", "coreutils"),
    w("sort", "POSIX; without -o"),
    w("stat", "coreutils"),
    w("strings", "POSIX"),
    w("tail", "POSIX; a poll on -f and on logs"),
    w("test", "POSIX"),
    w("tr", "POSIX"),
    w("tree", "tree(1)"),
    w("true", "POSIX"),
    w("type", "POSIX"),
    w("uname", "POSIX"),
    w("uniq", "POSIX"),
    w("wc", "POSIX"),
    w("which", "which(1)"),
    w("whoami", "coreutils"),
    w("xxd", "xxd(1)"),
];

/// Subcommands of git that only read, sorted. Source: git's manual pages.
pub(super) static GIT_READERS: &[TableWord] = &[
    w("blame", "git-blame(1)"),
    w("cat-file", "git-cat-file(1)"),
    w("describe", "git-describe(1)"),
    w("diff", "git-diff(1)"),
    w("for-each-ref", "git-for-each-ref(1)"),
    w("grep", "git-grep(1)"),
    w("log", "git-log(1)"),
    w("ls-files", "git-ls-files(1)"),
    w("ls-remote", "git-ls-remote(1)"),
    w("ls-tree", "git-ls-tree(1)"),
    w("merge-base", "git-merge-base(1)"),
    w("rev-list", "git-rev-list(1)"),
    w("rev-parse", "git-rev-parse(1)"),
    w("shortlog", "git-shortlog(1)"),
    w("show", "git-show(1)"),
    w("status", "git-status(1)"),
];

/// Programs that change files, sorted. Source of all: their manual pages.
pub(super) static WRITERS: &[TableWord] = &[
    w("apply_patch", "Codex"),
    w("chmod", "POSIX"),
    w("chown", "POSIX"),
    w("cp", "POSIX"),
    w("dd", "POSIX"),
    w("ln", "POSIX"),
    w("mkdir", "POSIX"),
    w("mv", "POSIX"),
    w("patch", "POSIX"),
    w("rm", "POSIX"),
    w("rmdir", "POSIX"),
    w("rsync", "rsync(1)"),
    w("tee", "POSIX"),
    w("touch", "POSIX"),
    w("truncate", "coreutils"),
    w("unlink", "POSIX"),
];

/// First words of command lines that wait, or ask about progress.
pub(super) static POLLERS: &[TableWord] = &[
    w("sleep", "POSIX"),
    w("wait", "POSIX"),
    w("watch", "watch(1)"),
    w("gh run view", "gh-run-view(1)"),
    w("gh run watch", "gh-run-watch(1)"),
    w("gh run list", "gh-run-list(1)"),
    w("gh pr checks", "gh-pr-checks(1)"),
    w("kubectl wait", "kubectl wait"),
    w("kubectl rollout status", "kubectl rollout"),
    w("kubectl get", "kubectl get"),
    w("kubectl logs", "kubectl logs"),
    w("docker ps", "docker-ps(1)"),
    w("docker logs", "docker-logs(1)"),
    w("docker compose ps", "docker compose"),
    w("squeue", "Slurm"),
    w("sacct", "Slurm"),
    w("jobs", "POSIX"),
    w("pgrep", "pgrep(1)"),
    w("tail -f", "POSIX"),
    w("tail -F", "coreutils"),
];

/// First words of command lines that only read, if the program alone does not decide.
pub(super) static READ_OPENINGS: &[TableWord] = &[
    w("cargo metadata", "cargo-metadata(1)"),
    w("cargo tree", "cargo-tree(1)"),
    w("docker images", "docker-images(1)"),
    w("gh issue list", "gh-issue-list(1)"),
    w("gh issue view", "gh-issue-view(1)"),
    w("gh pr diff", "gh-pr-diff(1)"),
    w("gh pr list", "gh-pr-list(1)"),
    w("gh pr view", "gh-pr-view(1)"),
    w("gh repo view", "gh-repo-view(1)"),
    w("git config --get", "git-config(1)"),
    w("git config --list", "git-config(1)"),
    w("git stash list", "git-stash(1)"),
    w("git worktree list", "git-worktree(1)"),
    w("npm ls", "npm-ls(1)"),
    w("pip list", "pip"),
    w("pip show", "pip"),
];

/// Returns the effect of a command line: `Writes` if any part writes, else unknown if any part is
/// unknown, else `Polls` if any part waits, else `Reads`.
#[must_use]
pub fn shell_kind(command: &str) -> Option<ToolKind> {
    let command = unwrap_shell(command.trim());
    if command.is_empty() || command.len() > MAX_BYTES {
        return None;
    }
    let (mut unknown, mut polls, mut writes) = (false, false, false);
    for part in (SimpleCommands { rest: command }) {
        match part_kind(part) {
            Some(ToolKind::Writes) => writes = true,
            Some(ToolKind::Polls) => polls = true,
            Some(ToolKind::Reads) => {}
            Some(ToolKind::Shell) | None => unknown = true,
        }
    }
    match (writes, unknown, polls) {
        (true, _, _) => Some(ToolKind::Writes),
        (_, true, _) => None,
        (_, _, true) => Some(ToolKind::Polls),
        _ => Some(ToolKind::Reads),
    }
}

/// Turns `bash -lc '…'` into `…`.
fn unwrap_shell(command: &str) -> &str {
    let shells = ["bash -lc ", "bash -c ", "sh -c ", "zsh -lc ", "zsh -c "];
    let Some(inner) = shells.iter().find_map(|start| command.strip_prefix(start)) else {
        return command;
    };
    let inner = inner.trim();
    let quoted = |quote: char| inner.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"')).unwrap_or(inner)
}

/// The simple commands of a line, in order.
struct SimpleCommands<'a> {
    rest: &'a str,
}

impl<'a> Iterator for SimpleCommands<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let end = find_separator(self.rest).unwrap_or(self.rest.len());
            let part = self.rest.get(..end)?.trim();
            let rest = self.rest.get(end..)?;
            self.rest = rest.trim_start_matches([';', '&', '|', '\n', ' ', '\t', '\r']);
            if !part.is_empty() {
                return Some(part);
            }
        }
    }
}

/// Returns the position of the first `;`, `|`, `&` or newline outside quotes, backslashes and
/// redirections (`2>&1`, `&>file`).
fn find_separator(text: &str) -> Option<usize> {
    let mut before = b' ';
    for (at, byte) in UnquotedBytes::new(text) {
        let next = text.as_bytes().get(at + 1);
        let redirects = byte == b'&' && (before == b'>' || next == Some(&b'>'));
        if matches!(byte, b';' | b'|' | b'&' | b'\n') && !redirects {
            return Some(at);
        }
        before = byte;
    }
    None
}

/// The bytes of a command outside quotes, with their positions.
struct UnquotedBytes<'a> {
    bytes: core::iter::Enumerate<core::str::Bytes<'a>>,
    quote: Option<u8>,
}

impl<'a> UnquotedBytes<'a> {
    fn new(text: &'a str) -> Self {
        Self { bytes: text.bytes().enumerate(), quote: None }
    }
}

impl Iterator for UnquotedBytes<'_> {
    type Item = (usize, u8);

    fn next(&mut self) -> Option<(usize, u8)> {
        loop {
            let (at, byte) = self.bytes.next()?;
            match (self.quote, byte) {
                (None, b'\'' | b'"') => self.quote = Some(byte),
                (None | Some(b'"'), b'\\') => {
                    self.bytes.next();
                }
                (None, _) => return Some((at, byte)),
                (Some(quote), _) if quote == byte => self.quote = None,
                (Some(_), _) => {}
            }
        }
    }
}

fn part_kind(part: &str) -> Option<ToolKind> {
    if part.starts_with('#') {
        // An apostrophe in a comment would hide the lines after it.
        return (!part.contains('\n')).then_some(ToolKind::Reads);
    }
    if has_substitution(part) {
        return None;
    }
    if redirects_to_file(part) {
        return Some(ToolKind::Writes);
    }
    let part = without_assignments(part);
    if part.is_empty() {
        return Some(ToolKind::Reads);
    }
    if POLLERS.iter().any(|row| opens_with_words(part, row.word)) {
        return Some(ToolKind::Polls);
    }
    if READ_OPENINGS.iter().any(|row| opens_with_words(part, row.word)) {
        return Some(ToolKind::Reads);
    }
    let mut words = part.split_ascii_whitespace();
    let program = words.next()?;
    let program = program.rsplit('/').next().unwrap_or(program);
    if has_word(WRITERS, program) {
        return Some(ToolKind::Writes);
    }
    if !has_word(READERS, program) {
        return None;
    }
    reader_kind(program, part, words)
}

/// Returns the effect of a reader, some of which write, poll or run programs with some arguments.
fn reader_kind<'a>(
    program: &str,
    part: &str,
    mut words: impl Iterator<Item = &'a str>,
) -> Option<ToolKind> {
    let has = |marks: &[&str]| marks.iter().any(|mark| part.contains(mark));
    let (writes, unknown) = match program {
        "git" => return git_kind(words),
        "env" => (false, words.next().is_some()),
        "sed" => {
            (words.any(|w| has_flag(w, 'i', "--in-place")), has(&["/w ", "'w ", "\"w ", ";w "]))
        }
        "sort" => (words.any(|w| has_flag(w, 'o', "--output")), false),
        "tree" => (words.any(|w| has_flag(w, 'o', "--output")), false),
        "uniq" => (words.filter(|w| !w.starts_with('-')).count() > 1, false),
        "date" => (false, words.any(|w| has_flag(w, 's', "--set"))),
        "xxd" => (false, words.any(|w| has_flag(w, 'r', "--revert"))),
        "awk" => (false, has(&[">", "system(", "| \"", "inplace"])),
        "find" => (false, has(&[" -delete", " -exec", " -ok", " -fprint", " -fls"])),
        "fd" => (false, words.any(|w| has_flag(w, 'x', "--exec") || has_flag(w, 'X', "--exec"))),
        // A log is read again to check progress.
        "tail" if words.any(|w| w.ends_with(".log") || w.ends_with(".out")) => {
            return Some(ToolKind::Polls);
        }
        _ => (false, false),
    };
    match (writes, unknown) {
        (true, _) => Some(ToolKind::Writes),
        (_, true) => None,
        _ => Some(ToolKind::Reads),
    }
}

/// Returns true if a word holds a short flag, alone or in a cluster (`-ni`), or the long one.
fn has_flag(word: &str, short: char, long: &str) -> bool {
    let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    word.starts_with(long) || cluster.is_some_and(|rest| rest.contains(short))
}

fn git_kind<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<ToolKind> {
    let mut subcommand = words.next()?;
    while subcommand.starts_with('-') {
        // `-C DIR` and `-c KEY=VALUE` take a word; `--no-pager` and the like take none.
        if matches!(subcommand, "-C" | "-c") {
            words.next()?;
        }
        subcommand = words.next()?;
    }
    let mut flags = words;
    match subcommand {
        _ if has_word(GIT_READERS, subcommand) => {
            let to_file = flags.any(|word| word.starts_with("--output"));
            Some(if to_file { ToolKind::Writes } else { ToolKind::Reads })
        }
        "branch" | "remote" | "tag" => {
            let lists = ["-a", "-r", "-v", "-vv", "-l", "--list", "--all", "--show-current"];
            flags.all(|word| lists.contains(&word)).then_some(ToolKind::Reads)
        }
        "add" | "commit" | "push" | "pull" | "merge" | "rebase" | "reset" | "checkout"
        | "switch" | "restore" | "rm" | "mv" | "cherry-pick" | "revert" | "clean" | "apply"
        | "am" | "clone" | "init" => Some(ToolKind::Writes),
        _ => None,
    }
}

/// Returns true for `$(…)` or backticks, also within double quotes: their commands are not parsed.
fn has_substitution(part: &str) -> bool {
    part.contains("$(") || part.contains('`') || part.contains("<(") || part.contains("<<")
}

/// Returns true for a `>` outside quotes that leads to a file, not to `/dev/null` or another
/// descriptor.
fn redirects_to_file(part: &str) -> bool {
    UnquotedBytes::new(part).any(|(at, byte)| {
        let target = part.get(at + 1..).unwrap_or("").trim_start_matches(['>', '|', ' ']);
        byte == b'>' && !target.starts_with('&') && !target.starts_with("/dev/null")
    })
}

/// Turns `A=1 B=2 time program …` into `program …`.
fn without_assignments(part: &str) -> &str {
    let mut rest = part.trim_start_matches(['(', '{', '!', ' ']);
    loop {
        let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let name = word.split_once('=').map(|(name, _)| name);
        let assigns = name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
        });
        if !assigns && !matches!(word, "time" | "command" | "nohup" | "nice") {
            return rest.trim_end_matches([')', '}', ' ']);
        }
        rest = after.trim_start();
    }
}

fn opens_with_words(part: &str, words: &str) -> bool {
    // Nearly every row differs in the first letter.
    let same = part.as_bytes().first() == words.as_bytes().first();
    let rest = if same { part.strip_prefix(words) } else { None };
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', ')']))
}

fn has_word(table: &[TableWord], word: &str) -> bool {
    table.binary_search_by(|row| row.word.cmp(word)).is_ok()
}
