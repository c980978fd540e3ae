//! The identity of a failure: its text without the tokens that differ from run to run. A command
//! that fails the same way is the same failure, whatever the time is, however long it took, and
//! whichever port, process id and temporary path it got.
//!
//! A number that may be a finding (`2 failed`, `got 1`, `line 12`) counts: fewer failed tests are
//! progress.

use crate::digest::Digest;

/// Words before a number that is a process's or an attempt's.
const NUMBERED: [&str; 12] = [
    "pid",
    "ppid",
    "tid",
    "process",
    "goroutine",
    "attempt",
    "attempts",
    "retry",
    "retries",
    "try",
    "tries",
    "port",
];

/// The fewest digits of a number that is no finding: a time in seconds since 1970 has ten.
const TIME_DIGITS: usize = 10;

/// The fewest digits of a hash: Git shows seven.
const HASH_DIGITS: usize = 7;

/// The smallest port of those that systems hand out (Linux begins at 32768).
const EPHEMERAL: u64 = 32_768;

/// Words behind a process id where a shell tells how its job ended.
const JOB_ENDS: [&str; 9] = [
    "Segmentation",
    "Aborted",
    "Killed",
    "Terminated",
    "Bus",
    "Floating",
    "Illegal",
    "Trace/breakpoint",
    "Hangup",
];

/// Units of durations, in the same word as the number or in the next one.
const UNITS: [&str; 22] = [
    "ns",
    "us",
    "µs",
    "ms",
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "m",
    "min",
    "mins",
    "minute",
    "minutes",
    "h",
    "hr",
    "hrs",
    "hour",
    "hours",
    "msec",
    "millisecond",
    "milliseconds",
];

/// The units that are none beside a number that stands alone: `5 s` is rare, and `2 m` is not time.
const SHORT_UNITS: [&str; 2] = ["m", "h"];

/// Folders of temporary files.
const TEMPORARY: [&str; 5] = ["/tmp/", "/var/folders/", "/var/tmp/", "\\Temp\\", "/dev/shm/"];

/// Returns the digest of the text of a failure.
#[must_use]
pub fn digest_failure(text: &str) -> Digest {
    let mut sum = Digest::from_bytes(b"failure");
    let mut before = "";
    let mut words = split_words(text).peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        let (kept, rest) = stable_parts(word, before, next);
        sum = sum
            .followed_by(Digest::from_bytes(kept.as_bytes()))
            .followed_by(Digest::from_bytes(rest.as_bytes()));
        before = word;
    }
    sum
}

/// Splits a text at white space, which may be written as an escape.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace())
        .flat_map(|part| part.split("\\n"))
        .flat_map(|part| part.split("\\t"))
        // Members of JSON.
        .flat_map(|part| part.split(",\""))
        .filter(|word| !word.is_empty())
}

/// Returns the parts of a word that are the same in every run. `before` and `next` are the words
/// beside it.
fn stable_parts<'w>(word: &'w str, before: &str, next: &str) -> (&'w str, &'w str) {
    if let Some(parts) = without_temporary_name(word) {
        return parts;
    }
    if !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return (word, "");
    }
    let bare = trim_marks(word);
    let is_id = is_address(bare) || is_uuid(bare) || is_hash(bare);
    if holds_date(word) || is_clock(bare) || is_duration(bare) || is_id || is_offset(word) {
        return ("", "");
    }
    if let Some((name, time)) = bare.rsplit_once([':', '='])
        && is_time_stamp(time)
    {
        return (name, "");
    }
    if let Some((name, port)) = bare.rsplit_once(':')
        && port.parse::<u64>().is_ok_and(|port| port >= EPHEMERAL)
    {
        return (name, "");
    }
    if let Some((name, number)) = bare.split_once('=')
        && is_number(number)
        && is_numbered(name, number)
    {
        return (name, "");
    }
    let unit = trim_marks(next);
    let lasts = UNITS.contains(&unit) && !SHORT_UNITS.contains(&unit);
    if is_time_stamp(bare) || (lasts && is_decimal(bare)) {
        return ("", "");
    }
    let (number, _) = bare.split_once('/').unwrap_or((bare, ""));
    if !is_number(number) {
        return without_bracketed_id(word);
    }
    // A process id before a message.
    if word.starts_with('[') && word.trim_end_matches(':').ends_with(']') && number.len() > 2 {
        return ("", "");
    }
    let is_job = JOB_ENDS.contains(&unit);
    match lasts || is_job || is_numbered(trim_marks(before), number) {
        true => ("", ""),
        false => (word, ""),
    }
}

