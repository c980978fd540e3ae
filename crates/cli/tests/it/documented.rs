//! Every command line of README and docs is run, or says what it needs.
//!
//! The `sh` blocks of a document are one script, run in a folder of its own with the examples in
//! it, and with a home that holds a recorded session. A comment before a block says what the test
//! has to know: `<!-- needs: key -->` for what wants a key, a login or a registry (its flags are
//! checked all the same), `<!-- needs: PROGRAM -->` for what runs only where that program is, and
//! `<!-- file: NAME -->` for a block of any kind that is a file of the script.
//!
//! A server is started on a free port, and the address that the document has for it is replaced.
//! The providers of the script are simulators. Ids of runs stand for the newest run of the script.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::support::server::Server;
use crate::support::{analyst, notes, repository, said, softland};

/// What a block may need besides programs: none of it is here. `build` stands for what builds the
/// program or runs its tests, `store` for a store that gateways share.
const ABSENT: [&str; 5] = ["key", "registry", "build", "kernel", "store"];

/// A fenced block with what the comment before it says.
#[derive(Debug)]
struct Block {
    line: usize,
    kind: String,
    needs: Option<String>,
    file: Option<String>,
    text: String,
}

#[test]
fn every_command_line_is_run_or_says_what_it_needs() {
    let documents = Mutex::new(documents());
    let (wrong, counts) = (Mutex::new(Vec::new()), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(path) = documents.lock().unwrap().pop() else { return };
                    let (ran, left) = run_document(&path, &wrong);
                    let mut counts = counts.lock().unwrap();
                    *counts = (counts.0 + ran, counts.1 + left);
                }
            });
        }
    });
    let (wrong, (ran, left)) = (wrong.into_inner().unwrap(), counts.into_inner().unwrap());
    println!("{ran} blocks ran, {left} say what they need");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(ran > 30, "only {ran} blocks ran");
}

/// Commands of releases that a build without their feature does not have.
const BEHIND_FEATURES: [&str; 2] = ["cancel", "worker"];

