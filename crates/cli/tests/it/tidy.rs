//! What a machine can check of `ARCHITECTURE.md` and `CONTRIBUTING.md`: the arrows between crates,
//! the bans, the size of files and functions, links, licences, sleeps in tests, and that README and
//! the gate agree.
//!
//! It reads the repository and `cargo metadata` (offline, for this host); it changes nothing.

#![expect(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod documents;
mod licences;
mod reference;
mod sleeps;
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package};

/// Lines of a source file.
const FILE_LINES: usize = 600;
/// Lines of a function.
const FN_LINES: usize = 80;
/// Bytes of any file: recordings and models do not belong here.
const FILE_BYTES: u64 = 1 << 20;

/// First-party normal dependencies that a crate may have.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("wire", &[]),
    ("session", &["core", "wire"]),
    ("agent", &["session"]),
    ("sim", &["wire"]),
    ("ledger", &["core", "postgres"]),
    ("pages", &[]),
    ("govern", &["session"]),
    ("host", &["session", "govern", "ledger", "remote", "redis", "postgres"]),
    ("remote", &["session", "govern"]),
    ("redis", &["remote"]),
    ("postgres", &["remote"]),
    ("gateway", &["session", "govern", "host", "ledger", "pages"]),
    ("import", &["session"]),
    ("notebook", &["agent", "pages"]),
    ("restate", &["agent"]),
    (
        "cli",
        &[
            "agent", "sim", "gateway", "host", "ledger", "import", "notebook", "postgres", "redis",
            "restate",
        ],
    ),
];
/// Those that it may have beside them in tests: the simulator is everybody's model.
const DEV_ARROWS: &[(&str, &[&str])] = &[
    ("session", &["sim"]),
    ("redis", &["session", "govern"]),
    ("postgres", &["session", "govern"]),
    ("agent", &["sim"]),
    ("host", &["sim"]),
    ("gateway", &["sim"]),
    ("notebook", &["sim"]),
    ("restate", &["session", "sim"]),
];
/// Crates without effects.
const PURE: &[&str] = &["core", "wire", "session"];

// --- crates and their arrows

#[test]
fn arrows_point_as_allowed() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    for package in members(&metadata) {
        let from = suffix(package);
        for dependency in &package.dependencies {
            let Some(to) = dependency.name.strip_prefix("softland-") else { continue };
            let in_tests = dependency.kind == DependencyKind::Development;
            let allowed = allows(ARROWS, from, to) || in_tests && allows(DEV_ARROWS, from, to);
            if !allowed {
                wrong.push(format!("{from} -> {to} ({})", dependency.kind));
            }
        }
    }
    nothing("arrows that ARCHITECTURE.md does not allow", &wrong);
}

fn allows(arrows: &[(&str, &[&str])], from: &str, to: &str) -> bool {
    arrows.iter().any(|(crate_, allowed)| *crate_ == from && allowed.contains(&to))
}

#[test]
fn every_crate_is_on_the_map_under_its_folder() {
    let metadata = metadata();
    let known: BTreeSet<_> = ARROWS.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<_> = members(&metadata).map(suffix).collect();
    assert_eq!(found, known, "the table of arrows knows other crates than there are");
    for package in members(&metadata) {
        let folder = package.manifest_path.parent().and_then(|path| path.file_name());
        assert_eq!(folder, Some(suffix(package)), "folder name = crate suffix");
    }
}

#[test]
fn the_only_binary_is_softland() {
    let metadata = metadata();
    let targets = members(&metadata).flat_map(|package| &package.targets);
    let binaries: Vec<_> = targets.filter(|t| t.is_bin()).map(|t| t.name.as_str()).collect();
    assert_eq!(binaries, ["softland"], "`cargo run` in the README names none");
}

#[test]
fn core_is_no_std_and_needs_little() {
    let metadata = metadata();
    let core = members(&metadata).find(|package| suffix(package) == "core").expect("core");
    let normal: Vec<_> =
        core.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal).collect();
    assert!(normal.len() <= 2, "core has more than two dependencies");
    for dependency in normal {
        let name = &dependency.name;
        assert!(!dependency.uses_default_features, "{name}: default features may bring std");
        assert!(!dependency.features.iter().any(|feature| feature == "std"), "{name} with std");
    }
    let lib = read(&root().join("crates/core/src/lib.rs"));
    assert!(lib.lines().any(|line| line == "#![no_std]"));
    assert!(!lib.contains("extern crate std"));
}

