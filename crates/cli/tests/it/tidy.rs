//! What a machine can check of `ARCHITECTURE.md` and `CONTRIBUTING.md`: the arrows between crates,
//! the bans, the size of files and functions, links, licences, and that README and the gate agree.
//!
//! It reads the repository and `cargo metadata` (offline, for this host); it changes nothing.

#![expect(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

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
    ("ledger", &["core"]),
    ("pages", &[]),
    ("govern", &["session"]),
    ("gateway", &["session", "govern", "ledger", "pages"]),
    ("import", &["session"]),
    ("notebook", &["agent", "pages"]),
    ("cli", &["agent", "sim", "gateway", "ledger", "import", "notebook"]),
];
/// Those that it may have beside them in tests: the simulator is everybody's model.
const DEV_ARROWS: &[(&str, &[&str])] =
    &[("session", &["sim"]), ("agent", &["sim"]), ("gateway", &["sim"]), ("notebook", &["sim"])];
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

// --- sources

#[test]
fn files_and_functions_are_short() {
    let mut wrong = Vec::new();
    for path in files(&root(), "rs").into_iter().filter(|path| !is_test(path)) {
        let text = read(&path);
        if text.lines().next().is_some_and(|line| line.contains("Generated; do not edit")) {
            continue;
        }
        let lines = text.lines().count();
        if lines > FILE_LINES {
            wrong.push(format!("{}: {lines} lines", shown(&path)));
        }
        for (name, line, length) in functions(&text) {
            if length > FN_LINES {
                wrong.push(format!("{}:{line}: {name} has {length} lines", shown(&path)));
            }
        }
    }
    nothing("too long", &wrong);
}

/// Functions of a formatted source: name, line, length. What is further in than the `fn`, and
/// what may end its head, belongs to it; the closing brace follows.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else { continue };
        let qualifier = |word: &str| {
            matches!(word, "pub" | "const" | "async" | "extern") || word.starts_with("pub(")
        };
        let one_line = code.ends_with(';') || code.ends_with('}');
        if one_line || !before.split_whitespace().all(qualifier) {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let within = |line: &str| {
            let Some(tail) = line.strip_prefix(indent) else { return line.trim().is_empty() };
            tail.starts_with([' ', ')', '{']) || tail == "where" || tail.is_empty()
        };
        let inner = lines[n + 1..].iter().take_while(|line| within(line)).count();
        let name = after.split(['(', '<']).next().unwrap_or(after);
        found.push((name.to_owned(), n + 1, inner + 2));
    }
    found
}

#[test]
fn functions_are_measured() {
    let text = "fn a() {\n    b();\n}\n\nimpl A {\n    pub(crate) async fn long<T>(\n        &self,\n    \
                ) -> X\n    where\n        X: Y,\n    {\n        if c {\n            d();\n        }\n\n    \
                }\n\n    fn e() {}\n    fn f(&self);\n}\n// fn g() {\n";
    let found = functions(text);
    assert_eq!(found, [("a".to_owned(), 1, 3), ("long".to_owned(), 6, 11)]);
}

#[test]
fn modules_say_what_they_are() {
    let mut wrong = Vec::new();
    for path in files(&root(), "rs") {
        // A module of tests is described by the module it tests.
        let inner = path.components().any(|part| part.as_os_str() == "src") && is_test(&path);
        let text = read(&path);
        let first = text.lines().find(|line| !line.starts_with("#!["));
        if !inner && !first.is_some_and(|line| line.starts_with("//! ")) {
            wrong.push(shown(&path));
        }
    }
    nothing("modules without a doc", &wrong);
}

#[test]
fn nothing_unfinished_is_left() {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")];
    nothing("unfinished", &containing(&files(&root(), "rs"), &words));
}

#[test]
fn text_is_clean() {
    let mut wrong = Vec::new();
    for path in ["rs", "md", "toml", "py", "sh"].iter().flat_map(|kind| files(&root(), kind)) {
        let text = read(&path);
        for (n, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\r']) || line.contains('\t') {
                wrong.push(format!("{}:{}: tab or trailing space", shown(&path), n + 1));
            }
        }
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            wrong.push(format!("{}: does not end in one newline", shown(&path)));
        }
    }
    nothing("untidy", &wrong);
}

/// What belongs to the machine that somebody works on, not to the project.
#[test]
fn no_machine_is_named() {
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/Us", "ers/"),
        concat!("/tmp/", "brief"),
    ];
    nothing("machine paths", &containing(&everything(), &words));
}

#[test]
fn no_file_is_large() {
    let large = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() > FILE_BYTES);
    let large: Vec<_> = everything().into_iter().filter(large).map(|path| shown(&path)).collect();
    nothing("files over 1 MiB", &large);
}

