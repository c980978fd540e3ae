//! `docs/reference/` lists what the code has, and the code has what it lists.
//!
//! Words are taken from the tables: what stands in backticks in the first cell of a row. Of the code
//! they are taken from its public lists, from the binary's help, or from the literals of a source.

use super::*;
use softland_agent::core::policy::{KEYS, KeySection};
use softland_agent::core::{Reason, SignalKind};

use crate::support::said;

type Words = BTreeSet<String>;

#[test]
fn policy_keys_and_their_flags() {
    let page = Page::read("policy.md");
    let rows = ["Limits", "Landing", "Loops and silence", "Other keys"].map(|name| page.rows(name));
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    assert_same(
        "policy keys",
        &KEYS.iter().map(|key| key.name.to_owned()).collect(),
        &firsts(&rows),
    );
    let wrong = rows.iter().filter(|row| {
        let flag = row.cells[0].trim_matches('`').replace('_', "-");
        row.cells[1] != format!("`--{flag}`")
    });
    nothing("flags", &wrong.map(|row| row.cells[..2].join(" ")).collect::<Vec<_>>());
    assert!(KEYS.iter().any(|key| key.section == KeySection::Limits), "keys have sections");
}

/// The section of the commands and the flags that only a build with the feature `engine` has.
const ENGINE_SECTION: &str = "Runs that an engine keeps";
const ENGINE_COMMANDS: [&str; 2] = ["cancel", "worker"];

/// A flag stands in its command's section, or in the table of flags that several commands have; one
/// about engines stands in the section of that name.
#[test]
fn commands_and_their_flags() {
    let page = Page::read("commands.md");
    let help = said(&["--help"]).status(0).stdout;
    let commands: Words = listed_commands(&help).into_iter().collect();
    let mut listed = first_words(&page.rows(""));
    if cfg!(not(feature = "engine")) {
        listed.retain(|command| !ENGINE_COMMANDS.contains(&command.as_str()));
    }
    assert_same("commands", &commands, &listed);
    let policy: Words =
        KEYS.iter().map(|key| format!("--{}", key.name.replace('_', "-"))).collect();
    let shared = page.rows("Flags that several commands have");
    let mut wrong = Vec::new();
    for command in &commands {
        let help = said(&[command, "--help"]).status(0).stdout;
        let flags: Words = flags_of(&help).difference(&policy).cloned().collect();
        let named = |row: &&Row| row.cells[1].contains(&format!("`{command}`"));
        let mut told: Words =
            shared.iter().filter(named).flat_map(|row| flags_of(&row.cells[0])).collect();
        let own = page
            .sections()
            .into_iter()
            .filter(|(heading, _)| heading.contains(&format!("`{command}`")));
        let own: Vec<_> = own.flat_map(|(heading, _)| page.rows(&heading)).collect();
        told.extend(own.iter().flat_map(|row| flags_of(&row.cells[0])));
        let mut text = page.section_with(&format!("`{command}`"));
        if cfg!(feature = "engine") {
            let words = format!("`softland {command} ");
            let rows = page.rows(ENGINE_SECTION);
            for row in rows.iter().filter(|row| row.cells[0].starts_with(&words)) {
                told.extend(flags_of(&row.cells[0]));
                text += &page.section_with(ENGINE_SECTION);
            }
        }
        told = told.difference(&policy).cloned().collect();
        for flag in flags.difference(&told).filter(|flag| !flags_of(&text).contains(*flag)) {
            wrong.push(format!("{command} {flag} is not in commands.md"));
        }
        for flag in told.difference(&flags) {
            wrong.push(format!("commands.md has {command} {flag}, and the program has not"));
        }
    }
    nothing("flags", &wrong);
}