#[test]
fn lints_and_bans_hold_everywhere() {
    let workspace = read(&root().join("Cargo.toml"));
    assert!(workspace.lines().any(|line| line == "unsafe_code = \"forbid\""));
    for (name, _) in ARROWS {
        let manifest = read(&root().join(format!("crates/{name}/Cargo.toml")));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} inherits no lints");
    }
    let bans: Vec<_> =
        PURE.iter().map(|name| read(&root().join(format!("crates/{name}/clippy.toml")))).collect();
    assert!(bans.iter().all(|ban| *ban == bans[0]), "the pure crates have the same bans");
    for banned in [
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::env::var",
        "std::thread::spawn",
        "std::fs::read",
        "std::string::String::from_utf8_lossy",
        "std::collections::HashMap",
        "std::collections::HashSet",
    ] {
        let line = bans[0].lines().find(|line| line.contains(&format!("\"{banned}\"")));
        assert!(line.is_some_and(|line| line.contains("reason = \"")), "{banned}: no reasoned ban");
    }
}

/// Clippy knows the functions it is told; this knows whole modules of the standard library.
#[test]
fn pure_crates_name_no_effect() {
    const EFFECTS: [&str; 6] =
        ["std::fs", "std::net", "std::env", "std::time", "std::thread", "std::process"];
    let sources = |name: &&str| files(&root().join("crates").join(name).join("src"), "rs");
    let mut wrong = Vec::new();
    for path in PURE.iter().flat_map(sources).filter(|path| !is_test(path)) {
        let text = read(&path);
        let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
        for (n, line) in before_tests.lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            if EFFECTS.iter().any(|effect| code.contains(effect)) {
                wrong.push(format!("{}:{}: {}", shown(&path), n + 1, code.trim()));
            }
        }
    }
    nothing("effects in a pure crate", &wrong);
}

/// docs/start/rust.md says so: the agent's loop without its features is small enough to embed.
#[test]
fn the_loop_alone_brings_few_packages() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["tree", "--offline", "--locked", "-p", "softland-agent"]);
    command.args(["--no-default-features", "-e", "normal,build", "--prefix", "none"]);
    let said = command.arg("--no-dedupe").current_dir(root()).output().expect("cargo tree");
    let complaint = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{complaint}");
    let said = String::from_utf8(said.stdout).expect("text");
    let packages: BTreeSet<_> = said.lines().collect();
    let within = packages.len() > 10 && packages.len() <= 60;
    assert!(within, "{} packages: {packages:?}", packages.len());
}

// --- the repository

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The workspace alone: nothing need be downloaded for it.
fn metadata() -> Metadata {
    command().no_deps().exec().expect("cargo metadata")
}

/// With every dependency that is built on a platform of `deny.toml` or on this host; `None` where
/// some were never downloaded, as after a build of one crate alone. The gate sets `CI`, and then that
/// is a failure.
fn with_dependencies() -> Option<Metadata> {
    let platforms =
        licences::texts(&licences::deny()["graph"]["targets"]).into_iter().chain([host()]);
    let platforms = platforms.flat_map(|platform| ["--filter-platform".to_owned(), platform]);
    let options: Vec<_> =
        ["--offline", "--locked"].map(str::to_owned).into_iter().chain(platforms).collect();
    let metadata = command().features(CargoOpt::AllFeatures).other_options(options).exec();
    match metadata {
        Ok(metadata) => Some(metadata),
        Err(error) if std::env::var_os("CI").is_some() => panic!("{error}"),
        Err(_) => {
            println!("skipped: not every dependency is here; `cargo fetch --locked` brings them");
            None
        }
    }
}

fn command() -> MetadataCommand {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml"));
    command
}

fn host() -> String {
    let version = std::process::Command::new("rustc").arg("-vV").output().expect("rustc");
    let version = String::from_utf8(version.stdout).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("a host").to_owned()
}

fn members(metadata: &Metadata) -> impl Iterator<Item = &Package> {
    metadata.packages.iter().filter(|package| metadata.workspace_members.contains(&package.id))
}

fn suffix(package: &Package) -> &str {
    package.name.strip_prefix("softland-").expect("crates are named softland-…")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(folder, &mut found);
    found.retain(|path| path.extension().is_some_and(|e| e == extension));
    found
}

fn everything() -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found
}

/// Files below a folder, but for what is built, cached or generated there.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().expect("a file type");
        let name = entry.file_name();
        // In a second worktree `.git` is a file.
        let ignored = ["target", "dist", ".git", "corpus", "artifacts", "__pycache__"];
        if ignored.iter().any(|ignored| name == *ignored) {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

/// Lines that contain one of some words; files that are no text have none.
fn containing(paths: &[PathBuf], words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(path) else { continue };
        for (n, line) in text.lines().enumerate() {
            let here = words.iter().filter(|word| line.contains(**word));
            found.extend(here.map(|word| format!("{}:{}: {word}", shown(path), n + 1)));
        }
    }
    found
}

/// Tests have no limit of length.
fn is_test(path: &Path) -> bool {
    let path = path.strip_prefix(root()).unwrap_or(path);
    let named = |name: &str| path.components().any(|part| part.as_os_str() == name);
    named("tests.rs") || named("tests") || named("benches")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn nothing(what: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}
