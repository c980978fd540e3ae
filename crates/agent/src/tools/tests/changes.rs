//! `write_file` and `edit_file` without interference.

use super::*;

fn text(case: &Case, path: &str) -> String {
    fs::read_to_string(case.root().join(path)).unwrap()
}

#[test]
fn write_file_makes_files_and_the_folders_above() {
    let case = case(&[]);
    let new = json!({"path": "a/b/c.md", "content": "one\n"});
    assert_eq!(case.ok("write_file", new), "created `a/b/c.md` (4 bytes)");
    assert_eq!(text(&case, "a/b/c.md"), "one\n");
    assert_eq!(case.ok("list_dir", json!({"path": "a/b"})), "c.md (4 bytes)\n");
    let again = json!({"path": "a/b/c.md", "content": "two\n"});
    assert_eq!(case.ok("write_file", again.clone()), "replaced `a/b/c.md` (4 bytes)");
    assert_eq!(
        case.ok("write_file", again),
        "`a/b/c.md` has this content already: nothing was changed"
    );
    assert_eq!(text(&case, "a/b/c.md"), "two\n");
    for path in ["", ".", "..", "a\0b", "trail/", "trail/.", "a/b/c.md/"] {
        let error = case.error("write_file", json!({"path": path, "content": ""}));
        assert!(error.ends_with("does not name a file"), "{path:?}: {error}");
    }
    for path in ["new/../../x", "new/../x", "a/new/../../../x"] {
        case.error("write_file", json!({"path": path, "content": ""}));
    }
    let ok = case.ok("write_file", json!({"path": "a/../d.md", "content": ""}));
    assert_eq!(ok, "created `a/../d.md` (0 bytes)");
    assert_eq!(case.ok("list_dir", json!({"path": "."})), "a/\nd.md (0 bytes)\n", "no leftovers");
    assert_eq!(case.ok("list_dir", json!({"path": "a"})), "b/\n", "no leftovers");
    let error = case.error("write_file", json!({"path": "a", "content": ""}));
    assert_eq!(error, "`a` is a folder: use list_dir to see it");
    let error = case.error("write_file", json!({"path": "a/b/c.md/d", "content": ""}));
    assert_eq!(error, "`a/b/c.md/d` does not exist: a part of it is not a folder");
}

#[test]
fn a_file_must_be_read_before_it_is_changed() {
    let case = case(&[("a.md", "one\n"), ("b/c.md", "two\n")]);
    for path in ["a.md", "./a.md", "b/../a.md"] {
        let unread =
            format!("`{path}` exists and was not read in this run: read it first, with read_file");
        let write = json!({"path": path, "content": "x"});
        assert_eq!(case.error("write_file", write), unread);
        let edit = json!({"path": path, "old": "one", "new": "x"});
        assert_eq!(case.error("edit_file", edit), unread);
    }
    // A page beyond the end of the file shows nothing.
    case.error("read_file", json!({"path": "a.md", "offset": 9}));
    case.error("edit_file", json!({"path": "a.md", "old": "one", "new": "x"}));
    // `grep` shows the matching lines, not the file.
    case.ok("grep", json!({"pattern": "one"}));
    case.error("edit_file", json!({"path": "a.md", "old": "one", "new": "x"}));
    assert_eq!(text(&case, "a.md"), "one\n");
    case.ok("read_file", json!({"path": "b/../a.md"}));
    case.ok("edit_file", json!({"path": "a.md", "old": "one", "new": "x"}));
    assert_eq!(text(&case, "a.md"), "x\n");
    let other = tools(&case.root());
    let other = Case { dir: case.dir, tools: other };
    other.error("edit_file", json!({"path": "a.md", "old": "x", "new": "y"}));
}