/// The first word of `softland …` in prose is a command.
#[test]
fn prose_names_commands_that_exist() {
    let help = said(&["--help"]).status(0).stdout;
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let built = list.lines().filter_map(|line| line.split_whitespace().next());
    let known: Vec<_> = built.chain(BEHIND_FEATURES).collect();
    let mut wrong = Vec::new();
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (n, line) in text.lines().enumerate() {
            for code in line.split('`').skip(1).step_by(2) {
                let mut words = code.split_whitespace();
                let (Some("softland"), Some(word)) = (words.next(), words.next()) else { continue };
                let is_name = word.bytes().all(|b| b.is_ascii_lowercase());
                if is_name && !known.contains(&word) {
                    wrong.push(format!("{}:{}: {code}", path.display(), n + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "no such command:\n{}", wrong.join("\n"));
}

/// Each config that a document shows is one that `softland check` accepts.
#[test]
fn configs_in_documents_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in documents() {
        for block in blocks(&fs::read_to_string(&path).unwrap()) {
            let signs = ["[policy", "[[price]]", "[[route]]", "[ledger]", "[shape", "listen ="];
            if block.kind != "toml" || !signs.iter().any(|sign| block.text.contains(sign)) {
                continue;
            }
            // A program without the feature refuses such an address.
            if block.text.contains("postgres://") && !cfg!(feature = "postgres") {
                continue;
            }
            checked += 1;
            let config = crate::support::file(folder.path(), "softland.toml", &block.text);
            let said = said(&["check", &config]);
            if said.status != Some(0) {
                wrong.push(format!("{}:{}: {}", path.display(), block.line, said.stderr));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 5, "only {checked} configs were checked");
}

fn documents() -> Vec<PathBuf> {
    let root = repository().canonicalize().unwrap();
    let mut found = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Returns how many blocks ran, and how many did not.
fn run_document(path: &Path, wrong: &Mutex<Vec<String>>) -> (u32, u32) {
    let blocks = blocks(&fs::read_to_string(path).unwrap());
    let shown =
        path.strip_prefix(repository().canonicalize().unwrap()).unwrap().display().to_string();
    if !blocks.iter().any(Block::is_script) {
        return (0, 0);
    }
    let mut script = Script::begin();
    let (mut ran, mut left) = (0, 0);
    for block in &blocks {
        let place = format!("{shown}:{}", block.line);
        if let Some(name) = &block.file {
            script.write(name, &block.text);
        }
        if !block.is_script() {
            continue;
        }
        let absent = match block.needs.as_deref() {
            None => false,
            Some(need) if ABSENT.contains(&need) => true,
            Some(program) => !is_here(program),
        };
        let problem = if absent {
            left += 1;
            check_flags(&block.text)
        } else {
            ran += 1;
            script.run(&block.text)
        };
        if let Err(problem) = problem {
            wrong.lock().unwrap().push(format!("{place}: {problem}"));
        }
    }
    (ran, left)
}

impl Block {
    fn is_script(&self) -> bool {
        self.file.is_none() && ["sh", "console", "bash", "shell"].contains(&self.kind.as_str())
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut needs, mut file, mut open) = (None, None, None);
    for (n, line) in text.lines().enumerate() {
        let inner = line.trim_start();
        let comment = |name: &str| {
            let rest = inner.strip_prefix("<!-- ")?.strip_prefix(name)?;
            Some(rest.strip_suffix(" -->")?.to_owned())
        };
        if let Some(kind) = inner.strip_prefix("```") {
            open = match open {
                Some(_) => None,
                None => {
                    let (needs, file) = (needs.take(), file.take());
                    let kind = kind.to_owned();
                    found.push(Block { line: n + 1, kind, needs, file, text: String::new() });
                    Some(line.len() - inner.len())
                }
            };
        } else if let Some(indent) = open {
            let block = found.last_mut().unwrap();
            block.text += line.get(indent..).unwrap_or(inner);
            block.text.push('\n');
        } else if !inner.is_empty() {
            needs = comment("needs: ");
            file = comment("file: ");
        }
    }
    found
}

fn is_here(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output().unwrap();
    found.status.success()
}

/// Lines of a script: continued lines joined, comments and empty lines left out.
fn lines(text: &str) -> Vec<String> {
    let whole = text.replace("\\\n", " ");
    let lines =
        whole.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split("  # ").next().unwrap_or(line).trim().to_owned()).collect()
}

/// Parses each `softland` command of a block that is not run, by asking it for help.
fn check_flags(text: &str) -> Result<(), String> {
    for line in lines(text) {
        let Some(at) = line.split_whitespace().position(|word| word == "softland") else {
            continue;
        };
        let words = line.split_whitespace().skip(at + 1);
        // `mcp add … -- softland …` has the program behind the dashes.
        let own: Vec<_> =
            words.take_while(|word| !["--", "|", ">", "&&", ";"].contains(word)).collect();
        if own.first().is_none_or(|word| !word.bytes().all(|b| b.is_ascii_lowercase())) {
            continue;
        }
        let script = format!("exec softland {} --help", own.join(" "));
        let output = bash(&script, Path::new("/")).output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{line}\n{said}"));
        }
    }
    Ok(())
}

/// `bash`, with the program on its path and nothing of the environment.
fn bash(script: &str, folder: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_softland")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(program.to_owned()).chain(std::env::split_paths(&path));
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile", "-euo", "pipefail", "-c", script]);
    command.env_clear().env("PATH", std::env::join_paths(paths).unwrap());
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// The commands of one document: its folder, its home and its servers.
struct Script {
    folder: tempfile::TempDir,
    sim: Server,
    servers: Vec<Server>,
    /// Addresses of the document, and those that stand for them.
    addresses: BTreeMap<String, String>,
}

impl Script {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        copy(&repository().join("examples"), &work.join("examples"));
        copy(&notes(), &work.join("notes"));
        fs::copy(analyst(), work.join("analyst.md")).unwrap();
        fs::create_dir_all(work.join("agents")).unwrap();
        fs::copy(analyst(), work.join("agents/analyst.md")).unwrap();
        let lead = fs::read_to_string(analyst()).unwrap().replace("name: analyst", "name: lead");
        fs::write(work.join("lead.md"), lead.replace("\ntools: ", "\ntools: agent, ")).unwrap();
        fs::write(work.join("softland.toml"), "[policy.strict]\ntool_calls_limit = 20\n").unwrap();
        let sessions = folder.path().join("home/.claude/projects/-work");
        fs::create_dir_all(&sessions).unwrap();
        fs::write(sessions.join("5f1c2a3b.jsonl"), SESSION).unwrap();
        fs::write(work.join("session.jsonl"), SESSION).unwrap();
        fs::write(work.join("activity.csv"), ACTIVITY).unwrap();
        fs::write(work.join("my_agent.py"), MY_AGENT).unwrap();
        let mut sim = softland();
        sim.args(["sim", "--listen", "127.0.0.1:0"]);
        let sim = Server::start(&mut sim);
        Self { folder, sim, servers: Vec::new(), addresses: BTreeMap::new() }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.replace(text)).unwrap();
    }

    /// Puts the addresses and ids of this script in the place of the document's.
    fn replace(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (told, real) in &self.addresses {
            text = text.replace(told, real);
        }
        text
    }

    fn command(&self, script: &str) -> Command {
        let mut command = bash(script, &self.work());
        let url = self.sim.url();
        command.env("HOME", self.folder.path().join("home"));
        for (name, value) in [
            ("ANTHROPIC_API_KEY", "test"),
            ("OPENAI_API_KEY", "test"),
            ("ANTHROPIC_BASE_URL", &url),
            ("OPENAI_BASE_URL", &format!("{url}/v1")),
        ] {
            command.env(name, value);
        }
        command
    }

    fn run(&mut self, text: &str) -> Result<(), String> {
        let mut pending = Vec::new();
        for line in lines(text) {
            if !is_server(&line) {
                pending.push(line);
                continue;
            }
            self.run_lines(&std::mem::take(&mut pending))?;
            self.start(&line);
        }
        self.run_lines(&pending)
    }

    /// Runs lines that end. What they export holds for those that follow.
    fn run_lines(&self, lines: &[String]) -> Result<(), String> {
        for line in lines {
            let line = self.newest_run(&self.replace(line));
            let kept = self.folder.path().join("exports");
            let script = format!("{}\n{line}\nexport -p >{}", self.exports(), kept.display());
            let output = self.command(&script).output().unwrap();
            if !output.status.success() {
                let (out, said) = (&output.stdout, &output.stderr);
                let (out, said) = (String::from_utf8_lossy(out), String::from_utf8_lossy(said));
                return Err(format!("{line}\n{}\n{out}{said}", output.status));
            }
        }
        Ok(())
    }

    /// Reads what earlier lines have exported.
    fn exports(&self) -> String {
        format!("[ ! -e {0} ] || . {0}", self.folder.path().join("exports").display())
    }

    /// Puts the newest run in the place of a run's id.
    fn newest_run(&self, line: &str) -> String {
        let words = line.split_inclusive([' ', '/', '"']).map(|word| {
            let id = word.trim_end_matches([' ', '/', '"']);
            let kept = id.starts_with("run-20") && id.len() == 28;
            let seen = id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit());
            match () {
                () if kept => word.replace(id, &self.newest("run-")),
                () if seen => word.replace(id, &self.newest("")),
                () => word.to_owned(),
            }
        });
        words.collect()
    }

    /// The newest run of which the program knows, of those whose id begins so.
    fn newest(&self, begins: &str) -> String {
        let output = self.command("softland runs --json").output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let ids = lines.lines().filter_map(|line| {
            let run: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(run["run"].as_str()?.to_owned())
        });
        let mut ids = ids
            .filter(|id| id.starts_with(begins) && (begins.is_empty() != id.starts_with("run-")));
        ids.next().unwrap_or_else(|| "no-run-yet".to_owned())
    }

    /// Starts a server on a free port in the place of the one that the line has.
    fn start(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let listen = words.iter().position(|word| *word == "--listen");
        let told =
            listen.map_or_else(|| default_address(line).to_owned(), |at| words[at + 1].to_owned());
        let mut line = self.replace(&match listen {
            Some(_) => line.replace(&told, "127.0.0.1:0"),
            None => format!("{line} --listen 127.0.0.1:0"),
        });
        if line.contains("softland serve") && !line.contains("-base-url") {
            line += &format!(" --anthropic-base-url {0} --openai-base-url {0}", self.sim.url());
        }
        let script = format!("{}\nexec {line}", self.exports());
        let server = Server::start(&mut self.command(&script));
        self.addresses.insert(told, server.address.clone());
        self.servers.push(server);
    }
}

fn is_server(line: &str) -> bool {
    let servers = ["serve", "sim", "notebook", "pages"];
    let command = line.strip_prefix("softland ").and_then(|rest| rest.split_whitespace().next());
    let of_mcp = line.starts_with("softland mcp ") && line.contains("--listen");
    !line.contains("--help")
        && (of_mcp || command.is_some_and(|command| servers.contains(&command)))
}

fn default_address(line: &str) -> &'static str {
    match line.split_whitespace().nth(1) {
        Some("sim") => "127.0.0.1:4142",
        Some("notebook") => "127.0.0.1:4144",
        Some("pages") => "127.0.0.1:4145",
        Some("serve") => "127.0.0.1:4141",
        _ => panic!("no address in: {line}"),
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A session of Claude Code: a question, a call, an answer.
const SESSION: &str = r#"{"type":"user","uuid":"u1","sessionId":"5f1c2a3b","timestamp":"2026-11-20T09:00:00.000Z","cwd":"/work","message":{"role":"user","content":"How many notes are there?"}}
{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"5f1c2a3b","timestamp":"2026-11-20T09:00:04.000Z","cwd":"/work","message":{"id":"msg_1","role":"assistant","model":"claude-sonnet-5-5","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls notes"}}],"stop_reason":"tool_use","usage":{"input_tokens":900,"output_tokens":40,"cache_read_input_tokens":0,"cache_creation_input_tokens":4000}}}
{"type":"user","uuid":"u2","parentUuid":"a1","sessionId":"5f1c2a3b","timestamp":"2026-11-20T09:00:05.000Z","cwd":"/work","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a.md\nb.md"}]}}
{"type":"assistant","uuid":"a2","parentUuid":"u2","sessionId":"5f1c2a3b","timestamp":"2026-11-20T09:00:08.000Z","cwd":"/work","message":{"id":"msg_2","role":"assistant","model":"claude-sonnet-5-5","content":[{"type":"text","text":"There are two."}],"stop_reason":"end_turn","usage":{"input_tokens":60,"output_tokens":12,"cache_read_input_tokens":4900,"cache_creation_input_tokens":0}}}
"#;

/// Rows of OpenRouter's activity.
const ACTIVITY: &str = "generation_id,created_at,cost_total,tokens_prompt,tokens_completion,model_permaslug,app_name,api_key_name\n\
gen-1,2026-11-20 09:00:00.000,0.0010,1200,80,anthropic/claude-sonnet-5-5,agent,main\n\
gen-2,2026-11-20 09:00:09.000,0.0012,1500,60,anthropic/claude-sonnet-5-5,agent,main\n";

/// A program that asks both providers that its environment names.
const MY_AGENT: &str = r#"
import json, os, urllib.request

def ask(url, tool, headers):
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": "claude-sonnet-5-5", "max_tokens": 100, "tools": [tool], "messages": messages}
    headers = {"content-type": "application/json", **headers}
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()

schema = {"type": "object"}
ask(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", {"name": "list_dir", "input_schema": schema},
    {"x-api-key": "test", "anthropic-version": "2023-06-01"})
ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    {"type": "function", "function": {"name": "list_dir", "parameters": schema}}, {"authorization": "Bearer test"})
"#;
