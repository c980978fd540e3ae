//! Third-party files in `assets/` are unchanged: each has the checksum that the README beside it
//! names.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

#[test]
fn files_of_others_are_as_they_were_taken() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut compared = 0;
    for folder in std::fs::read_dir(assets).unwrap().map(|entry| entry.unwrap().path()) {
        // softland's own files have no README with a source.
        let Ok(readme) = std::fs::read_to_string(folder.join("README.md")) else { continue };
        let mut names: BTreeSet<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.md")
            .collect();
        for line in readme.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split('`').collect();
            let (name, wanted) = (cells[1], cells[3]);
            if names.remove(name) {
                assert_eq!(sum(&folder.join(name)), wanted, "{name}");
                compared += 1;
            }
        }
        assert!(names.is_empty(), "without a sum in {}: {names:?}", folder.display());
    }
    assert!(compared >= 3, "{compared}");
}

fn sum(path: &Path) -> String {
    let sum = Sha256::digest(std::fs::read(path).unwrap());
    sum.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
