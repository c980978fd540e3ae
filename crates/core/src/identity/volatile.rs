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
const TEMPORARY: [&str; 6] =
    ["/tmp/", "/var/folders/", "/var/tmp/", "\\Temp\\", "/Temp/", "/dev/shm/"];

/// The beginnings of names below a folder of temporary files that are folders of such names again.
const NESTED: [&str; 1] = ["pytest-of-"];

/// Programs that write their process id behind their name, as in `(node:4013)`.
const RUNTIMES: [&str; 4] = ["node", "bun", "deno", "electron"];

/// The fewest characters of an id of letters and digits, such as that of a request.
const ID_LENGTH: usize = 16;

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
        .flat_map(split_escapes)
        // Members of JSON.
        .flat_map(|part| part.split(",\""))
        .filter(|word| !word.is_empty())
}

/// Splits a part at the escapes `\n` and `\t`, but not at the folders of a path of Windows
/// (`C:\new\tmp`).
fn split_escapes(part: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(part);
    let is_path = holds_windows_path(part);
    core::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(at) = find_escape(text).filter(|_| !is_path) else { return Some(text) };
        rest = text.get(at + 2..);
        text.get(..at)
    })
}

/// Returns the place of the first `\n` or `\t` whose backslash is not itself escaped.
fn find_escape(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find('\\').map(|at| from + at) {
        match text.as_bytes().get(at + 1) {
            Some(b'n' | b't') => return Some(at),
            Some(b'\\') => from = at + 2,
            _ => from = at + 1,
        }
    }
    None
}

