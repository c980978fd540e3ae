//! Memory grows with runs and names, not with what a file might have held. Alone in its file: the
//! process is what is measured.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use softland_import::{FileReplay, ReadOptions, ReplaySettings, build_report, read_paths};

const FILES: u64 = 3000;

/// The most memory that this process has had, in KiB.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn audited(paths: &[std::path::PathBuf]) -> u64 {
    let settings = ReplaySettings::default();
    let sink = |path: &std::path::Path| FileReplay::new(&settings, path);
    build_report(read_paths(paths, &ReadOptions { threads: 2 }, sink, |_| {})).totals.turns
}

#[test]
fn many_small_files_take_little() {
    let folder = tempfile::tempdir().unwrap();
    let text = "{\"role\":\"assistant\",\"content\":\"x\"}\n";
    let first = folder.path().join("first");
    std::fs::write(&first, text).unwrap();
    assert_eq!(audited(&[first]), 1);
    let before = most();
    for n in 0..FILES - 1 {
        std::fs::write(folder.path().join(n.to_string()), text).unwrap();
    }
    assert_eq!(audited(&[folder.path().to_owned()]), FILES);
    let grown = most() - before;
    assert!(grown / FILES < 5, "{FILES} files took {grown} KiB");
}
