//! A small MCP server in shell, and helpers for its tests.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::server::Server;
use super::{SECRET, Said, file, notes, said_by, softland};

/// The most time for any step before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a few lines of shell. Its first argument selects its behaviour. It writes its
/// process id into `pid`, its input into `heard`, and its environment into `env`.
const SERVER: &str = r#"
case $1 in launches) exec 3<&0; sh -c 'sleep 1; exec sh "$0" well' "$0" <&3 & exit 0 ;; esac
echo $$ > pid; env > env
echo 'a word of the server' >&2
init='"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"t","version":"1"}'
tool() { printf '{"name":"%s","description":"does %s","inputSchema":{"type":"object"}%s}' "$1" "$1" "$2"; }
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { say "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
while IFS= read -r line; do
  printf '%s\n' "$line" >> heard
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$1 $line" in
    'mute '*) ;;
    'dies-at-start '*) echo 'no licence' >&2; exit 7 ;;
    'refuses '*'"initialize"'*) say '"error":{"code":-32603,"message":"not today"}' ;;
    'old '*'"initialize"'*) say "\"result\":{\"protocolVersion\":\"1999-01-01\",$init}" ;;
    'huge '*'"initialize"'*) head -c 17000000 /dev/zero | tr '\0' 'x'; echo ;;
    'malformed '*'"tools/list"'*) say '"result":{"tools":[{"title":"without a name"}]}' ;;
    'no-object '*'"tools/list"'*) say '"result":{"tools":[{"name":"t","inputSchema":{"type":"array"}}]}' ;;
    *'"initialize"'*) say "\"result\":{\"protocolVersion\":\"2025-06-18\",$init}" ;;
    *'"tools/list"'*)
      say "\"result\":{\"tools\":[$(tool echo ',"annotations":{"readOnlyHint":true}'),$(tool fails),$(tool dies),$(tool leaves),$(tool hangs),$(tool busy),$(tool flood),$(tool image),$(tool changes)$(test -e more && printf , && tool late)]}" ;;
    *'"name":"echo"'*) text "you said $(printf '%s' "$line" | sed -n 's/.*"message":"\([^"]*\)".*/\1/p')" ;;
    *'"name":"fails"'*) say '"result":{"isError":true,"content":[{"type":"text","text":"it went wrong"}]}' ;;
    *'"name":"dies"'*) echo 'out of luck' >&2; exit 3 ;;
    *'"name":"leaves"'*) echo 'out of luck' >&2; sleep 600 & exit 3 ;;
    *'"name":"hangs"'*) ;;
    *'"name":"busy"'*) sleep 600 ;;
    *'"name":"flood"'*) printf 'words that are no message\n'
      text "BEGIN$(head -c 200000 /dev/zero | tr '\0' 'x')END" ;;
    *'"name":"image"'*) say '"result":{"content":[{"type":"image","mimeType":"image/png","data":"aGVsbG8="},{"type":"resource","resource":{"uri":"x://y","text":"beans"}}]}' ;;
    *'"name":"late"'*) text 'better than never' ;;
    *'"name":"changes"'*) touch more
      printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
      text changed ;;
  esac
done
echo ended > end
"#;