/// Returns true if a number behind this word is another in every run.
fn is_numbered(name: &str, number: &str) -> bool {
    let known = NUMBERED.iter().any(|known| name.eq_ignore_ascii_case(known));
    let port = name.eq_ignore_ascii_case("port");
    known && (!port || number.parse::<u64>().is_ok_and(|port| port >= EPHEMERAL))
}

/// Returns a word without the marks around it.
fn trim_marks(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_decimal(word: &str) -> bool {
    let (whole, fraction) = word.split_once(['.', ',']).unwrap_or((word, "0"));
    is_number(whole) && is_number(fraction)
}

/// Returns true for a time in seconds or less since 1970.
fn is_time_stamp(word: &str) -> bool {
    let whole = word.split(['.', ',']).next().unwrap_or_default();
    is_decimal(word) && whole.len() >= TIME_DIGITS
}

/// Returns true for the name of a commit or of a container.
fn is_hash(word: &str) -> bool {
    let hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    let letters = word.bytes().any(|byte| byte.is_ascii_lowercase());
    word.len() >= HASH_DIGITS && word.bytes().all(hex) && letters
}

/// Returns true for a place in a function (`+0x1d`).
fn is_offset(word: &str) -> bool {
    let digits = word.strip_prefix("+0x").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true for a word with a date in it, such as a time stamp or the name of a log.
fn holds_date(word: &str) -> bool {
    word.as_bytes().windows(10).any(|part| {
        part.iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => matches!(byte, b'-' | b'/' | b'_'),
            _ => byte.is_ascii_digit(),
        })
    })
}

/// Returns true for a time of day to the second. A place in a file (`12:5`) has one colon.
fn is_clock(word: &str) -> bool {
    let (clock, fraction) = word.split_once(['.', ',']).unwrap_or((word, "0"));
    let fraction = fraction.trim_end_matches('Z');
    let mut groups = 0;
    let times = clock.split(':').all(|group| {
        groups += 1;
        is_number(group) && group.len() <= 2
    });
    times && groups == 3 && is_number(fraction)
}

/// Returns true for numbers with units of time (`0.04s`, `1m3.2s`).
fn is_duration(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let number =
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
        let units = number.trim_start_matches(char::is_alphabetic);
        let unit = number.get(..number.len() - units.len()).unwrap_or_default();
        if number.len() == rest.len() || !UNITS.contains(&unit) {
            return false;
        }
        rest = units;
    }
    !word.is_empty()
}