#[test]
fn a_file_that_changed_since_it_was_read_is_left_alone() {
    let case = case(&[("a.md", "one\n")]);
    case.ok("read_file", json!({"path": "a.md"}));
    fs::write(case.root().join("a.md"), "one\nmine\n").unwrap();
    let changed =
        "`a.md` has changed since it was read, and is left as it is: read it again, with read_file";
    assert_eq!(case.error("edit_file", json!({"path": "a.md", "old": "one", "new": "x"})), changed);
    assert_eq!(case.error("write_file", json!({"path": "a.md", "content": "x"})), changed);
    assert_eq!(text(&case, "a.md"), "one\nmine\n");
    case.ok("read_file", json!({"path": "a.md"}));
    case.ok("edit_file", json!({"path": "a.md", "old": "one", "new": "x"}));
    case.ok("edit_file", json!({"path": "a.md", "old": "x", "new": "y"}));
    assert_eq!(text(&case, "a.md"), "y\nmine\n");
    fs::remove_file(case.root().join("a.md")).unwrap();
    assert_eq!(
        case.error("edit_file", json!({"path": "a.md", "old": "y", "new": "x"})),
        "`a.md` does not exist"
    );
    case.ok("write_file", json!({"path": "a.md", "content": "anew\n"}));
}

#[test]
fn edit_file_takes_one_place_only() {
    let case = case(&[("a.md", "one two two\naaa\nline\n"), ("crlf", "a\r\nb\r\nc\r\n")]);
    case.ok("read_file", json!({"path": "a.md"}));
    let edit = |old: &str, new: &str| {
        case.run("edit_file", json!({"path": "a.md", "old": old, "new": new}))
    };
    for (old, new, wanted) in [
        (
            "two",
            "x",
            "`old` stands in `a.md` 2 times: give more of the text around it, so that it stands there once",
        ),
        (
            "aa",
            "x",
            "`old` stands in `a.md` 2 times: give more of the text around it, so that it stands there once",
        ),
        (
            "three",
            "x",
            "`old` does not stand in `a.md`: it must be there letter for letter, with the same spaces and line ends",
        ),
        (
            "     3→line",
            "x",
            "`old` does not stand in `a.md`; the line numbers and → that read_file shows are no part of the file",
        ),
        ("", "x", "`old` is empty: give the text to replace (write_file writes a whole file)"),
        ("one", "one", "`old` and `new` are the same: nothing was changed"),
    ] {
        assert_eq!(edit(old, new), ToolOutput::error(wanted), "{old:?}");
    }
    assert_eq!(text(&case, "a.md"), "one two two\naaa\nline\n");
    assert_eq!(
        edit("two two\n", "$0\nthree\n").content,
        "edited `a.md`: the new text stands at lines 1 to 2"
    );
    assert_eq!(edit("line", "").content, "edited `a.md`: the new text stands at line 4");
    assert_eq!(text(&case, "a.md"), "one $0\nthree\naaa\n\n");

    case.ok("read_file", json!({"path": "crlf"}));
    case.ok("edit_file", json!({"path": "crlf", "old": "a\nb", "new": "x\ny\nz"}));
    assert_eq!(text(&case, "crlf"), "x\r\ny\r\nz\r\nc\r\n");
    case.ok("edit_file", json!({"path": "crlf", "old": "y", "new": "y1\ny2"}));
    assert_eq!(text(&case, "crlf"), "x\r\ny1\r\ny2\r\nz\r\nc\r\n");
}

#[test]
fn bytes_that_are_no_characters_are_kept() {
    let case = case(&[]);
    write(&case.root(), "latin1", b"caf\xe9 one\n\xff");
    case.ok("read_file", json!({"path": "latin1"}));
    case.ok("edit_file", json!({"path": "latin1", "old": "one", "new": "two"}));
    assert_eq!(fs::read(case.root().join("latin1")).unwrap(), b"caf\xe9 two\n\xff");
}

