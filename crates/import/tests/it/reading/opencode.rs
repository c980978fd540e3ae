//! opencode: its storage folder, its database, an export; each counted once.

use std::path::Path;

use super::common::{one, put, told, turns};

const ASSISTANT: &str = r#""role":"assistant","modelID":"x","cost":0.5,"finish":"stop","tokens":{"input":4,"output":2,"reasoning":1,"cache":{"read":3,"write":0}}"#;
const TOOL: &str = r#""type":"tool","tool":"glob","callID":"c","state":{"status":"error","input":{"p":1},"error":"no"}"#;
const EXPECTED: [&str; 5] = [
    "0 begin ses_1",
    r#"0 user "go""#,
    r#"0 turn c:glob{"p":1} chars=5 tokens=4/3/3/0 $0.50"#,
    "0 user c:failed",
    "0 end",
];
const CHILD: [&str; 4] =
    ["0 begin ses_1 agent=explore", "0 user machine", "0 turn chars=2", "0 end"];

/// A storage folder as versions up to 1.1 write it.
fn storage(folder: &Path) {
    let text = |id: &str, message: &str, session: &str, more: &str| {
        format!(
            "{{\n  \"id\": \"{id}\",\n  \"sessionID\": \"{session}\",\n  \"messageID\": \"{message}\",\n  {more}\n}}"
        )
    };
    let files = [
        ("migration", "2".to_owned()),
        ("project/p.json", r#"{"id":"p","worktree":"/w","vcs":"git","time":{"created":1}}"#.to_owned()),
        (
            "session/p/ses_1.json",
            r#"{"id":"ses_1","projectID":"p","directory":"/w","title":"t","version":"1","time":{"created":1}}"#.to_owned(),
        ),
        (
            "session/p/ses_2.json",
            r#"{"id":"ses_2","projectID":"p","parentID":"ses_1","directory":"/w","time":{"created":1}}"#.to_owned(),
        ),
        (
            "message/ses_1/msg_1.json",
            r#"{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1}}"#.to_owned(),
        ),
        (
            "message/ses_1/msg_2.json",
            format!(r#"{{"id":"msg_2","sessionID":"ses_1",{ASSISTANT},"time":{{"created":2}}}}"#),
        ),
        (
            "message/ses_2/msg_3.json",
            r#"{"id":"msg_3","sessionID":"ses_2","role":"assistant","agent":"explore","time":{"created":3}}"#.to_owned(),
        ),
        ("part/msg_1/prt_1.json", text("prt_1", "msg_1", "ses_1", r#""type":"text","text":"go""#)),
        ("part/msg_2/prt_2.json", text("prt_2", "msg_2", "ses_1", r#""type":"text","text":"first""#)),
        ("part/msg_2/prt_3.json", text("prt_3", "msg_2", "ses_1", TOOL)),
        ("part/msg_3/prt_4.json", text("prt_4", "msg_3", "ses_2", r#""type":"text","text":"hm""#)),
        ("part/msg_9/prt_5.json", text("prt_5", "msg_9", "ses_1", r#""type":"text","text":"lost""#)),
        ("todo/ses_1.json", r#"[{"content":"c","status":"pending","priority":"high","id":"1"}]"#.to_owned()),
        ("session_diff/ses_1.json", r#"[{"file":"a","before":"","after":"b","additions":1,"deletions":0}]"#.to_owned()),
    ];
    for (name, content) in files {
        put(folder, name, content);
    }
}

fn database(path: &Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).unwrap();
    let row = |table: &str, id: &str, columns: &str, data: &str| {
        format!("INSERT INTO {table} VALUES ('{id}', {columns}, '{{{data}}}');\n")
    };
    let script = [
        "PRAGMA journal_mode = wal;
        CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text);
        CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer, data text);
        CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer, time_updated integer, data text);
        INSERT INTO session VALUES ('ses_1', 'p', NULL);
        INSERT INTO session VALUES ('ses_2', 'p', 'ses_1');\n"
            .to_owned(),
        // Written in another order than they are read in.
        row("message", "msg_3", "'ses_2', 3, 3", r#""role":"assistant","agent":"explore""#),
        row("message", "msg_2", "'ses_1', 2, 2", ASSISTANT),
        row("message", "msg_1", "'ses_1', 1, 1", r#""role":"user""#),
        row("part", "prt_4", "'msg_3', 'ses_2', 3, 3", r#""type":"text","text":"hm""#),
        row("part", "prt_3", "'msg_2', 'ses_1', 2, 2", TOOL),
        row("part", "prt_2", "'msg_2', 'ses_1', 2, 2", r#""type":"text","text":"first""#),
        row("part", "prt_1", "'msg_1', 'ses_1', 1, 1", r#""type":"text","text":"go""#),
    ];
    db.execute_batch(&script.concat()).unwrap();
    db
}

#[test]
fn its_storage_folder_is_read() {
    let folder = tempfile::tempdir().unwrap();
    storage(folder.path());
    let read = told(&[folder.path().to_owned()]);
    let of = |name: &str| {
        let source = read.sources.iter().find(|source| source.path.ends_with(name)).unwrap();
        (source.kind.map(|kind| kind.name()), source.sink.as_ref().map(|told| told.0.clone()))
    };
    let steps = |steps: &[&str]| Some(steps.iter().map(|step| (*step).to_owned()).collect());
    assert_eq!(of("todo/ses_1.json"), (Some("opencode"), None), "of its todos");
    assert_eq!(of("session/p/ses_1.json"), (Some("opencode"), steps(&EXPECTED)));
    assert_eq!(of("session/p/ses_2.json"), (Some("opencode"), steps(&CHILD)));
    assert_eq!(of("message/ses_1/msg_2.json"), (Some("opencode"), None));
    let listed: Vec<_> = read.unreadable.iter().map(|bad| (&bad.path, &*bad.reason)).collect();
    let lost = folder.path().join("part/msg_9/prt_5.json");
    let migration = folder.path().join("migration");
    assert_eq!(
        listed,
        [
            (&migration, "not a known kind of recording"),
            (&lost, "a part of no message that is here")
        ]
    );
}

#[test]
fn its_database_is_read_and_the_storage_that_it_was_made_from_not_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let db = database(&path);
    let expected: Vec<_> = EXPECTED
        .map(str::to_owned)
        .into_iter()
        .chain(CHILD.map(|step| step.replacen('0', "1", 1)))
        .collect();
    let check = |read: softland_import::Recordings<super::common::Told>, when: &str| {
        let source = &read.sources.iter().find(|source| source.path == path).unwrap();
        assert_eq!(source.kind.map(|kind| kind.name()), Some("opencode"), "{when}");
        assert_eq!(source.sink.as_ref().unwrap().0, expected, "{when}");
        let all = read.sources.iter().filter_map(|source| source.sink.as_ref());
        assert_eq!(all.map(|told| turns(&told.0)).sum::<usize>(), 2, "{when}");
    };
    check(told(std::slice::from_ref(&path)), "while it is written");
    drop(db);
    check(told(std::slice::from_ref(&path)), "alone");
    storage(&folder.path().join("storage"));
    check(told(&[folder.path().to_owned()]), "beside its storage");
}

#[test]
fn rows_of_its_database_that_cannot_be_right_are_listed_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opencode.db");
    let db = database(&path);
    db.execute_batch(
        "INSERT INTO message VALUES ('msg_4', NULL, 'noon', 3, '{}');
        INSERT INTO message VALUES ('msg_5', 'ses_1', 5, 5, NULL);
        INSERT INTO message VALUES (NULL, 'ses_1', 5, 5, '{\"role\":');
        INSERT INTO part VALUES ('prt_6', 'msg_1', NULL, NULL, NULL, '{\"type\":');
        INSERT INTO part VALUES ('prt_7', 'msg_1', NULL, NULL, NULL, 7);
        INSERT INTO part VALUES ('prt_8', NULL, NULL, NULL, NULL, x'fffe');",
    )
    .unwrap();
    drop(db);
    let read = told(&[path]);
    assert_eq!(read.unreadable.len(), 5, "{:?}", read.unreadable);
    let steps = &read.sources[0].sink.as_ref().unwrap().0;
    assert_eq!(steps[..5], EXPECTED);
}

#[test]
fn an_export_is_read() {
    let text = format!(
        r#"{{"info":{{"id":"ses_1","title":"t","time":{{"created":1}}}},"messages":[
{{"info":{{"id":"msg_1","sessionID":"ses_1","role":"user"}},"parts":[{{"type":"text","text":"go"}}]}},
{{"info":{{"id":"msg_2","sessionID":"ses_1",{ASSISTANT}}},"parts":[{{"type":"text","text":"first"}},{{{TOOL}}}]}}]}}"#
    );
    let (kind, steps, unreadable) = one(text);
    assert_eq!((kind, unreadable.len()), (Some("opencode"), 0));
    assert_eq!(steps, EXPECTED);
}