/// Returns true for an address in memory.
fn is_address(word: &str) -> bool {
    let digits = word.strip_prefix("0x").unwrap_or_default();
    digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(word: &str) -> bool {
    let lengths = word.split('-').map(|group| {
        if group.bytes().all(|byte| byte.is_ascii_hexdigit()) { group.len() } else { 0 }
    });
    lengths.eq([8, 4, 4, 4, 12])
}

/// Returns a word without the process id at its end (`node[4013]:`).
fn without_bracketed_id(word: &str) -> (&str, &str) {
    let found = word.strip_suffix("]:").and_then(|word| word.rsplit_once('['));
    match found {
        Some((name, id)) if is_number(id) && !name.is_empty() => (name, ""),
        _ => (word, ""),
    }
}

/// Returns a path without the name below a folder of temporary files, if the name is made up.
fn without_temporary_name(word: &str) -> Option<(&str, &str)> {
    let (folder, at) = TEMPORARY.iter().find_map(|folder| Some((folder, word.find(folder)?)))?;
    let name_at = at + folder.len();
    let rest = word.get(name_at..)?;
    let end = rest.find(['/', '\\', ':', ')', '"', '\'']).unwrap_or(rest.len());
    let name = rest.get(..end)?;
    let random = name.bytes().any(|byte| byte.is_ascii_digit())
        || (name.bytes().any(|b| b.is_ascii_lowercase())
            && name.bytes().any(|b| b.is_ascii_uppercase()));
    random.then(|| (word.get(..name_at).unwrap_or_default(), rest.get(end..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::digest_failure;

    /// Pairs of failures that are the same, each with a third that is another.
    #[test]
    fn what_differs_from_run_to_run_is_left_out_and_findings_are_not() {
        for (one, again, other) in [
            ("1 failed in 0.04s", "1 failed in 0.12s", "2 failed in 0.04s"),
            ("--- FAIL: TestA (0.00s)", "--- FAIL: TestA (0.01s)", "--- FAIL: TestB (0.00s)"),
            (
                "FAIL\texample.com/a\t0.003s",
                "FAIL\texample.com/a\t0.014s",
                "FAIL\texample.com/b\t0.003s",
            ),
            ("Total time:  1.2 s", "Total time:  13.0 s", "Total lines:  1.2 s"),
            (
                "goroutine 7 [running]: main.go:5 +0x1d",
                "goroutine 18 [running]: main.go:5 +0xc8",
                "goroutine 7 [running]: main.go:6 +0x1d",
            ),
            ("[3012] no bind", "[3013] no bind", "[3012] no port"),
            ("a[3] is bad", "a[3] is bad", "a[4] is bad"),
            (
                "{\"ts\":1700000001.123,\"msg\":\"no db\"}",
                "{\"ts\":1700000002.5,\"msg\":\"no db\"}",
                "{\"ts\":1700000001.123,\"msg\":\"no user\"}",
            ),
            ("no push of 12d6876", "no push of 3f0a9b1", "no pull of 12d6876"),
            ("container 0a1b2c3d4e5f is", "container ff00aa11bb22 is", "image 0a1b2c3d4e5f is"),
            ("needs 1.2.0", "needs 1.2.0", "needs 1.3.0"),
            ("1500 errors", "1500 errors", "1499 errors"),
            ("a_test.go:5: got 1", "a_test.go:5: got 1", "a_test.go:5: got 2"),
            ("a.js:12:5 error", "a.js:12:5 error", "a.js:14:5 error"),
            ("12:5 error in x", "12:5 error in x", "14:5 error in x"),
            ("10:03:11 ERROR no db", "10:03:12 ERROR no db", "10:03:11 ERROR no user"),
            ("10:03:11.123Z bad", "11:13:10.023Z bad", "10:03:11.123Z good"),
            (
                "see /srv/u/.npm/_logs/2026-01-01T10_01_037Z-debug-0.log",
                "see /srv/u/.npm/_logs/2026-01-02T11_01_137Z-debug-0.log",
                "look /srv/u/.npm/_logs/2026-01-01T10_01_037Z-debug-0.log",
            ),
            (
                "connect from 127.0.0.1 port 40007 failed after 3 ms",
                "connect from 127.0.0.1 port 40014 failed after 12 ms",
                "connect from 127.0.0.1 port 3000 failed after 3 ms",
            ),
            ("connect to 127.0.0.1:40007", "connect to 127.0.0.1:41007", "connect to 127.0.0.1:80"),
            (
                "line 3: 4013 Segmentation fault",
                "line 3: 4026 Segmentation fault",
                "line 4: 4013 Segmentation fault",
            ),
            ("node[4013]: no", "node[4014]: no", "deno[4013]: no"),
            ("array[4] is no", "array[4] is no", "array[5] is no"),
            ("pid=12 died", "pid=13 died", "code=13 died"),
            ("attempt 1 of 5: refused", "attempt 2 of 5: refused", "attempt 1 of 5: no route"),
            ("(attempt 1/5) refused", "(attempt 2/5) refused", "(step 2/5) refused"),
            ("/tmp/tmp12ab/a.py is bad", "/tmp/tmp77xx/a.py is bad", "/tmp/tmp12ab/b.py is bad"),
            ("cat: /tmp/list: none", "cat: /tmp/list: none", "cat: /tmp/dict: none"),
            ("at 0x7f3a21b0c0", "at 0x7f3a21b0d8", "at 0x10"),
            (
                "job 123e4567-e89b-12d3-a456-426614174000 failed",
                "job 223e4567-e89b-12d3-a456-426614174001 failed",
                "job 12 failed",
            ),
            ("took 3 seconds\nbad", "took 4 seconds\nbad", "took 3 seconds\nworse"),
            ("found 3 files", "found 3 files", "found 4 files"),
            ("3m2s ago, 1.5h", "2m1s ago, 3.5h", "3m2s past, 1.5h"),
            ("expected 5m high", "expected 5m high", "expected 5m low"),
            ("bad\\n1 failed in 0.1s\\n", "bad\\n1 failed in 0.2s\\n", "bad\\n2 failed in 0.1s\\n"),
        ] {
            assert_eq!(digest_failure(one), digest_failure(again), "{one} / {again}");
            assert_ne!(digest_failure(one), digest_failure(other), "{one} / {other}");
        }
    }

    #[test]
    fn any_text_has_an_identity() {
        for text in
            ["", " ", "\\", "[", "]:", "0x", "=", ":", "/tmp/", "é1é", "1é", "-", "1-2-3-4-5"]
        {
            assert_eq!(digest_failure(text), digest_failure(text), "{text}");
        }
    }
}
