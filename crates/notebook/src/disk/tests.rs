use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn open(folder: &Path, name: &str) -> Result<LockedFile, OpenError> {
    LockedFile::open(&folder.join(name), &folder.join("locks"), "new")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_that_is_not_there_is_made_and_one_that_is_stays() {
    let folder = tempfile::tempdir().unwrap();
    let disk = open(folder.path(), "a.ipynb").unwrap();
    assert_eq!(disk.read_text().unwrap().0, "new");
    drop(disk);
    fs::write(folder.path().join("a.ipynb"), "other").unwrap();
    assert_eq!(open(folder.path(), "a.ipynb").unwrap().read_text().unwrap().0, "other");
    let nowhere = open(folder.path(), "nowhere/a.ipynb").unwrap_err();
    assert!(nowhere.to_string().contains("cannot be made"), "{nowhere}");
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("a.ipynb")).status();
    assert!(made.unwrap().success());
    fs::create_dir(folder.path().join("b.ipynb")).unwrap();
    for name in ["a.ipynb", "b.ipynb"] {
        let refused = open(folder.path(), name).unwrap_err().to_string();
        assert!(refused.ends_with("it is not a regular file"), "{refused}");
    }
    // One that takes a file's place while it is open.
    let disk = open(folder.path(), "c.ipynb").unwrap();
    fs::rename(folder.path().join("a.ipynb"), folder.path().join("c.ipynb")).unwrap();
    assert!(disk.read_text().is_err() && disk.save_text("more").is_err());
}

#[test]
fn one_at_a_time_has_a_notebook_and_the_other_hears_who() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path(), "a.ipynb").unwrap();
    symlink(folder.path().join("a.ipynb"), folder.path().join("link.ipynb")).unwrap();
    for name in ["a.ipynb", "link.ipynb", "locks/../a.ipynb"] {
        let OpenError::Locked { holder } = open(folder.path(), name).unwrap_err() else {
            panic!("no lock")
        };
        assert_eq!(holder, Some(std::process::id()));
    }
    open(folder.path(), "b.ipynb").unwrap();
    drop(first);
    // The file of the lock is still there: it locks nothing by itself.
    open(folder.path(), "a.ipynb").unwrap();
}

#[test]
fn saving_keeps_mode_and_link_and_leaves_nothing_beside() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("a.ipynb"), folder.path().join("link.ipynb"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("a.ipynb", &link).unwrap();
    // A softland that was killed has left this file.
    fs::write(folder.path().join(".a.ipynb.softland-tmp"), "half").unwrap();
    let disk = LockedFile::open(&link, &folder.path().join("locks"), "new").unwrap();
    let (_, before) = disk.read_text().unwrap();
    let print = disk.save_text("more").unwrap();
    assert_ne!(print, before);
    assert_eq!(disk.read_stamp().unwrap(), print, "what was saved is known again");
    assert_eq!(fs::read_to_string(&file).unwrap(), "more");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(folder.path()), ["a.ipynb", "link.ipynb", "locks"]);
}

#[test]
fn a_link_to_nothing_makes_its_target() {
    let folder = tempfile::tempdir().unwrap();
    symlink("target.ipynb", folder.path().join("link.ipynb")).unwrap();
    open(folder.path(), "link.ipynb").unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("target.ipynb")).unwrap(), "new");
}

#[test]
fn what_cannot_be_saved_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.ipynb"), "old").unwrap();
    let disk = open(folder.path(), "a.ipynb").unwrap();
    // No file can be made there, as on a full disk.
    fs::create_dir(disk.temporary_path()).unwrap();
    disk.save_text("new").unwrap_err();
    assert_eq!(disk.read_text().unwrap().0, "old");
    fs::remove_dir(disk.temporary_path()).unwrap();
    disk.save_text("new").unwrap();
    assert_eq!(names(folder.path()), ["a.ipynb", "locks"]);
}
