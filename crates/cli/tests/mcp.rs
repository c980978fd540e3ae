//! `softland run --mcp` against small servers of the tests' own, and `softland mcp` as a client sees
//! it: through the real binary.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]
#![expect(clippy::panic, reason = "what goes wrong here fails the test")]

mod support;

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::server::Server;
use support::{SECRET, Said, file, kill, notes, said_by, softland};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a few lines of shell. Its first argument says how it behaves. It writes its process's
/// number into `pid`, what it hears into `heard`, and its environment into `env`.
const SERVER: &str = r#"
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
      say "\"result\":{\"tools\":[$(tool echo ',"annotations":{"readOnlyHint":true}'),$(tool fails),$(tool dies),$(tool hangs),$(tool busy),$(tool flood),$(tool image),$(tool changes)]}" ;;
    *'"name":"echo"'*) text "you said $(printf '%s' "$line" | sed -n 's/.*"message":"\([^"]*\)".*/\1/p')" ;;
    *'"name":"fails"'*) say '"result":{"isError":true,"content":[{"type":"text","text":"it went wrong"}]}' ;;
    *'"name":"dies"'*) echo 'out of luck' >&2; exit 3 ;;
    *'"name":"hangs"'*) ;;
    *'"name":"busy"'*) sleep 600 ;;
    *'"name":"flood"'*) printf 'words that are no message\n'
      text "BEGIN$(head -c 200000 /dev/zero | tr '\0' 'x')END" ;;
    *'"name":"image"'*) say '"result":{"content":[{"type":"image","mimeType":"image/png","data":"aGVsbG8="},{"type":"resource","resource":{"uri":"x://y","text":"beans"}}]}' ;;
    *'"name":"changes"'*) printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
      text changed ;;
  esac
done
echo ended > end
"#;