#[test]
fn keys_of_a_config() {
    let page = Page::read("config.md");
    let config = read(&root().join("crates/cli/src/config.rs"));
    let gateway = read(&root().join("crates/cli/src/config/gateway.rs"));
    let key = read(&root().join("crates/cli/src/config/key.rs"));
    let price = read(&root().join("crates/cli/src/config/price.rs"));
    let shape = read(&root().join("crates/cli/src/config/shape.rs"));
    let upstream = read(&root().join("crates/cli/src/config/upstream.rs"));
    let shared = read(&root().join("crates/cli/src/config/shared.rs"));
    let tables: [(&str, Words); 10] = [
        ("`[admin]`", literals(&gateway, "\"admin\", value, &[", "]")),
        ("`[clients]`", literals(&gateway, "\"clients\", value, &[", "]")),
        ("`[[key]]`", literals(&key, "const KNOWN: [&str; 6] = [", "]")),
        ("`[upstream.NAME]`", literals(&upstream, "const KEYS: [&str; 3] = [", "]")),
        ("`[[route]]`", literals(&gateway, "\"route\", &whole, &[", "]")),
        ("`[[price]]`", literals(&price, "const KEYS: [&str; 5] = [", "]")),
        ("`[shape.NAME]`", literals(&shape, "const KEYS: [&str; 8] = [", "]")),
        ("`[ledger]`", literals(&gateway, "\"ledger\", value, &[", "]")),
        ("`[log]`", literals(&gateway, "\"log\", value, &[", "]")),
        ("`[shared]`", literals(&shared, "const KEYS: [&str; 2] = [", "]")),
    ];
    for (table, known) in &tables {
        assert_same(table, known, &firsts(&page.rows(table)));
    }
    let known = literals(&config, "const TABLES: [&str; ", "];");
    let headings = page.sections().into_iter().filter_map(|(heading, _)| {
        let name = heading.strip_prefix('`')?.strip_suffix('`')?;
        let name = name.trim_matches(['[', ']']);
        Some(name.split('.').next()?.to_owned())
    });
    let told: Words = headings.chain(firsts(&page.rows("Keys at the top"))).collect();
    assert_same("tables and keys at the top", &known, &told);
}

#[test]
fn keys_and_tools_of_agent_files() {
    let page = Page::read("agent_files.md");
    let keys = read(&root().join("crates/agent/src/agent_file/keys.rs"));
    assert_same(
        "front matter",
        &literals(&keys, "const OWN: [&str; ", "];"),
        &firsts(&page.rows("Front matter")),
    );
    let commands = read(&root().join("crates/agent/src/agent_file/commands.rs"));
    assert_same(
        "commands",
        &literals(&commands, "const MEMBERS: [&str; ", "];"),
        &firsts(&page.rows("Commands")),
    );
    let tools = read(&root().join("crates/agent/src/tools.rs"));
    let mut known = literals(&tools, "pub const BUILT_IN: &[&str] = &[", "];");
    known.remove("http");
    known.extend(["agent", "mcp__SERVER__TOOL"].map(str::to_owned));
    assert_same("tools", &known, &firsts(&page.rows("Tools")));
    // Keys of other programs that are passed over without a word.
    let foreign = between(&keys, "const FOREIGN: ", "\n];");
    let foreign = foreign.lines().filter(|line| !line.trim_start().starts_with("//"));
    let foreign: String = foreign.collect();
    // And those that are carried out or refused.
    let restricting = read(&root().join("crates/agent/src/agent_file/foreign.rs"));
    let turns = between(&restricting, "const TURNS: ", ";\n");
    let taken = between(&restricting, "match entry.key.as_str() {", "_ => return false");
    let told = page.section_with("Keys of other programs");
    let missing = quoted(&[foreign, turns, taken].concat())
        .into_iter()
        .filter(|key| is_key(key) && !told.contains(&format!("`{key}`")));
    nothing("not in agent_files.md", &missing.collect::<Vec<_>>());
}

fn is_key(word: &str) -> bool {
    !word.contains(' ') && !KEYS.iter().any(|key| key.name == word)
}

#[test]
fn headers() {
    let page = Page::read("headers.md");
    let sources = sources(&["gateway", "govern"]);
    let ours = |text: &str| -> Words {
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
        let words = words.map(|word| word.trim_end_matches('-'));
        words
            .filter(|word| word.starts_with("x-softland-") && word.len() > 11)
            .map(str::to_owned)
            .collect()
    };
    let literals = sources.split('"').filter(|part| !part.contains('\n')).flat_map(ours);
    let known: Words = literals.collect();
    assert!(known.len() > 5, "{known:?}");
    assert_same("headers", &known, &ours(&page.text));
}