/// A folder with servers, agents and scripts of a model.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "server.sh", SERVER);
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// An `mcpServers` file of one server that behaves so.
    pub(crate) fn servers(&self, behaves: &str, more: &str) -> String {
        let script = self.path().join("server.sh");
        let text = format!(
            "{{\"mcpServers\":{{\"my\":{{\"command\":\"sh\",\"args\":[{:?},{behaves:?}],\
             \"cwd\":{:?}{more}}}}}}}",
            script.to_str().unwrap(),
            self.path().to_str().unwrap(),
        );
        file(self.path(), "mcp.json", &text)
    }

    pub(crate) fn agent(&self, tools: &str) -> String {
        let text = format!("---\nname: a\ndescription: d\ntools: {tools}\n---\nGo.\n");
        file(self.path(), "a.md", &text)
    }

    /// A model that makes these calls, one a turn, and then ends.
    pub(crate) fn model(&self, calls: &[(&str, &str)]) -> Server {
        let mut script = String::new();
        for (tool, raw) in calls {
            write!(script, "[[turn]]\n[[turn.call]]\ntool = \"{tool}\"\nraw = '{raw}'\n\n")
                .unwrap();
        }
        script.push_str("[[turn]]\ntext = \"All is done.\"\n");
        Server::sim(&file(self.path(), "script.toml", &script))
    }

    pub(crate) fn run(&self, agent: &str, servers: &str, sim: &Server, flags: &[&str]) -> Said {
        let mut command = softland();
        command
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("PATH", std::env::var("PATH").unwrap())
            .args(["run", agent, "go", "--mcp", servers, "--format", "json"])
            .args(["--model", "anthropic/claude-sonnet-5-5", "--base-url", &sim.url()])
            .arg("--root")
            .arg(notes())
            .args(flags);
        said_by(&mut command)
    }

    /// Runs these calls through one server, all of whose tools the agent has.
    pub(crate) fn calls(&self, more: &str, calls: &[(&str, &str)]) -> Vec<(bool, String)> {
        let sim = self.model(calls);
        let said = self.run(&self.agent("mcp__my"), &self.servers("well", more), &sim, &[]);
        self.wait_for_the_end();
        results(&said.status(0))
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Waits until the server's process is gone.
    #[track_caller]
    pub(crate) fn wait_for_the_end(&self) {
        let process = self.read("pid").trim().to_owned();
        assert!(!process.is_empty(), "no server was started");
        let began = Instant::now();
        while lives(&process) {
            assert!(began.elapsed() < PATIENCE, "the server still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns true if a process runs. A process that has ended but was not waited for does not.
pub(crate) fn lives(process: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// Returns the results of a run's calls: true if the call worked, and its text.
pub(crate) fn results(said: &Said) -> Vec<(bool, String)> {
    let events = said.events();
    let results = events.iter().filter(|event| event["event"] == "tool_result");
    results
        .map(|event| (event["ok"] == true, event["content"].as_str().unwrap().to_owned()))
        .collect()
}

/// A folder of agents with these keys.
pub(crate) fn agents(place: &Place, agents: &[(&str, &str)]) -> std::path::PathBuf {
    let folder = place.path().join("agents");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, keys) in agents {
        let text = format!("---\nname: {name}\ndescription: does {name}\n{keys}\n---\nGo.\n");
        file(&folder, &format!("{name}.md"), &text);
    }
    folder
}

/// An agent whose call runs a program that writes its number into `child` and stays.
pub(crate) fn stays(place: &Place) -> (std::path::PathBuf, Server) {
    let path = place.path().join("child");
    let line = format!("echo $$ > {0}.new && mv {0}.new {0} && sleep 600", path.display());
    let sim = place.model(&[("shell", &format!("{{\"command\": \"{line}\"}}"))]);
    (agents(place, &[("stays", "tools: shell")]), sim)
}

/// Waits for the program; its process's number.
#[track_caller]
pub(crate) fn child(place: &Place) -> String {
    let began = Instant::now();
    loop {
        let number = place.read("child");
        if !number.is_empty() {
            std::fs::remove_file(place.path().join("child")).unwrap();
            return number.trim().to_owned();
        }
        assert!(began.elapsed() < PATIENCE, "no program was run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[track_caller]
pub(crate) fn gone(process: &str) {
    let began = Instant::now();
    while lives(process) {
        assert!(began.elapsed() < PATIENCE, "what the run started still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Flags of a model at the simulator, for programs.
pub(crate) fn flags(url: &str) -> Vec<&str> {
    vec!["--allow-shell", "--model", "anthropic/claude-sonnet-5-5", "--base-url", url]
}