/// A folder with servers, agents and scripts of a model.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "server.sh", SERVER);
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// An `mcpServers` file of one server that behaves so.
    fn servers(&self, behaves: &str, more: &str) -> String {
        let script = self.path().join("server.sh");
        let text = format!(
            "{{\"mcpServers\":{{\"my\":{{\"command\":\"sh\",\"args\":[{:?},{behaves:?}],\
             \"cwd\":{:?}{more}}}}}}}",
            script.to_str().unwrap(),
            self.path().to_str().unwrap(),
        );
        file(self.path(), "mcp.json", &text)
    }

    fn agent(&self, tools: &str) -> String {
        let text = format!("---\nname: a\ndescription: d\ntools: {tools}\n---\nGo.\n");
        file(self.path(), "a.md", &text)
    }

    /// A model that makes these calls, one a turn, and then ends.
    fn model(&self, calls: &[(&str, &str)]) -> Server {
        let mut script = String::new();
        for (tool, raw) in calls {
            write!(script, "[[turn]]\n[[turn.call]]\ntool = \"{tool}\"\nraw = '{raw}'\n\n")
                .unwrap();
        }
        script.push_str("[[turn]]\ntext = \"All is done.\"\n");
        Server::sim(&file(self.path(), "script.toml", &script))
    }

    fn run(&self, agent: &str, servers: &str, sim: &Server, flags: &[&str]) -> Said {
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
    fn calls(&self, more: &str, calls: &[(&str, &str)]) -> Vec<(bool, String)> {
        let sim = self.model(calls);
        let said = self.run(&self.agent("mcp__my"), &self.servers("well", more), &sim, &[]);
        self.wait_for_the_end();
        results(&said.status(0))
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// Waits until the server's process is gone.
    #[track_caller]
    fn wait_for_the_end(&self) {
        let process = self.read("pid").trim().to_owned();
        assert!(!process.is_empty(), "no server was started");
        let began = Instant::now();
        while lives(&process) {
            assert!(began.elapsed() < PATIENCE, "the server still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Whether a process runs; one that nobody has waited for does not.
fn lives(process: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}

/// The results of a run's calls: whether it worked, and its text.
fn results(said: &Said) -> Vec<(bool, String)> {
    let events = said.events();
    let results = events.iter().filter(|event| event["event"] == "tool_result");
    results
        .map(|event| (event["ok"] == true, event["content"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn tools_of_a_server_are_called_and_it_is_ended_cleanly() {
    let place = Place::new();
    let results = place.calls(
        ",\"env\":{\"GIVEN\":\"${NOT_SET:-this}\"}",
        &[
            ("mcp__my__echo", "{\"message\":\"hello\"}"),
            ("mcp__my__fails", "{}"),
            ("mcp__my__image", "{}"),
            ("mcp__my__changes", "{}"),
        ],
    );
    assert_eq!(results[0], (true, "you said hello".to_owned()));
    assert_eq!(results[1], (false, "it went wrong".to_owned()));
    assert_eq!(
        results[2].1,
        "[an image, image/png, 5 bytes, cannot be shown]\n[resource x://y]\nbeans"
    );
    assert_eq!(results[3], (true, "changed".to_owned()));
    // Its input was closed, and it came to its end by itself.
    assert_eq!(place.read("end"), "ended\n");
    let env = place.read("env");
    assert!(env.contains("GIVEN=this") && env.contains("PATH="), "{env}");
    assert!(!env.contains(SECRET) && !env.contains("XDG_STATE_HOME"), "{env}");
    // The list has changed, and was not asked for again.
    assert_eq!(place.read("heard").matches("tools/list").count(), 1);
}

#[test]
fn a_server_that_dies_in_a_call_is_an_error_of_that_call_and_of_those_after_it() {
    let place = Place::new();
    let calls = [("mcp__my__dies", "{}"), ("mcp__my__echo", "{\"message\":\"x\"}")];
    let results = place.calls("", &calls);
    assert_eq!(results.len(), 2);
    for (ok, text) in results {
        assert!(!ok);
        assert!(text.contains("server `my` has ended"), "{text}");
        assert!(text.contains("out of luck"), "its last words: {text}");
    }
}

#[test]
fn a_call_ends_in_time_and_the_server_is_told() {
    let place = Place::new();
    let results = place.calls(",\"timeout\":200", &[("mcp__my__hangs", "{}")]);
    assert!(!results[0].0);
    assert!(results[0].1.contains("did not answer within 0.2 s"), "{}", results[0].1);
    assert!(place.read("heard").contains("notifications/cancelled"), "{}", place.read("heard"));
}

#[test]
fn long_results_keep_head_and_tail_and_words_between_messages_are_passed_over() {
    let place = Place::new();
    let results = place.calls("", &[("mcp__my__flood", "{}")]);
    let (ok, text) = &results[0];
    assert!(*ok && text.starts_with("BEGIN") && text.ends_with("END"), "{}", text.len());
    assert!(text.len() <= 64 * 1024 && text.contains("characters left out"), "{}", text.len());
}

#[test]
fn what_is_wrong_at_the_start_names_file_and_server() {
    for (behaves, wanted) in [
        (
            "dies-at-start",
            "ended before it was initialised (exit status: 7); its last words: a word",
        ),
        ("refuses", "initialize: error -32603: not today"),
        ("old", "1999-01-01"),
        ("huge", "it sent a message of more than 16 MiB"),
        ("malformed", "tools/list: the answer is no list of tools"),
        ("no-object", "tool `t`: its inputSchema must have \"type\": \"object\""),
    ] {
        let place = Place::new();
        let sim = place.model(&[]);
        let servers = place.servers(behaves, "");
        let said = place.run(&place.agent("mcp__my__echo"), &servers, &sim, &[]).status(2);
        assert!(said.stderr.contains(wanted), "{behaves}: {}", said.stderr);
        assert!(said.stderr.contains("mcp.json: server `my`: "), "{behaves}: {}", said.stderr);
        place.wait_for_the_end();
    }
}

#[test]
fn names_are_checked_before_the_model_is_asked() {
    let place = Place::new();
    let sim = place.model(&[]);
    let servers = place.servers("well", "");
    for (tools, wanted) in [
        ("mcp__other__x", "a.md:4: tools: "),
        ("mcp__other__x", "has no server `other`; it has my"),
        ("mcp__my__ecko", "did you mean `mcp__my__echo`?"),
    ] {
        place.run(&place.agent(tools), &servers, &sim, &[]).status(2).says(wanted);
    }
    let none = place.run(&place.agent("read_file"), &servers, &sim, &[]).status(0);
    none.says("no agent file names a tool");
    let without =
        said_by(softland().args(["run", &place.agent("mcp__my"), "x", "--model", "sim/reader"]));
    without.status(2).says("--mcp FILE names servers");
    let text = "{\"mcpServers\":{\n\"a\":{\"command\":\"x\"},\n\"a\":{\"command\":\"y\"}}}";
    let twice = file(place.path(), "twice.json", text);
    let said = place.run(&place.agent("mcp__a"), &twice, &sim, &[]);
    said.status(2).says("twice.json:3: `a` is there twice");
}

#[test]
fn ctrl_c_while_servers_start_ends_them() {
    let place = Place::new();
    let (agent, servers) = (place.agent("mcp__my"), place.servers("mute", ""));
    let mut child = softland()
        .env("PATH", std::env::var("PATH").unwrap())
        .args(["run", &agent, "go", "--model", "sim/reader", "--mcp", &servers])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !place.read("heard").contains("initialize") {
        assert!(began.elapsed() < PATIENCE, "the server is not asked");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    place.wait_for_the_end();
}

#[test]
fn a_server_busy_in_a_call_ends_with_a_softland_that_is_killed() {
    let place = Place::new();
    let (agent, servers) = (place.agent("mcp__my"), place.servers("well", ""));
    let sim = place.model(&[("mcp__my__busy", "{}")]);
    let mut child = softland()
        .env("ANTHROPIC_API_KEY", SECRET)
        .env("PATH", std::env::var("PATH").unwrap())
        .args(["run", &agent, "go", "--mcp", &servers, "--root"])
        .arg(notes())
        .args(["--model", "anthropic/claude-sonnet-5-5", "--base-url", &sim.url()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !place.read("heard").contains("\"name\":\"busy\"") {
        assert!(began.elapsed() < PATIENCE, "the server is not called");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(child.id(), "KILL");
    child.wait().unwrap();
    place.wait_for_the_end();
}

/// A client of `softland mcp` over its standard input and output.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
}

impl Client {
    fn new(agents: &Path, flags: &[&str]) -> Self {
        let mut command = softland();
        command.env("ANTHROPIC_API_KEY", SECRET);
        command.env("PATH", std::env::var("PATH").unwrap());
        command.arg("mcp").arg(agents).arg("--root").arg(notes()).args(flags);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (to, messages) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nothing but the protocol is on standard output.
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
                if to.send(message).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let client = Self { child, input, messages };
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}}));
        assert_eq!(client.answer(0)["result"]["serverInfo"]["name"], "softland");
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn raw(&self, line: &str) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    fn send(&self, message: &Value) {
        self.raw(&message.to_string());
    }

    fn call(&self, id: u64, name: &str, prompt: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": name, "arguments": {"prompt": prompt}, "_meta": {"progressToken": id}}}));
    }

    #[track_caller]
    fn next(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap()
    }

    /// The answer with that id; others before it are passed over.
    #[track_caller]
    fn answer(&self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Waits for a notification of a call's progress that says this.
    #[track_caller]
    fn progress(&self, text: &str) {
        loop {
            let message = self.next();
            if message["params"]["message"].as_str().is_some_and(|told| told.contains(text)) {
                return;
            }
        }
    }

    /// Closes the input; its exit status.
    fn ended(mut self) -> Option<i32> {
        drop(self.input.take());
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn agents(place: &Place, agents: &[(&str, &str)]) -> std::path::PathBuf {
    let folder = place.path().join("agents");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, keys) in agents {
        let text = format!("---\nname: {name}\ndescription: does {name}\n{keys}\n---\nGo.\n");
        file(&folder, &format!("{name}.md"), &text);
    }
    folder
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

#[test]
fn agents_are_tools_and_every_call_is_answered() {
    let place = Place::new();
    let folder = agents(
        &place,
        &[
            ("reader", "model: sim/reader"),
            ("lander", "model: sim/looper\ntool_calls_limit: 2\non_loop: observe"),
            ("mute", "model: sim/mute\ntool_calls_limit: 1"),
            ("broken", "model: sim/overloaded\ntime_limit: 1s\nreserve_time: 0s"),
            ("lead", "model: sim/delegate\ntools: agent\ndepth_limit: 1"),
        ],
    );
    let client = Client::new(&folder, &[]);
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let listed = client.answer(1);
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["broken", "lander", "lead", "mute", "reader"]);
    assert_eq!(tools[0]["description"], "does broken");
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["prompt"]));
    // What cannot be read is said so, and nothing else is disturbed.
    client.raw("not json");
    let refused = client.next();
    assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32700), &Value::Null));
    let question = "What did we decide about pricing?";
    client.call(2, "reader", question);
    client.progress("calls grep");
    let answer = client.answer(2);
    assert!(answer["result"]["isError"] != true && text(&answer).contains("pricing"), "{answer}");
    client.call(3, "lander", question);
    let answer = client.answer(3);
    assert!(text(&answer).ends_with("[landed: tool_calls 2 of 2]"), "{answer}");
    client.call(4, "mute", question);
    let answer = client.answer(4);
    assert!(text(&answer).contains("[not the model's answer: "), "{answer}");
    client.call(5, "lead", question);
    assert!(text(&client.answer(5)).contains("- reader: "));
    client.call(6, "nobody", question);
    assert_eq!(client.answer(6)["error"]["code"], -32602);
    client.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "reader", "arguments": {"prompt": " "}}}));
    assert_eq!(client.answer(7)["result"]["isError"], true);
    // A file that is broken meanwhile is an error with its reason.
    file(&folder, "reader.md", "---\nname: reader\n---\n");
    client.call(8, "reader", question);
    let answer = client.answer(8);
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("description: is required"), "{answer}");
    assert_eq!(client.ended(), Some(0));
}

/// An agent whose call runs a program that writes its number into `child` and stays.
fn stays(place: &Place) -> (std::path::PathBuf, Server) {
    let path = place.path().join("child");
    let line = format!("echo $$ > {0}.new && mv {0}.new {0} && sleep 600", path.display());
    let sim = place.model(&[("shell", &format!("{{\"command\": \"{line}\"}}"))]);
    (agents(place, &[("stays", "tools: shell")]), sim)
}

/// Waits for the program; its process's number.
#[track_caller]
fn child(place: &Place) -> String {
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
fn gone(process: &str) {
    let began = Instant::now();
    while lives(process) {
        assert!(began.elapsed() < PATIENCE, "what the run started still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Flags of a model at the simulator, for programs.
fn flags(url: &str) -> Vec<&str> {
    vec!["--allow-shell", "--model", "anthropic/claude-sonnet-5-5", "--base-url", url]
}

#[test]
fn a_cancelled_call_and_the_end_of_input_stop_runs_with_their_programs() {
    let place = Place::new();
    let (folder, sim) = stays(&place);
    let url = sim.url();
    let client = Client::new(&folder, &flags(&url));
    client.call(1, "stays", "go");
    let first = child(&place);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "no more"}}));
    gone(&first);
    client.call(2, "stays", "go");
    let second = child(&place);
    assert_eq!(client.ended(), Some(0));
    gone(&second);
}

/// One request over HTTP; head and body as they come until the connection or `until` ends.
fn post(address: &str, session: &str, head: &str, body: &str, until: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let (mut said, mut buffer) = (String::new(), [0; 4096]);
    while !said.contains(until) {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            size => said.push_str(&String::from_utf8_lossy(&buffer[..size])),
        }
    }
    said
}