#[test]
fn routes_and_metrics() {
    let page = Page::read("routes.md");
    let route = read(&root().join("crates/gateway/src/serve/route.rs"));
    let mut known: Words = literals(&route, "[(&str, Endpoint); 5] = [", "];");
    known.extend(literals(&route, "const BESIDE: [(&str, Protocol); 1] = [", "];"));
    let open = quoted(&between(&route, "match uri.path() {", "path if"));
    known.extend(open.into_iter().filter(|word| word.starts_with('/')));
    let pages = read(&root().join("crates/gateway/src/pages.rs"));
    known.extend(api_paths(&pages));
    known.extend(["/", "/audit", "/to/NAME/v1/…"].map(str::to_owned));
    let told = ["Provider routes", "Health and metrics", "Pages", "The pages' API"];
    let told = told.iter().flat_map(|name| page.rows(name)).flat_map(|row| ticked(&row.cells[0]));
    let told = told.map(|cell| cell.split(' ').next_back().unwrap_or_default().to_owned());
    let told: Words = told.filter(|path| path.starts_with('/') && path != "/v1/").collect();
    assert_same("routes", &known, &told);

    let files = ["metrics", "usage_metrics"];
    let read_file = |name| read(&root().join(format!("crates/gateway/src/{name}.rs")));
    let metrics = files.map(read_file).concat();
    let known: Words = metrics
        .split("registry.register(")
        .skip(1)
        .filter_map(|call| Some(format!("softland_{}", call.split('"').nth(1)?)))
        .collect();
    let told = page.rows("Metrics");
    let told: Words =
        firsts(&told).into_iter().filter(|name| name.starts_with("softland_")).collect();
    let told = told.iter().map(|name| name.trim_end_matches("_total").to_owned()).collect();
    assert_same("metrics", &known, &told);

    let sources = sources(&["gateway", "govern"]);
    let calls = sources.split("count_event(").chain(sources.split("EventLabels { event: ")).skip(1);
    let known: Words = calls
        .filter_map(|call| call.strip_prefix('"')?.split('"').next().map(str::to_owned))
        .collect();
    let told =
        firsts(&page.rows("Metrics")).into_iter().filter(|name| !name.starts_with("softland_"));
    let told: Words = told.collect();
    let missing: Vec<_> = known.difference(&told).cloned().collect();
    nothing("events of softland_events_total that routes.md lacks", &missing);
    let gone = told.iter().filter(|word| !sources.contains(&format!("\"{word}\""))).cloned();
    nothing("events of softland_events_total that the code lacks", &gone.collect::<Vec<_>>());
}

/// The paths that the pages' API matches by their parts.
fn api_paths(source: &str) -> Words {
    let arms = source.match_indices("[\"").filter_map(|(at, _)| {
        let (list, rest) = source[at + 1..].split_once(']')?;
        let rest = rest.trim_start();
        (rest.starts_with("=>") || rest.starts_with("= names")).then_some(list)
    });
    let part = |part: &str| {
        let part = part.trim();
        if part.starts_with('"') { part.trim_matches('"').to_owned() } else { part.to_uppercase() }
    };
    arms.map(|list| format!("/api/{}", list.split(',').map(part).collect::<Vec<_>>().join("/")))
        .collect()
}

#[test]
fn events() {
    let page = Page::read("events.md");
    let source = read(&root().join("crates/agent/src/event.rs"));
    let known = variants(&source, "pub enum EventKind {");
    let told = firsts(&page.rows("Events"));
    let missing: Vec<_> = known.difference(&told).cloned().collect();
    nothing("events that events.md lacks", &missing);
    // The pages' streams have events of their own.
    let others = sources(&["gateway", "govern", "notebook"]);
    let gone = told.difference(&known).filter(|word| !others.contains(&format!("\"{word}\"")));
    nothing("events that the code lacks", &gone.cloned().collect::<Vec<_>>());
}

