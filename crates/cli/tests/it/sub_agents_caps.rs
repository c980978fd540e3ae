//! A cap of a tree of agents is used and never passed: `softland run --agents` against
//! `softland sim`.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::fmt::Write as _;
use std::path::Path;

use crate::support::server::Server;
use crate::support::{Said, file, notes, said_by, softland};
use serde_json::Value;

/// The exploring agent; the scenario file has its answers.
const EXPLORER: &str = "anthropic/claude-sonnet-5-5";
/// The agent that calls all others repeatedly, and the one that does so twice.
const LEAD: &str = "anthropic/delegate:always@claude-sonnet-5-5";
const DEPUTY: &str = "anthropic/delegate:2@claude-sonnet-5-5";
/// Output tokens that each holds back, nearly as many as a request of an explorer has.
const RESERVE: u32 = 512;
/// Dollars for a million tokens of input, cached or not, and of output: most is paid for output, so
/// that requests cost about what they can cost at most, and a cap takes no thousands of them.
const PRICE: (f64, f64) = (0.01, 10.0);

struct Folder {
    dir: tempfile::TempDir,
    sim: Server,
}

impl Folder {
    /// A lead with `explorers` below it and a deputy that calls them, too.
    fn new(explorers: usize, lead: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agents = dir.path().join("agents");
        std::fs::create_dir(&agents).unwrap();
        let agent = |folder: &Path, name: &str, keys: &str| {
            let text = format!(
                "---\nname: {name}\ndescription: does what {name} does\ncountdown: off\n\
                 on_loop: observe\nreserve_tokens: {RESERVE}\n{keys}\n---\nYou are {name}.\n"
            );
            file(folder, &format!("{name}.md"), &text)
        };
        for n in 0..explorers {
            agent(&agents, &format!("explorer{n}"), &format!("model: {EXPLORER}"));
        }
        agent(&agents, "deputy", &format!("tools: agent\nmodel: {DEPUTY}"));
        agent(dir.path(), "lead", &format!("tools: agent\ndepth_limit: 2\nmodel: {lead}"));
        let (input, output) = PRICE;
        let config = [EXPLORER, LEAD, DEPUTY].iter().fold(String::new(), |mut config, model| {
            let _ = write!(
                config,
                "[[price]]\nmodel = \"{model}\"\ninput = {input}\noutput = {output}\n\
                 cache_read = {input}\ncache_write = {input}\n"
            );
            config
        });
        file(dir.path(), "prices.toml", &config);
        let text = "We noted what this place says of it. ".repeat(52);
        let scenario = format!(
            "[[turn]]\nrepeat = \"forever\"\nfirst_delay_ms = 5\ntext = \"{text}\"\n\
             [[turn.call]]\ntool = \"grep\"\ninput = {{ pattern = \"no such words\" }}\n\
             [[turn]]\nwhen = \"limit\"\ntext = \"Only this.\"\n\
             [[turn]]\nwhen = \"none\"\ntext = \"Only this.\"\n"
        );
        let sim = Server::sim(&file(dir.path(), "explorer.toml", &scenario));
        Self { dir, sim }
    }

    fn run(&self, flags: &[&str]) -> Said {
        let mut command = softland();
        command.env("ANTHROPIC_BASE_URL", self.sim.url()).env("ANTHROPIC_API_KEY", "any");
        command.current_dir(self.dir.path()).args(["run", "lead.md", "Look everywhere."]);
        command.args(["--agents", "agents", "--config", "prices.toml", "--format", "json"]);
        said_by(command.arg("--root").arg(notes()).args(flags))
    }
}

/// What all requests of a tree came to.
struct Used {
    tokens: f64,
    dollars: f64,
    /// The longest input.
    longest: f64,
}

fn used(events: &[Value]) -> Used {
    let mut used = Used { tokens: 0.0, dollars: 0.0, longest: 0.0 };
    for event in events.iter().filter(|event| event["event"] == "usage") {
        let number = |key: &str| event[key].as_f64().unwrap();
        let input = number("input") + number("cache_read") + number("cache_write");
        used.tokens += input + number("output");
        used.dollars += number("cost_usd");
        used.longest = used.longest.max(input);
    }
    used
}

/// Nine tenths of a cap are used where it is twenty requests or more, in a tree with agents side
/// by side and one below the other.
#[test]
fn a_trees_cap_is_used_and_never_passed() {
    let folder = Folder::new(3, LEAD);
    let caps = [
        ("--tokens-limit", 160_000.0),
        ("--cost-limit-usd", 0.4),
        ("--session-cost-limit-usd", 0.4),
    ];
    for (flag, cap) in caps {
        let events = folder.run(&[flag, &cap.to_string()]).status(0).events();
        let told = events.iter().filter(|event| event["event"] == "child");
        let depth = |event: &Value| event["child_run"].as_str().unwrap().matches('.').count();
        let depths: Vec<usize> = told.map(depth).collect();
        assert!(depths.len() > 6 && depths.contains(&2), "{flag}: {depths:?}");
        let Used { tokens, dollars, longest } = used(&events);
        let reserve = f64::from(RESERVE);
        let (spent, worst) = match flag {
            "--tokens-limit" => (tokens, longest + reserve),
            // A byte may be a token.
            _ => (dollars, (4.0 * longest * PRICE.0 + reserve * PRICE.1) / 1e6),
        };
        assert!(cap >= 20.0 * worst, "{flag}: no more than {} requests", cap / worst);
        assert!(spent <= cap, "{flag}: {spent} of {cap}");
        assert!(spent >= 0.9 * cap, "{flag}: {spent} of {cap} used");
    }
}

/// What agents held back is there again for those that are called when they have ended: there are
/// more of them one after another than could hold theirs together.
#[test]
fn who_is_called_later_is_not_kept_from_it_by_what_others_held() {
    let folder = Folder::new(0, LEAD);
    let text = std::fs::read_to_string(folder.dir.path().join("lead.md")).unwrap();
    let text = text.replace("delegate:always@", "delegate:8@");
    std::fs::write(folder.dir.path().join("lead.md"), text).unwrap();
    let config = folder.dir.path().join("prices.toml");
    let prices = std::fs::read_to_string(&config).unwrap();
    std::fs::write(config, prices.replace("delegate:always@", "delegate:8@")).unwrap();
    // Two requests at their worst fit beside the lead's answer, and no third.
    for (flag, cap) in [("--cost-limit-usd", 0.022), ("--session-cost-limit-usd", 0.022)] {
        let events = folder.run(&[flag, &cap.to_string()]).status(0).events();
        // The lead's own; the deputy calls others in turn.
        let own = |event: &&Value| !event["run"].as_str().unwrap().contains('.');
        let results = events.iter().filter(|e| e["event"] == "tool_result").filter(own);
        let ok: Vec<&Value> = results.map(|event| &event["ok"]).collect();
        assert_eq!(ok.len(), 8, "{flag}");
        assert!(ok.iter().all(|ok| **ok == true), "{flag}: {ok:?}");
        assert!(used(&events).dollars <= cap);
    }
}
