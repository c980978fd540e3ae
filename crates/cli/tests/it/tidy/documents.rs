//! Links, lists and commands of the documents.

use super::*;
use softland_agent::core::policy::{KEYS, KeySection};

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
        "docs/install.md",
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

/// The Rust code of README and guide is the examples', but for what a comment leaves out.
#[test]
fn code_in_documents_is_that_of_the_examples() {
    let examples = ["agent/examples/own_tool.rs", "session/examples/own_client.rs"];
    let examples = examples.map(|path| read(&root().join("crates").join(path)));
    let known: BTreeSet<_> = examples.iter().flat_map(|text| text.lines()).map(str::trim).collect();
    let (mut other, mut shown) = (Vec::new(), 0);
    for page in ["README.md", "docs/start/rust.md"] {
        let text = read(&root().join(page));
        for code in text.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let lines = code.lines().map(str::trim).filter(|line| !line.starts_with("//"));
            shown += lines.clone().count();
            other.extend(
                lines.filter(|line| !known.contains(line)).map(|line| format!("{page}: {line}")),
            );
        }
    }
    assert!(shown > 60, "{shown} lines");
    nothing("in no example", &other);
}

#[test]
fn the_readme_lists_every_limit() {
    let readme = read(&root().join("README.md"));
    let limits = KEYS.iter().filter(|key| key.section == KeySection::Limits);
    let missing = limits.map(|key| format!("`{}`", key.name)).filter(|key| !readme.contains(key));
    nothing("not in README.md", &missing.collect::<Vec<_>>());
}

/// A file or folder that the map names exists, below the crate that the text is about.
#[test]
fn the_map_names_what_is_there() {
    let all: Vec<_> = everything().iter().map(|path| format!("/{}", shown(path))).collect();
    let exists = |name: &str| match name.strip_suffix('/') {
        Some(_) => all.iter().any(|path| path.contains(&format!("/{name}"))),
        None => all.iter().any(|path| path.ends_with(&format!("/{name}"))),
    };
    let map = read(&root().join("ARCHITECTURE.md"));
    let quoted = map.split('`').skip(1).step_by(2).flat_map(|text| text.split([' ', ',']));
    let endings = [".rs", ".py", ".md", ".js", ".toml", "/"];
    let named = quoted.filter(|name| {
        let pattern = name.contains("NAME") || name.contains('*') || name.starts_with('/');
        !pattern && endings.iter().any(|ending| name.ends_with(ending))
    });
    let named: Vec<_> = named.collect();
    assert!(named.len() > 100, "{named:?}");
    let missing = named.into_iter().filter(|name| !exists(name)).map(str::to_owned);
    nothing("files that ARCHITECTURE.md names and that do not exist", &missing.collect::<Vec<_>>());
}

/// The README is short, and a person who reads it sees a run, a page and how a run lands.
#[test]
fn the_readme_is_short_and_has_pictures() {
    let readme = read(&root().join("README.md"));
    let lines = readme.lines().count();
    assert!(lines <= 150, "README.md has {lines} lines");
    let shown = links(&readme).into_iter().filter(|target| target.starts_with("docs/images/"));
    assert_eq!(shown.count(), 3);
}

/// The name belongs to another project, so a reader who types this installs what is not ours.
#[test]
fn nobody_is_told_to_install_another_project() {
    let before = ["pip install ", "uvx ", "pipx run ", "pipx install ", "uv tool install "];
    let wrong = files(&root(), "md").into_iter().flat_map(|path| {
        let text = read(&path);
        let at = before.iter().flat_map(|words| {
            text.match_indices(&format!("{words}softland"))
                .map(|(at, found)| (at + found.len(), found.to_owned()))
                .collect::<Vec<_>>()
        });
        at.filter(|(end, _)| !text[*end..].starts_with("-ai"))
            .map(|(_, found)| format!("{}: {found}", shown(&path)))
            .collect::<Vec<_>>()
    });
    nothing("installs another project", &wrong.collect::<Vec<_>>());
}

/// A document is filled in.
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

/// On PyPI the name without `-ai` is another project's.
#[test]
fn documents_install_the_right_package() {
    let mut wrong = Vec::new();
    for extension in ["md", "toml", "html", "json", "js", "py", "rs", "yml", "ipynb"] {
        for path in files(&root(), extension).iter().filter(|path| !is_test(path)) {
            for (n, line) in read(path).lines().enumerate() {
                if installs_another_package(line) {
                    wrong.push(format!("{}:{}: {}", shown(path), n + 1, line.trim()));
                }
            }
        }
    }
    nothing("another project's package", &wrong);
}

/// Whether a line gives a command of PyPI's clients a package `softland` without `-ai`. Options and
/// their values may stand before the package.
fn installs_another_package(line: &str) -> bool {
    const COMMANDS: [&str; 7] = [
        "pip install ",
        "pip download ",
        "uvx ",
        "uv add ",
        "uv tool install ",
        "pipx run ",
        "pipx install ",
    ];
    let plain = |word: &str| word.trim_start_matches(['`', '"', '\'', '(']).to_owned();
    COMMANDS.iter().flat_map(|command| line.split(command).skip(1)).any(|rest| {
        let mut behind_option = false;
        for word in rest.split_whitespace().map(plain) {
            if word.starts_with("softland") {
                return !word.starts_with("softland-ai") && !word.starts_with("softland_ai");
            }
            let option = word.starts_with('-');
            if !option && !behind_option {
                return false;
            }
            behind_option = option;
        }
        false
    })
}

#[test]
fn the_name_of_the_package_is_seen() {
    for (line, wrong) in [
        ("pip install softland", true),
        ("`uvx softland`", true),
        ("or pipx run softland audit", true),
        ("python3 -m pip install --upgrade softland==1.0", true),
        ("uvx --python 3.12 \"softland\"", true),
        ("uv add softland", true),
        ("pip install softland-ai", false),
        ("pip install --no-index --find-links dist softland-ai", false),
        ("uvx --from softland-ai softland audit", false),
        ("pip install ./dist/softland_ai-0.1.0-py3-none-any.whl", false),
        ("pip install httpx, then start softland", false),
        ("npm install softland", false),
    ] {
        assert_eq!(installs_another_package(line), wrong, "{line}");
    }
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

/// `PATH::function`, where the function stands under a test's attribute.
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
