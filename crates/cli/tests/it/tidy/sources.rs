//! The size, the names and the words of source files.

use std::collections::BTreeMap;

use super::*;

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

/// Rules are combined in `run/`: none of them names another one.
#[test]
fn no_rule_calls_another() {
    let rules = files(&root().join("crates/core/src/rules"), "rs");
    let stem = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    let names: Vec<String> = rules.iter().map(|path| stem(path)).collect();
    assert!(names.len() > 10, "{names:?}");
    let mut wrong = Vec::new();
    for path in &rules {
        let others = names.iter().filter(|name| **name != stem(path));
        let calls: Vec<String> = others
            .flat_map(|name| [format!("super::{name}::"), format!("rules::{name}::")])
            .collect();
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        wrong.extend(containing(std::slice::from_ref(path), &calls));
    }
    nothing("rules that call other rules", &wrong);
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

/// The module of a crate that asks on which system it runs: `platform.rs` and `platform/`. The
/// allocator, which must be named in `main.rs`, is the one exception.
#[test]
fn the_system_is_asked_for_in_one_module_of_a_crate() {
    let words = [
        concat!("cfg(", "unix"),
        concat!("cfg(", "windows"),
        concat!("cfg!(", "windows"),
        concat!("cfg!(", "unix"),
        concat!("target_", "os"),
        concat!("std::", "os::"),
        concat!("rustix", "::"),
    ];
    let elsewhere = |path: &PathBuf| {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let in_src = parts.windows(3).any(|at| at[0] == "crates" && at[2] == "src");
        let is_platform = parts.iter().any(|part| part == "platform" || part == "platform.rs");
        in_src && !is_platform && !is_test(path) && !path.ends_with("cli/src/main.rs")
    };
    let sources: Vec<_> = files(&root(), "rs").into_iter().filter(elsewhere).collect();
    nothing("systems asked for outside of platform.rs", &containing(&sources, &words));
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
    let mut seen = BTreeMap::new();
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

/// Modules that stand side by side, one for each protocol or kind of recording. They may name the
/// same thing alike (`PARALLEL` in `scripts/measure`).
const PARALLEL: &[&str] = &[
    "unix",
    "windows",
    "anthropic",
    "chat",
    "responses",
    "aider",
    "claude_code",
    "codex",
    "copilot_cli",
    "cline",
    "goose",
    "gemini_cli",
    "openhands",
    "mini_swe",
    "swe_agent",
    "opencode",
    "ndjson",
    "otel",
    "openrouter_csv",
    "litellm",
    "langfuse",
    "vscode",
    "journal",
    // One or the other is built, by a feature.
    "disk",
    "absent",
];

/// A type name means one thing in a crate.
#[test]
fn a_type_name_stands_once_in_a_crate() {
    let mut wrong = Vec::new();
    for package in members(&metadata()) {
        let folder = root().join("crates").join(suffix(package)).join("src");
        let mut known = BTreeMap::<(String, Option<String>), String>::new();
        for path in files(&folder, "rs").into_iter().filter(|path| !is_test(path)) {
            let parallel = path.components().rev().find_map(|part| {
                let part = part.as_os_str().to_str()?;
                let part = part.strip_suffix(".rs").unwrap_or(part);
                PARALLEL.contains(&part).then(|| part.to_owned())
            });
            for name in type_names(&read(&path)) {
                let here = shown(&path);
                let alike = [parallel.clone(), None].map(|parallel| (name.clone(), parallel));
                let doubled = alike.iter().find_map(|key| known.get(key)).cloned();
                let beside = parallel.is_none().then(|| known.keys().find(|key| key.0 == name));
                let beside = beside.flatten().and_then(|key| known.get(key)).cloned();
                if let Some(there) = doubled.or(beside) {
                    wrong.push(format!("{name}: {here} and {there}"));
                }
                known.insert((name, parallel.clone()), here);
            }
        }
    }
    nothing("type names that a crate has twice", &wrong);
}

/// The types that a file of formatted source defines, but for those of modules within it.
fn type_names(text: &str) -> Vec<String> {
    let types = ["struct ", "enum ", "union ", "trait ", "type "];
    let defined = text.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| {
        let public = line.strip_prefix("pub").unwrap_or(line);
        let public = public
            .strip_prefix('(')
            .and_then(|rest| rest.split_once(')'))
            .map_or(public, |(_, rest)| rest);
        let line = public.trim_start_matches(' ');
        let name = types.iter().find_map(|kind| line.strip_prefix(kind))?;
        Some(name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
    });
    defined.collect()
}

#[test]
fn type_names_are_found() {
    let text =
        "pub(in crate::a) struct A<'a> {\n}\nenum B {\n}\n    type C = u8;\npub type D = u8;\n";
    assert_eq!(type_names(text), ["A", "B", "D"]);
}

/// A file that a comment names exists: a document from the root on, a source by the end of its
/// path.
#[test]
fn files_that_comments_name_exist() {
    let all: Vec<_> = everything().iter().map(|path| format!("/{}", shown(path))).collect();
    let mut wrong = Vec::new();
    for path in files(&root().join("crates"), "rs") {
        let text = read(&path);
        for (n, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            for name in named_files(comment) {
                let exists = all.iter().any(|path| path.ends_with(&format!("/{name}")));
                if !exists {
                    wrong.push(format!("{}:{}: {name}", shown(&path), n + 1));
                }
            }
        }
    }
    nothing("files that comments name and that do not exist", &wrong);
}

/// The documents and sources that a comment names, in backticks or not.
fn named_files(comment: &str) -> Vec<&str> {
    let words = comment.split(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)));
    let words = words.map(|word| word.trim_end_matches('.'));
    let named = words.filter(|word| {
        let stem = word.strip_suffix(".md").or_else(|| word.strip_suffix(".rs"));
        stem.is_some_and(|stem| !stem.is_empty() && !stem.starts_with('.'))
    });
    named.collect()
}

#[test]
fn named_files_are_found() {
    let found =
        named_files(" As `docs/governing.md` §7 and run/limits.rs. See a.md, not md or .rs.");
    assert_eq!(found, ["docs/governing.md", "run/limits.rs", "a.md"]);
}