/// Returns true for a path with a drive that is written without escapes.
fn holds_windows_path(part: &str) -> bool {
    let drive = |bytes: &[u8]| match bytes {
        [letter, b':', b'\\', next] => letter.is_ascii_alphabetic() && *next != b'\\',
        _ => false,
    };
    part.as_bytes().windows(4).any(drive)
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
    if is_placed_id(word, bare, before, next) {
        return ("", "");
    }
    if let Some(name) = name_before_id(bare) {
        return (name, "");
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
    if let Some((name, number)) = bare.split_once(['=', ':'])
        && is_number(number)
        && (is_numbered(trim_marks(name), number) || (RUNTIMES.contains(&name) && word != bare))
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

/// Returns true for a number that is a process's, a thread's or a time by where it stands.
fn is_placed_id(word: &str, bare: &str, before: &str, next: &str) -> bool {
    // Rust: `thread 'main' (4013) panicked at`.
    let of_thread = word.starts_with('(') && is_number(bare) && next.starts_with("panicked");
    // Logs of Google's libraries: `E1128 10:00:01.000997  4013 server.go:21] refused`.
    let letter = bare.trim_start_matches(['I', 'W', 'E', 'F']);
    let of_glog = letter.len() == 4 && bare.len() == 5 && is_number(letter) && is_clock(next);
    let of_glog = of_glog || (is_number(bare) && is_clock(before) && next.ends_with(']'));
    // The kernel: `[  12.000000] usb 1-1`. The seconds have six digits of a fraction.
    let fraction = bare.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let bracket = word.starts_with('[') || before == "[";
    let of_kernel = bracket && word.ends_with(']') && fraction == 6 && is_decimal(bare);
    of_thread || of_glog || of_kernel
}

/// Returns the part of a word before an id at its end: `request_id":"req_` of a request's,
/// `Foo@` of an object's in Java.
fn name_before_id(bare: &str) -> Option<&str> {
    let at = bare.rfind(['_', '-', ':', '=', '"', '@', '/']).map_or(0, |at| at + 1);
    let (name, id) = bare.split_at_checked(at)?;
    let digits = id.bytes().filter(u8::is_ascii_digit).count();
    let mixed = digits >= 3 && digits < id.len() && id.bytes().all(|b| b.is_ascii_alphanumeric());
    // A version (`left-pad@12`) is shorter.
    let of_object =
        name.ends_with('@') && id.len() > 4 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    ((mixed && id.len() >= ID_LENGTH) || of_object).then_some(name)
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
    // `20261128T100500`
    let compact = word.as_bytes().windows(15).any(|part| {
        let digits = part.iter().enumerate().all(|(at, byte)| match at {
            8 => matches!(byte, b'T' | b'-' | b'_'),
            _ => byte.is_ascii_digit(),
        });
        digits && (part.starts_with(b"20") || part.starts_with(b"19"))
    });
    compact
        || word.as_bytes().windows(10).any(|part| {
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
    let start = at + folder.len();
    let mut name_at = start;
    if *folder == "/var/folders/" {
        // The names of a user and of `T`, the user's folder, stand before it.
        let own = word.get(start..)?.find("/T/");
        name_at += own.map_or(0, |own| own + "/T/".len());
    }
    loop {
        // A backslash may be written as an escape.
        let rest = word.get(name_at..)?;
        let rest = rest.trim_start_matches('\\');
        name_at = word.len() - rest.len();
        let end = rest.find(['/', '\\', ':', ')', '"', '\'']).unwrap_or(rest.len());
        let name = rest.get(..end)?;
        let below = rest.get(end..)?;
        if NESTED.iter().any(|nested| name.starts_with(nested)) && below.starts_with(['/', '\\']) {
            name_at += end + 1;
            continue;
        }
        let random = name.bytes().any(|byte| byte.is_ascii_digit())
            || (name.bytes().any(|b| b.is_ascii_lowercase())
                && name.bytes().any(|b| b.is_ascii_uppercase()));
        return random.then(|| (word.get(..start).unwrap_or_default(), below));
    }
}

#[cfg(test)]
mod tests {
    use super::digest_failure;

    /// Pairs of failures that are the same, each with a third that is another.
    const FAILURES: &[(&str, &str, &str)] = &[
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
        ("pid:12 died", "pid:13 died", "code:13 died"),
        ("(node:4000) Warning: x", "(node:4013) Warning: x", "(line:4013) Warning: x"),
        (
            "thread 'main' (40000) panicked at a.rs:5:9",
            "thread 'main' (40013) panicked at a.rs:5:9",
            "thread 'main' (40000) panicked at a.rs:6:9",
        ),
        ("found (3) errors", "found (3) errors", "found (4) errors"),
        (
            "E1128 10:00:01.000997  4000 server.go:21] refused",
            "E1129 10:00:02.001997  4013 server.go:21] refused",
            "E1128 10:00:01.000997  4000 server.go:22] refused",
        ),
        ("E1128 of the compiler", "E1128 of the compiler", "E1129 of the compiler"),
        (
            "{\"level\":50,\"time\":1767000000000,\"pid\":4000,\"msg\":\"boom\"}",
            "{\"level\":50,\"time\":1767000001234,\"pid\":4001,\"msg\":\"boom\"}",
            "{\"level\":40,\"time\":1767000000000,\"pid\":4000,\"msg\":\"boom\"}",
        ),
        ("[  12.000000] usb 1-1: no", "[  13.000777] usb 1-1: no", "[  12.000000] usb 1-2: no"),
        ("[12.5] is bad", "[12.5] is bad", "[13.5] is bad"),
        ("20261128T100500Z boom", "20261128T100601Z boom", "20261128T100500Z bang"),
        ("id 20261128 is bad", "id 20261128 is bad", "id 20261129 is bad"),
        (
            "ENOENT /var/folders/zz/abc12/T/tmp1a2b/a.js",
            "ENOENT /var/folders/zz/abc77/T/tmp9f3c/a.js",
            "ENOENT /var/folders/zz/abc12/T/tmp1a2b/b.js",
        ),
        (
            "/tmp/pytest-of-root/pytest-1/test_a0 missing",
            "/tmp/pytest-of-root/pytest-12/test_a0 missing",
            "/tmp/pytest-of-root/pytest-1/test_a1 missing",
        ),
        ("/tmp/build/test_1.py bad", "/tmp/build/test_1.py bad", "/tmp/build/test_2.py bad"),
        (
            "C:\\Users\\me\\AppData\\Local\\Temp\\tmp1a2b\\a.txt not found",
            "C:\\Users\\me\\AppData\\Local\\Temp\\tmp9f3c\\a.txt not found",
            "C:\\Users\\me\\AppData\\Local\\Temp\\tmp1a2b\\b.txt not found",
        ),
        (
            "\"C:\\\\Local\\\\Temp\\\\nod1a2b\\\\a.txt\"",
            "\"C:\\\\Local\\\\Temp\\\\nod9f3c\\\\a.txt\"",
            "\"C:\\\\Local\\\\Temp\\\\nod1a2b\\\\b.txt\"",
        ),
        ("C:\\new\\n5 bad", "C:\\new\\n5 bad", "C:\\new\\n6 bad"),
        (
            "{\"error\":\"bad\",\"request_id\":\"req_0a1b2c3d4e5f60718293a4b5\"}",
            "{\"error\":\"bad\",\"request_id\":\"req_f0a1b2c3d4e5f60718293a4b\"}",
            "{\"error\":\"worse\",\"request_id\":\"req_0a1b2c3d4e5f60718293a4b5\"}",
        ),
        (
            "denied (Request ID: 0A1B2C3D4E5F6071)",
            "denied (Request ID: F0A1B2C3D4E5F607)",
            "denied (Device ID: 0A1B2C3D4E5F6071)",
        ),
        (
            "Running src/lib.rs (target/debug/deps/a-0a1b2c3d4e5f6071)",
            "Running src/lib.rs (target/debug/deps/a-f0a1b2c3d4e5f607)",
            "Running src/lib.rs (target/debug/deps/b-0a1b2c3d4e5f6071)",
        ),
        ("Error: Foo@1a2b3c", "Error: Foo@1a2b89", "Error: Bar@1a2b3c"),
        ("no left-pad@12", "no left-pad@12", "no left-pad@13"),
        ("FAIL test_addition_12", "FAIL test_addition_12", "FAIL test_addition_13"),
        (
            "expected delay 100, got 150",
            "expected delay 100, got 150",
            "expected delay 100, got 145",
        ),
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
    ];

    #[test]
    fn what_differs_from_run_to_run_is_left_out_and_findings_are_not() {
        for (one, again, other) in FAILURES {
            assert_eq!(digest_failure(one), digest_failure(again), "{one} / {again}");
            assert_ne!(digest_failure(one), digest_failure(other), "{one} / {other}");
        }
    }

    #[test]
    fn any_text_has_an_identity() {
        for text in [
            "",
            " ",
            "\\",
            "\\\\",
            "C:\\",
            "é:\\n",
            "@",
            "/var/folders/",
            "/tmp/pytest-of-",
            "/tmp/pytest-of-a/",
            "(1)",
            "[",
            "]:",
            "0x",
            "=",
            ":",
            "/tmp/",
            "é1é",
            "1é",
            "-",
            "1-2-3-4-5",
        ] {
            assert_eq!(digest_failure(text), digest_failure(text), "{text}");
        }
    }
}
