//! Input as it comes: damaged, cut, foreign, looped. It is listed, and the rest is read.

use std::io::Write as _;

use super::common::{one, put, told, turns};
use flate2::{Compression, write::GzEncoder};

fn message(n: usize) -> String {
    format!(r#"{{"role":"assistant","content":"number {n}"}}"#)
}

fn lines(count: usize) -> String {
    (0..count).map(|n| message(n) + "\n").collect()
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(content).unwrap();
    packed.finish().unwrap()
}

#[test]
fn compressed_files_are_read_directly() {
    let text = lines(9);
    let members = [gz(text.as_bytes()), gz(lines(4).as_bytes())].concat();
    assert_eq!(turns(&one(members).1), 13, "several members");
    let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
    assert_eq!(turns(&one(packed).1), 9);
}

#[test]
fn a_file_that_is_cut_is_read_up_to_there() {
    let (_, steps, unreadable) = one(lines(3) + r#"{"role":"assistant","con"#);
    assert_eq!(turns(&steps), 3);
    assert_eq!(unreadable, ["4: the last line is cut"]);
    // A last line without its end is whole.
    assert_eq!(turns(&one(lines(2) + &message(3)).1), 3);
    let text: String = (0..20_000).map(|n| format!("{}\n", message(n * 7919))).collect();
    let packed = gz(text.as_bytes());
    let (_, steps, unreadable) = one(&packed[..packed.len() / 2]);
    assert!((1_000..19_999).contains(&turns(&steps)), "{}", turns(&steps));
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    assert!(unreadable[0].contains("damaged or cut"), "{unreadable:?}");
    let document = format!(r#"{{"messages":[{},{},{{"role":"assis"#, message(1), message(2));
    let (kind, steps, unreadable) = one(document);
    assert_eq!((kind, turns(&steps)), (Some("messages"), 2));
    assert_eq!(unreadable, ["1: the JSON ends too early"]);
}

#[test]
fn bytes_that_are_no_utf8_cost_no_file() {
    let mut text = lines(1).into_bytes();
    text.extend_from_slice(b"{\"role\":\"assistant\",\"content\":\"a\xff\xfeb\"}\n");
    text.extend_from_slice(lines(1).as_bytes());
    let (_, steps, unreadable) = one(&text);
    assert_eq!(turns(&steps), 3);
    assert!(unreadable[0].starts_with("2: not UTF-8"), "{unreadable:?}");
    let document = b"[{\"role\":\"assistant\",\"content\":\"\xff\"},{\"role\":\"assistant\",\"content\":\"b\"}]";
    let (_, steps, unreadable) = one(document);
    assert_eq!((turns(&steps), unreadable.len()), (2, 1));
}

#[test]
fn a_line_of_200_mb_is_passed_over() {
    let long = vec![b'a'; 200 << 20];
    let line = lines(1);
    let opening = b"{\"role\":\"assistant\",\"content\":\"";
    let text = [line.as_bytes(), opening, &long, b"\"}\n", line.as_bytes()];
    let (_, steps, unreadable) = one(gz(&text.concat()));
    assert_eq!(turns(&steps), 2);
    assert_eq!(unreadable, ["2: longer than 64 MiB"]);
    let head = format!("{{\"messages\":[{},", message(1));
    let (opening, last) = (b"{\"role\":\"user\",\"content\":\"", message(2));
    let parts = [head.as_bytes(), opening, &long, b"\"},", last.as_bytes(), b"]}"];
    let (_, steps, unreadable) = one(gz(&parts.concat()));
    assert_eq!(turns(&steps), 2);
    assert_eq!(unreadable, ["1: a message is longer than 64 MiB"]);
}

#[test]
fn what_is_no_recording_is_listed() {
    assert_eq!(one(""), (None, vec![], vec!["empty".to_owned()]));
    assert_eq!(one(" \n\n").2, ["empty"]);
    let unknown = "not a known kind of recording";
    assert_eq!(one(b"\x7fELF\0\0\x01\xff").2, [unknown]);
    assert_eq!(one(r#"{"some":"settings"}"#).2, [unknown]);
    assert_eq!(one("a,b,c\n1,2,3\n").2, [unknown]);
    assert_eq!(one("SQLite format 3\0 of another program").2, ["no SQLite file"]);
    let (kind, steps, unreadable) = one(lines(1) + "not json\n{\"a\":1}\n" + &lines(1));
    assert_eq!((kind, turns(&steps)), (Some("messages"), 2));
    assert_eq!(unreadable.len(), 2);
    assert!(unreadable[0].starts_with("2: invalid JSON"), "{unreadable:?}");
    assert_eq!(unreadable[1], "3: no message: it has no role");
}

#[test]
fn folders_are_walked_once_and_mixed_kinds_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "b/.hidden/x.txt", lines(2));
    put(folder.path(), "a", format!("\u{feff}{}", lines(1)));
    put(folder.path(), "c.jsonl", "");
    put(folder.path(), "d", r#"{"environment":"e","trajectory":[{"action":"a","response":"r"}]}"#);
    let missing = folder.path().join("missing");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("b/loop")).unwrap();
    let read = told(&[folder.path().to_owned(), missing.clone(), folder.path().join("a")]);
    let kinds: Vec<_> =
        read.sources.iter().map(|source| source.kind.map_or("?", |kind| kind.name())).collect();
    assert_eq!(kinds, ["messages", "messages", "?", "swe-agent"], "in order of names, each once");
    let listed: Vec<_> = read.unreadable.iter().map(|problem| problem.path.clone()).collect();
    assert_eq!(listed, [missing, folder.path().join("c.jsonl")]);
    assert!(read.sources.iter().all(|source| source.bytes > 0 || source.kind.is_none()));
}

#[test]
fn another_programs_database_is_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("CREATE TABLE a (b)").unwrap();
    let read = told(&[path]);
    assert_eq!(read.sources[0].kind, None);
    assert_eq!(read.unreadable[0].reason, "a SQLite file of another program");
}

#[test]
fn a_ledger_is_read_without_a_trace_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        r#"PRAGMA journal_mode = wal; PRAGMA application_id = 0x736f6674; PRAGMA user_version = 1;
        CREATE TABLE runs (id INTEGER PRIMARY KEY, run TEXT, session TEXT, agent TEXT, model TEXT);
        CREATE TABLE events (run_id, seq, at, turn, event, fields);
        CREATE TABLE requests (run_id, seq, at, turn, model, input, output, cache_read, cache_write, cost);
        INSERT INTO runs VALUES (1, 'r', 's', NULL, 'm');
        INSERT INTO events VALUES (1, 1, 5, 0, 'run_start', '{"model":"m"}');
        INSERT INTO requests VALUES (1, 2, 6, 1, 'm', 10, 2, 3, 4, 250000000);
        INSERT INTO requests VALUES (1, 3, 7, 2, NULL, 1, 1, 0, 0, NULL);
        INSERT INTO events VALUES (1, 4, 8, 2, 'done', '{"outcome":"answered"}');"#,
    )
    .unwrap();
    let expected = [
        "0 begin s run=r",
        "0 user machine",
        "0 turn chars=0 tokens=10/2/3/4 $0.25",
        "0 turn chars=0 tokens=1/1/0/0",
        "0 ended answered/",
        "0 end",
    ];
    let steps = |read: softland_import::Recordings<super::common::Told>| {
        assert_eq!(read.unreadable, []);
        read.sources.into_iter().next().unwrap().sink.unwrap().0
    };
    assert_eq!(steps(told(std::slice::from_ref(&path))), expected, "while it is written");
    drop(db);
    let content = std::fs::read(&path).unwrap();
    let packed = put(folder.path(), "ledger.zst", zstd::encode_all(&*content, 1).unwrap());
    assert_eq!(steps(told(std::slice::from_ref(&packed))), expected, "compressed");
    let whole = std::fs::read(&packed).unwrap();
    let cut = told(&[put(folder.path(), "ledger.zst", &whole[..whole.len() - 9])]);
    assert_eq!((cut.sources[0].kind, cut.unreadable.len()), (None, 1));
    assert!(cut.unreadable[0].reason.starts_with("damaged or cut: "), "{:?}", cut.unreadable);
    std::fs::remove_file(&packed).unwrap();
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    assert_eq!(steps(told(std::slice::from_ref(&path))), expected, "read-only");
    let beside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
}

#[test]
fn a_journal_that_is_broken_is_read_as_far_as_it_holds() {
    let answer = r#""messages":["{\"role\":\"assistant\",\"content\":\"fine\"}"],"nano":5"#;
    let text = [
        r#"{"v":1,"run":"r0","ms":0,"kind":"took"}"#.to_owned(),
        r#"{"v":1,"run":"r1","ms":0,"kind":"start","messages":["{",5]}"#.to_owned(),
        r#"{"v":1,"run":"r1","ms":1,"kind":"response","body":"data: {\"usage\":7}\n\ndata: {"}"#
            .to_owned(),
        format!(r#"{{"v":1,"run":"r1","ms":1,"kind":"took",{answer}}}"#),
        r#"{"v":1,"run":"r1","ms":2,"ki"#.to_owned(),
    ]
    .join("\n");
    let (kind, steps, unreadable) = one(text);
    assert_eq!(kind, Some("softland"));
    assert_eq!(steps, ["0 begin r1 run=r1", "0 user machine", "0 turn chars=4", "0 end"]);
    assert_eq!(
        unreadable,
        ["1: a record of a run whose beginning is not here", "5: the last line is cut"]
    );
}