#[test]
fn words_of_events() {
    let page = Page::read("events.md");
    let reasons = Reason::ALL.iter().map(|reason| match reason {
        Reason::Tool(_) => "tool:NAME".to_owned(),
        reason => reason.to_string(),
    });
    assert_same("reasons", &reasons.collect(), &firsts(&page.rows("Reasons")));
    let keyed = page.rows("Reasons").into_iter().filter(|row| !row.cells[2].is_empty());
    let keyed: Words = keyed.flat_map(|row| ticked(&row.cells[2])).collect();
    let gone = keyed.iter().filter(|key| !KEYS.iter().any(|known| known.name == key.as_str()));
    nothing("keys of reasons", &gone.cloned().collect::<Vec<_>>());
    let signals = SignalKind::ALL.iter().map(|kind| kind.word().to_owned()).collect();
    assert_same("signals", &signals, &firsts(&page.rows("Signals")));
    let core = |file: &str| read(&root().join("crates/core/src").join(file));
    let outcomes = variants(&core("outcome.rs"), "pub enum Outcome {");
    assert_same("outcomes", &outcomes, &firsts(&page.rows("Outcomes")));
    let rungs = variants(&core("rung.rs"), "pub enum Rung {");
    assert_same("rungs", &rungs, &firsts(&page.rows("Rungs")));
    let out = read(&root().join("crates/session/src/out.rs"));
    let mut interventions = variants(&out, "pub enum Intervention {");
    interventions.insert("deny_spend".to_owned());
    let files = ["metrics", "usage_metrics"];
    let read_file = |name| read(&root().join(format!("crates/gateway/src/{name}.rs")));
    let metrics = files.map(read_file).concat();
    assert_same(
        "interventions",
        &literals(&metrics, "pub const INTERVENTIONS: ", "];"),
        &interventions,
    );
    assert_same("interventions", &interventions, &firsts(&page.rows("Interventions")));
}