#[test]
fn what_pages_share_is_written_once() {
    let folders = ["crates/pages/assets", "crates/gateway/pages", "crates/notebook/page"];
    let mut seen = std::collections::BTreeMap::new();
    let mut wrong = Vec::new();
    for path in folders
        .iter()
        .flat_map(|folder| ["js", "css"].map(|kind| files(&root().join(folder), kind)).concat())
    {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        for three in lines.windows(3).map(|three| three.join("\n")).filter(|t| t.len() > 100) {
            let here = shown(&path);
            let first = seen.entry(three.clone()).or_insert_with(|| here.clone());
            if *first != here {
                wrong.push(format!("{first} and {here}: {three}"));
            }
        }
    }
    nothing("lines that stand in two pages; put them into crates/pages", &wrong);
}

// --- documents

#[test]
fn the_usual_files_are_there() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "deny.toml",
        ".ci/run",
        "docs/README.md",
    ] {
        assert!(!read(&root().join(name)).is_empty(), "{name}");
    }
    assert!(read(&root().join("CHANGELOG.md")).contains("\n## Unreleased\n"));
    let lines = read(&root().join("ARCHITECTURE.md")).lines().count();
    assert!(lines <= 200, "ARCHITECTURE.md has {lines} lines");
}

#[test]
fn readme_and_gate_run_the_same_commands() {
    let readme = read(&root().join("README.md"));
    let gate = read(&root().join(".ci/run"));
    let shown: Vec<_> = readme.lines().filter(|line| line.starts_with("cargo ")).take(2).collect();
    assert!(shown[0].starts_with("cargo run ") && shown[1].starts_with("cargo test "), "{shown:?}");
    let runs = [
        ("README_FIRST", "bash -c \"$README_FIRST\""),
        ("README_TESTS", ".ci/tests \"$work/flaky\" $README_TESTS"),
    ];
    for (line, (variable, run)) in shown.iter().zip(runs) {
        let assigned = format!("{variable}='{line}'");
        assert!(gate.lines().any(|gate| gate == assigned), ".ci/run has no line {assigned}");
        assert!(gate.contains(run), ".ci/run has no {run}");
    }
}

/// The Rust code of the README is the example's, but for what a comment leaves out.
#[test]
fn readme_code_is_the_example() {
    let readme = read(&root().join("README.md"));
    let example = read(&root().join("crates/agent/examples/own_tool.rs"));
    let known: BTreeSet<_> = example.lines().map(str::trim).collect();
    let code = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let lines = code.into_iter().flat_map(str::lines).map(str::trim);
    let shown: Vec<_> = lines.filter(|line| !line.starts_with("/*")).collect();
    assert!(shown.len() > 10, "{shown:?}");
    let other = shown.iter().filter(|line| !known.contains(*line)).map(|line| (*line).to_owned());
    nothing("not in own_tool.rs", &other.collect::<Vec<_>>());
}

/// The README's transcript is filled in.
#[test]
fn no_place_is_left_to_fill_in() {
    nothing("to be filled in", &containing(&files(&root(), "md"), &[concat!("@", "@")]));
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for path in files(&root(), "md") {
        let folder = path.parent().expect("a folder").to_owned();
        for target in links(&read(&path)) {
            let file = target.split('#').next().unwrap_or("");
            if !folder.join(file).exists() {
                wrong.push(format!("{}: {target}", shown(&path)));
            }
        }
    }
    nothing("dead links", &wrong);
}

/// Relative targets of Markdown links, code left out.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        for part in line.split("](").skip(1).filter(|_| !code) {
            let target = part.split([')', ' ']).next().unwrap_or("");
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[test]
fn documents_are_listed() {
    let docs = root().join("docs");
    let index: BTreeSet<_> = links(&read(&docs.join("README.md"))).into_iter().collect();
    let pages = files(&docs, "md").into_iter().map(|page| shown(&page));
    let missing = pages
        .filter(|page| {
            page != "docs/README.md" && !index.contains(page.trim_start_matches("docs/"))
        })
        .collect::<Vec<_>>();
    nothing("not in docs/README.md", &missing);
}

/// A page of a known failure names, on lines `- rule:` and `- test:`, files that exist and a test
/// that exists in its file.
#[test]
fn failures_name_their_rule_and_their_test() {
    let pages = files(&root().join("docs/failures"), "md");
    assert!(!pages.is_empty());
    let mut wrong = Vec::new();
    for path in pages {
        let text = read(&path);
        let page = shown(&path);
        let (rules, tests) = (named(&text, "- rule: "), named(&text, "- test: "));
        if rules.is_empty() || tests.is_empty() || !text.contains("\n## What happened\n") {
            wrong.push(format!("{page}: no story, no rule or no test"));
        }
        let missing = rules.iter().filter(|rule| !root().join(rule).is_file());
        wrong.extend(missing.map(|rule| format!("{page}: no file {rule}")));
        let missing = tests.iter().filter(|test| !is_a_test(test));
        wrong.extend(missing.map(|test| format!("{page}: no test {test}")));
    }
    nothing("pages about nothing", &wrong);
}