#[test]
fn over_http_a_session_is_guarded_and_its_end_stops_its_runs() {
    let place = Place::new();
    let (folder, sim) = stays(&place);
    let url = sim.url();
    let mut command = softland();
    command.env("ANTHROPIC_API_KEY", SECRET);
    command.env("PATH", std::env::var("PATH").unwrap());
    command.arg("mcp").arg(&folder).args(flags(&url)).args(["--listen", "127.0.0.1:0"]);
    let server = Server::start(&mut command);
    let address = server.address.trim_end_matches("/mcp").to_owned();
    let first = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}})
    .to_string();
    let begun = post(&address, "", "POST /mcp", &first, "serverInfo");
    let id = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let session = format!("mcp-session-id: {id}\r\n");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert!(post(&address, &session, "POST /mcp", &ready, "\r\n\r\n").contains("202"));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "stays", "arguments": {"prompt": "go"}}})
    .to_string();
    let calling = {
        let (address, session) = (address.clone(), session.clone());
        std::thread::spawn(move || post(&address, &session, "POST /mcp", &call, "nothing at all"))
    };
    let process = child(&place);
    assert!(post(&address, &session, "DELETE /mcp", "", "\r\n\r\n").contains("202"));
    gone(&process);
    drop(calling);
    for (header, status) in
        [("origin: http://elsewhere.example\r\n", "403"), ("origin: null\r\n", "403")]
    {
        let said = post(&address, header, "POST /mcp", &first, "\r\n\r\n");
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
    }
    let elsewhere = post(&address, "", "POST /", &first, "\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
    server.signal("TERM");
    assert!(server.ended().0.success());
    let open = said_by(softland().arg("mcp").arg(&folder).args(["--listen", "0.0.0.0:0"]).args([
        "--model",
        "sim/reader",
        "--allow-shell",
    ]));
    open.status(2).says("is not of the loopback");
}

#[test]
fn tools_of_a_server_that_softland_serves() {
    let place = Place::new();
    let folder = agents(&place, &[("reader", "model: sim/reader\ntool_calls_limit: 8")]);
    let text = json!({"mcpServers": {"ours": {
        "command": env!("CARGO_BIN_EXE_softland"),
        "args": ["mcp", folder.to_str().unwrap(), "--root", notes().to_str().unwrap()]}}});
    let servers = file(place.path(), "mcp.json", &text.to_string());
    let raw = "{\"prompt\":\"What did we decide about pricing?\"}";
    let sim = place.model(&[("mcp__ours__reader", raw)]);
    let said = place.run(&place.agent("mcp__ours__*"), &servers, &sim, &[]).status(0);
    let results = results(&said);
    assert!(results[0].0 && results[0].1.contains("pricing"), "{results:?}");
}