/// Variables of the environment. A name of one word (`CI`, `HOME`) is too short to be looked for.
#[test]
fn variables() {
    /// Literals of the code that look like a variable and are none that it reads.
    const OTHERS: &[&str] = &[
        "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
        "MINI_SWE_AGENT_FINAL_OUTPUT",
        "LC_ALL",
        "LC_CTYPE",
        "PROCESSOR_ARCHITECTURE",
        // Names that messages suggest.
        "SOFTLAND_ADMIN_TOKEN",
        "SOFTLAND_SHARED_URL",
    ];
    let code = sources(&["agent", "cli", "gateway", "govern", "import", "notebook", "ledger"]);
    let known: Words = code
        .split('"')
        .filter(|word| is_variable(word) && !word.starts_with("CARGO_") && !OTHERS.contains(word))
        .map(str::to_owned)
        .collect();
    assert!(known.len() > 30, "{known:?}");
    let pages = [Page::read("environment.md"), Page::read("commands.md")];
    let told: Words = pages.iter().flat_map(|page| ticked(&page.text)).collect();
    let told: Words = told
        .into_iter()
        .flat_map(|cell| {
            cell.split([' ', '=', '$', '/', '{', '}', ':']).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|word| is_variable(word))
        .collect();
    let missing: Vec<_> = known.difference(&told).cloned().collect();
    nothing("variables that environment.md and commands.md lack", &missing);
    // `NAME_API_KEY` is a pattern, and the others are read by the library that checks certificates.
    let elsewhere = ["NAME_API_KEY", "SSL_CERT_FILE", "SSL_CERT_DIR"];
    let gone = told.iter().map(String::as_str);
    let gone = gone.filter(|word| !elsewhere.contains(word) && !code.contains(word));
    nothing("variables that the code lacks", &gone.map(str::to_owned).collect::<Vec<_>>());
}

fn is_variable(word: &str) -> bool {
    let parts: Vec<_> = word.split('_').collect();
    parts.len() > 1
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && parts.iter().all(|part| !part.is_empty())
        && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

// --- pages

/// A page of the reference.
struct Page {
    text: String,
}

/// A row of a table.
struct Row {
    cells: Vec<String>,
}

impl Page {
    fn read(name: &str) -> Self {
        Self { text: read(&root().join("docs/reference").join(name)) }
    }

    /// Headings with the text behind each, up to the next one of any level. What stands before the
    /// first one has the heading "".
    fn sections(&self) -> Vec<(String, String)> {
        let mut found = vec![(String::new(), String::new())];
        let mut code = false;
        for line in self.text.lines() {
            code ^= line.starts_with("```");
            match line.strip_prefix("##").filter(|_| !code) {
                Some(heading) => {
                    found.push((heading.trim_matches(['#', ' ']).to_owned(), String::new()))
                }
                None => found.iter_mut().next_back().expect("a section").1 += &format!("{line}\n"),
            }
        }
        found
    }

    /// Rows of the tables under a heading, without their heads.
    fn rows(&self, heading: &str) -> Vec<Row> {
        let sections = self.sections();
        let (_, text) = sections
            .iter()
            .find(|(name, _)| name == heading)
            .unwrap_or_else(|| panic!("no heading {heading}"));
        let lines: Vec<_> = text.lines().collect();
        let rows = lines.iter().enumerate().filter(|(at, line)| {
            let below = lines.get(at + 1).is_some_and(|below| below.starts_with("|--"));
            line.starts_with('|') && !line.starts_with("|--") && !below
        });
        let rows = rows.map(|(_, line)| Row {
            cells: line
                .replace("\\|", "\u{1}")
                .split('|')
                .skip(1)
                .map(|cell| cell.trim().replace('\u{1}', "|"))
                .collect(),
        });
        rows.collect()
    }

    /// The text of the section whose heading holds these words.
    fn section_with(&self, words: &str) -> String {
        let found = self.sections().into_iter().filter(|(name, _)| name.contains(words));
        found.map(|(_, text)| text).collect()
    }
}

/// The words in backticks of each row's first cell; a row whose first cell links elsewhere has none.
fn firsts(rows: &[Row]) -> Words {
    let cells = rows.iter().filter(|row| !row.cells[0].contains("]("));
    cells.flat_map(|row| ticked(&row.cells[0])).collect()
}

/// The first word in backticks of each row.
fn first_words(rows: &[Row]) -> Words {
    rows.iter().flat_map(|row| ticked(&row.cells[0])).collect()
}

fn ticked(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn listed_commands(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Long flags in a text, but for those that every command has.
fn flags_of(text: &str) -> Words {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-');
    let flags =
        words.filter(|word| word.len() > 3 && word.starts_with("--") && !word.starts_with("---"));
    flags
        .filter(|flag| !["--help", "--version"].contains(flag))
        .map(|flag| flag.trim_end_matches('-').to_owned())
        .collect()
}

// --- the code

/// The sources of some crates without their tests and comments.
fn sources(crates: &[&str]) -> String {
    let mut whole = String::new();
    for name in crates {
        for path in files(&root().join("crates").join(name).join("src"), "rs") {
            if is_test(&path) {
                continue;
            }
            let text = read(&path);
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                whole += line;
                whole.push('\n');
            }
        }
    }
    whole
}

fn between(text: &str, from: &str, to: &str) -> String {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} behind {from}")).0.to_owned()
}

fn literals(text: &str, from: &str, to: &str) -> Words {
    let found: Words = quoted(&between(text, from, to)).into_iter().collect();
    assert!(!found.is_empty(), "no words behind {from}");
    found
}

fn quoted(text: &str) -> Vec<String> {
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The variants of an enum, as serde's `snake_case` writes them.
fn variants(source: &str, head: &str) -> Words {
    let body = between(source, head, "\n}\n");
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    let names = names
        .map(|line| line.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default());
    let snake = |name: &str| {
        let mut word = String::new();
        for letter in name.chars() {
            if letter.is_ascii_uppercase() && !word.is_empty() {
                word.push('_');
            }
            word.push(letter.to_ascii_lowercase());
        }
        word
    };
    names.map(snake).collect()
}

#[track_caller]
fn assert_same(what: &str, code: &Words, page: &Words) {
    let missing: Vec<_> = code.difference(page).collect();
    let gone: Vec<_> = page.difference(code).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "{what}: docs/reference lacks {missing:?}; the code lacks {gone:?}"
    );
}
