//! Ways out of the root, paths that are not files, and paths that change between check and use.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// A file outside the root that no tool may show or change.
const TREASURE: &str = "TREASURE\n";

/// A root beside a folder with a secret file, and every way to that file that a path may take.
fn besieged() -> (Case, Vec<&'static str>) {
    let case = case(&[("in/a.md", "inside\n"), ("x/y/z", "")]);
    write(case.dir.path(), "outside/secret.md", TREASURE.as_bytes());
    let (root, outside) = (case.root(), case.dir.path().join("outside"));
    symlink(&outside, root.join("abs")).unwrap();
    symlink("../outside", root.join("rel")).unwrap();
    symlink("../../../../outside", root.join("x/y/deep")).unwrap();
    symlink("abs", root.join("chain")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    let ways = vec![
        "..",
        "../outside",
        "abs",
        "rel",
        "chain",
        "x/y/deep",
        "in/../../outside",
        "/",
        "/etc",
        "magic/tmp",
    ];
    (case, ways)
}

/// Returns the files in the folder outside the root.
fn outside(case: &Case) -> Vec<(String, String)> {
    let entries = fs::read_dir(case.dir.path().join("outside")).unwrap();
    let mut all: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn nothing_outside_the_root_is_changed() {
    let (case, ways) = besieged();
    for folder in ways {
        for name in ["secret.md", "new.md", "new/deeper.md"] {
            let path = format!("{folder}/{name}");
            for (tool, input) in [
                ("write_file", json!({"path": path, "content": "mine"})),
                ("edit_file", json!({"path": path, "old": "TREASURE", "new": "mine"})),
            ] {
                let error = case.error(tool, input);
                assert!(error.contains("outside of the root"), "{tool} {path}: {error}");
            }
        }
    }
    symlink(case.dir.path().join("outside/secret.md"), case.root().join("file.md")).unwrap();
    symlink(case.dir.path().join("outside/none.md"), case.root().join("dangling.md")).unwrap();
    symlink("none.md", case.root().join("nowhere.md")).unwrap();
    symlink("loop.md", case.root().join("loop.md")).unwrap();
    for path in ["file.md", "dangling.md", "nowhere.md", "loop.md"] {
        case.error("write_file", json!({"path": path, "content": "mine"}));
        case.error("edit_file", json!({"path": path, "old": "T", "new": "mine"}));
        assert!(case.root().join(path).is_symlink());
    }
    assert_eq!(outside(&case), [("secret.md".to_owned(), TREASURE.to_owned())]);
    assert!(!case.root().join("none.md").exists());
}

#[test]
fn what_is_no_file_is_neither_read_nor_written_nor_waited_for() {
    let case = case(&[("a.md", "apple")]);
    let _socket = std::os::unix::net::UnixListener::bind(case.root().join("socket")).unwrap();
    let pipe = case.root().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let began = Instant::now();
    for path in ["socket", "pipe"] {
        let wanted = format!("`{path}` is not a regular file (pipe, socket or device)");
        assert_eq!(case.error("read_file", json!({"path": path})), wanted);
        assert_eq!(case.error("write_file", json!({"path": path, "content": "x"})), wanted);
        let edit = json!({"path": path, "old": "x", "new": "y"});
        assert_eq!(case.error("edit_file", edit), wanted);
    }
    let devices = tools(Path::new("/dev"));
    let devices = Case { dir: case.dir, tools: devices };
    for path in ["zero", "null"] {
        let wanted = format!("`{path}` is not a regular file (pipe, socket or device)");
        assert_eq!(devices.error("read_file", json!({"path": path})), wanted);
        assert_eq!(devices.error("write_file", json!({"path": path, "content": ""})), wanted);
    }
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn huge_and_binary_files_are_refused() {
    let case = case(&[]);
    let big = fs::File::create(case.root().join("big")).unwrap();
    big.set_len(17 * 1024 * 1024).unwrap();
    write(&case.root(), "image.png", b"\x89PNG\r\n\x00\x00");
    let refused = "`big` has 17825792 bytes; files of up to 16777216 bytes can be read";
    assert_eq!(case.error("read_file", json!({"path": "big"})), refused);
    assert_eq!(case.error("write_file", json!({"path": "big", "content": ""})), refused);
    case.error("read_file", json!({"path": "image.png"}));
    let error = case.error("write_file", json!({"path": "image.png", "content": ""}));
    assert!(error.contains("was not read in this run"), "{error}");
    assert_eq!(fs::read(case.root().join("image.png")).unwrap(), b"\x89PNG\r\n\x00\x00");

    let content = "x".repeat(16 * 1024 * 1024 + 1);
    let error = case.error("write_file", json!({"path": "new", "content": content}));
    assert_eq!(
        error,
        "`new` would have 16777217 bytes; files of up to 16777216 bytes can be written"
    );
    case.ok("write_file", json!({"path": "seed", "content": "seed"}));
    let error = case.error("edit_file", json!({"path": "seed", "old": "seed", "new": content}));
    assert!(error.contains("can be written"), "{error}");
    assert_eq!(fs::read_dir(case.root()).unwrap().count(), 3);
}

/// Ignore files are read on every search, and anybody may have put them into the folder.
#[test]
fn ignore_files_are_read_inside_the_root_only_and_never_waited_for() {
    let case = case(&[("a.md", "apple\n"), ("in/b.md", "apple\n"), ("in/c.txt", "apple\n")]);
    write(case.dir.path(), "outside/rules", b"*.md\n");
    let began = Instant::now();
    let found = || case.ok("grep", json!({"pattern": "apple"}));
    let all = "a.md:1:apple\nin/b.md:1:apple\nin/c.txt:1:apple\n";
    for name in [".ignore", ".gitignore"] {
        let path = case.root().join(name);
        let pipe = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(pipe.unwrap().success());
        assert_eq!(found(), all);
        fs::remove_file(&path).unwrap();
        for target in [case.dir.path().join("outside/rules"), "/dev/zero".into()] {
            symlink(target, &path).unwrap();
            assert_eq!(found(), all);
            fs::remove_file(&path).unwrap();
        }
        let huge = fs::File::create(&path).unwrap();
        huge.set_len(1 << 40).unwrap();
        assert_eq!(found(), all);
        fs::remove_file(&path).unwrap();
        // A link that stays inside has the content of its target.
        write(&case.root(), "in/rules", b"b.md\n");
        symlink("in/rules", &path).unwrap();
        assert_eq!(found(), "a.md:1:apple\nin/c.txt:1:apple\n");
        fs::remove_file(&path).unwrap();
        fs::remove_file(case.root().join("in/rules")).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(15));
}

/// Swaps the target of a path while the tools use it: between a file and a link out of the root, a
/// folder and such a link, and a file and a pipe.
#[test]
fn paths_that_change_between_check_and_use_lead_nowhere() {
    let (case, _) = besieged();
    let root = case.root();
    fs::create_dir(root.join("swap")).unwrap();
    write(&root, "swap/secret.md", b"TRE mine\n");
    write(&root, "file.md", b"TRE mine\n");
    symlink("../outside", root.join("swap.out")).unwrap();
    symlink("../outside/secret.md", root.join("file.out")).unwrap();
    let pipe = root.join("file.pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());

    let done = AtomicBool::new(false);
    let exchanges = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let folder =
                rustix::fs::open(&root, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty())
                    .unwrap();
            let exchange = |a: &str, b: &str| {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(&folder, a, &folder, b, flags).is_ok()
            };
            let mut exchanges = 0_u32;
            while !done.load(Ordering::Relaxed) {
                exchanges += u32::from(exchange("swap", "swap.out"));
                exchanges += u32::from(exchange("file.md", "file.out"));
                exchanges += u32::from(exchange("file.md", "file.pipe"));
            }
            exchanges
        });
        let began = Instant::now();
        let mut counts = [0_u32; 2];
        while began.elapsed() < Duration::from_secs(2) {
            for path in ["swap/secret.md", "swap/new.md", "file.md"] {
                for (tool, input) in [
                    ("read_file", json!({"path": path})),
                    ("grep", json!({"pattern": "TREASURE", "path": path})),
                    ("edit_file", json!({"path": path, "old": "TRE", "new": "TRE"})),
                    ("edit_file", json!({"path": path, "old": "mine", "new": "mine mine"})),
                    ("edit_file", json!({"path": path, "old": "mine mine", "new": "mine"})),
                    ("write_file", json!({"path": path, "content": "TRE mine\n"})),
                ] {
                    let output = case.run(tool, input);
                    assert!(!output.content.contains("TREASURE\n"), "{tool} {path} got out");
                    assert!(!output.content.contains("timed out"), "{tool} {path} waited");
                    counts[usize::from(output.is_error)] += 1;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}: nothing was raced");
        swapper.join().unwrap()
    });
    assert!(exchanges > 100, "{exchanges}");
    assert_eq!(outside(&case), [("secret.md".to_owned(), TREASURE.to_owned())]);
}