/// What stands between backticks on lines that begin so.
fn named(text: &str, label: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(label));
    lines.flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

/// `path/to/file.rs::function`, where the function stands under a test's attribute.
fn is_a_test(test: &str) -> bool {
    let Some((file, function)) = test.split_once("::") else { return false };
    let source = fs::read_to_string(root().join(file)).unwrap_or_default();
    let lines: Vec<_> = source.lines().map(str::trim_start).collect();
    let head = format!("fn {function}(");
    let at = lines.iter().position(|line| line.trim_start_matches("async ").starts_with(&head));
    let above = at.into_iter().flat_map(|at| lines[..at].iter().rev());
    let mut attributes = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    attributes.any(|line| line.contains("test]") || line.contains("test("))
}

// --- licences

/// As `cargo deny` checks them, without a tool: for every platform that `deny.toml` lists.
#[test]
fn licences_are_allowed() {
    let allowed = texts(&deny()["licenses"]["allow"]);
    assert!(allowed.contains("MIT"), "deny.toml could not be read: {allowed:?}");
    let Some(metadata) = with_dependencies() else { return };
    assert!(metadata.packages.len() > 100, "where are the dependencies?");
    let licence = |package: &Package| package.license.clone().unwrap_or_default();
    let wrong: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| !satisfied(&licence(package).replace('/', " OR "), &allowed))
        .map(|package| format!("{}: {:?}", package.name, licence(package)))
        .collect();
    nothing("licences that deny.toml does not allow", &wrong);
}

fn deny() -> toml::Table {
    read(&root().join("deny.toml")).parse().expect("deny.toml is TOML")
}

fn texts(list: &toml::Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// An SPDX expression, tried innermost parentheses first. Of a `WITH` nothing is known.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    if let Some((before, rest)) = expression.rsplit_once('(') {
        let Some((inner, after)) = rest.split_once(')') else { return false };
        let value = if satisfied(inner, allowed) { "true" } else { "false" };
        return satisfied(&format!("{before}{value}{after}"), allowed);
    }
    let holds = |licence: &str| licence == "true" || allowed.contains(licence);
    expression.split(" OR ").any(|all| all.split(" AND ").all(|licence| holds(licence.trim())))
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "Apache-2.0"].map(str::to_owned).into();
    for (expression, holds) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(Apache-2.0 OR GPL-3.0) AND MIT", true),
        ("(Apache-2.0 OR MIT) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("(MIT", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), holds, "{expression}");
    }
}

/// What `deny.toml` bans is not in the lock, or only below the crates that may have it.
#[test]
fn banned_crates_are_absent() {
    let lock: toml::Table = read(&root().join("Cargo.lock")).parse().expect("the lock is TOML");
    let packages = lock["package"].as_array().expect("packages");
    let deny = deny();
    let banned = deny["bans"]["deny"].as_array().expect("bans");
    assert!(packages.len() > 100 && !banned.is_empty());
    let name = |package: &toml::Value| package["name"].as_str().unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    for ban in banned {
        let crate_name = ban["crate"].as_str().expect("a name");
        let Some(wrappers) = ban.get("wrappers").map(texts) else {
            wrong.extend(packages.iter().map(name).filter(|name| name == crate_name));
            continue;
        };
        // A dependency is a name, with a version behind it where there are two.
        let depends = |package: &&toml::Value| {
            let all = package.get("dependencies").map(texts).unwrap_or_default();
            all.iter().any(|dependency| dependency.split(' ').next() == Some(crate_name))
        };
        let above = packages.iter().filter(depends).map(name);
        let above = above.filter(|name| !wrappers.contains(name));
        wrong.extend(above.map(|name| format!("{crate_name} below {name}")));
    }
    nothing("crates that deny.toml bans", &wrong);
}

/// As `wildcards = "deny"` has it: a dependency of another project says which versions will do.
#[test]
fn no_version_is_left_open() {
    let metadata = metadata();
    let open = members(&metadata).flat_map(|package| {
        let all = package.dependencies.iter().filter(|dependency| dependency.path.is_none());
        all.filter(|dependency| dependency.req.to_string() == "*")
            .map(|dependency| format!("{}: {}", package.name, dependency.name))
    });
    nothing("dependencies of any version", &open.collect::<Vec<_>>());
}

/// The lock names one registry and no mirror, so that it builds anywhere.
#[test]
fn dependencies_come_from_one_registry() {
    let lock = read(&root().join("Cargo.lock"));
    let sources: BTreeSet<_> =
        lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    let one = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(sources, [one].into());
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
    let platforms = texts(&deny()["graph"]["targets"]).into_iter().chain([host()]);
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
        let ignored = ["target", ".git", "corpus", "artifacts", "__pycache__"];
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