/// The calls of a batch run concurrently. No change is lost, and none sees half of another.
#[test]
fn edits_of_one_batch_do_not_lose_one_another() {
    let lines: String = (0..24).map(|n| format!("<{n}>\n")).collect();
    let case = case(&[("a.md", &lines)]);
    case.ok("read_file", json!({"path": "a.md"}));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let outputs = runtime.block_on(async {
        let calls = (0..24).flat_map(|n| {
            let edit = json!({"path": "a.md", "old": format!("<{n}>"), "new": format!("[{n}]")});
            [("edit_file", edit), ("read_file", json!({"path": "a.md"}))]
        });
        let running = calls.map(|(name, input)| {
            let tools = case.tools.clone();
            let call = ToolCall { id: "t".into(), name: name.into(), input_raw: input.to_string() };
            tokio::spawn(async move { tools.run_call(&call, &CancellationToken::new()).await })
        });
        futures_util::future::join_all(running.collect::<Vec<_>>()).await
    });
    for output in outputs {
        let output = output.unwrap();
        assert!(!output.is_error, "{}", output.content);
    }
    assert_eq!(text(&case, "a.md"), lines.replace('<', "[").replace('>', "]"));
    let left = fs::read_dir(case.root()).unwrap().count();
    assert_eq!(left, 1, "files of the changes are left behind");
}

#[cfg(unix)]
#[test]
fn mode_and_links_are_kept() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    let case = case(&[("run.sh", "#!/bin/sh\n"), ("in/real.md", "one\n")]);
    let mode = |path: &str| case.root().join(path).metadata().unwrap().mode() & 0o7777;
    let chmod = |path: &str, mode: u32| {
        fs::set_permissions(case.root().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    for wanted in [0o755, 0o600, 0o4750] {
        chmod("run.sh", wanted);
        case.ok("read_file", json!({"path": "run.sh"}));
        let line = format!("# {wanted}\n");
        case.ok("write_file", json!({"path": "run.sh", "content": line}));
        assert_eq!((mode("run.sh"), text(&case, "run.sh")), (wanted, line));
    }
    symlink("in", case.root().join("folder")).unwrap();
    symlink("folder/real.md", case.root().join("link.md")).unwrap();
    case.ok("read_file", json!({"path": "link.md"}));
    case.ok("edit_file", json!({"path": "folder/real.md", "old": "one", "new": "two"}));
    case.ok("edit_file", json!({"path": "link.md", "old": "two", "new": "three"}));
    case.ok("write_file", json!({"path": "folder/new.md", "content": "new\n"}));
    case.ok("edit_file", json!({"path": "in/new.md", "old": "new", "new": "old"}));
    assert_eq!(text(&case, "in/real.md"), "three\n");
    assert!(case.root().join("link.md").is_symlink() && case.root().join("folder").is_symlink());
    chmod("in/real.md", 0o444);
    let edit = json!({"path": "link.md", "old": "three", "new": "four"});
    let error = case.error("edit_file", edit);
    assert_eq!(error, "`link.md` is read-only and stays as it is");
}

/// The last check is right before the rename.
#[test]
fn a_file_that_changes_while_it_is_edited_is_left_alone() {
    let case = case(&[("a.md", "one\n")]);
    let files = Files::new(Root::open(case.root()).unwrap());
    files.mark_seen(files.read_text("a.md").unwrap());
    let meddle = |_: &[u8]| {
        fs::write(case.root().join("a.md"), "mine\n").unwrap();
        Ok(b"two\n".to_vec())
    };
    let error = files.edit_file("a.md", meddle, &CancellationToken::new()).unwrap_err();
    assert!(error.starts_with("`a.md` has changed since it was read"), "{error}");
    assert_eq!(text(&case, "a.md"), "mine\n");
    assert_eq!(fs::read_dir(case.root()).unwrap().count(), 1);
}

#[test]
fn a_call_that_was_cancelled_writes_nothing() {
    let case = case(&[]);
    let files = Files::new(Root::open(case.root()).unwrap());
    let cancel = CancellationToken::new();
    cancel.cancel();
    assert!(files.write_file("a.md", b"x", &cancel).is_err());
    assert!(!case.root().join("a.md").exists());
}
