//! `softland mcp` as a client sees it: through the real binary.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]
#![expect(clippy::panic, reason = "what goes wrong here fails the test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::mcp::{PATIENCE, Place, agents, child, flags, gone, results, stays};
use crate::support::{SECRET, file, notes, softland};
use serde_json::{Value, json};

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
    // An unreadable message is answered with an error, and nothing else is affected.
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

/// Of two calls with one id the second is refused, and the first is answered.
#[test]
fn an_id_is_one_calls_until_that_is_answered() {
    let place = Place::new();
    let folder = agents(&place, &[("slow", "model: sim/slow:300")]);
    let client = Client::new(&folder, &[]);
    for _ in 0..2 {
        client.call(1, "slow", "What did we decide about pricing?");
        client.progress("turn 1");
        client.call(1, "slow", "What else?");
        let refused = client.answer(1);
        assert_eq!(refused["error"]["message"], "a request with this id is under way");
        let answer = client.answer(1);
        assert!(text(&answer).contains("pricing"), "{answer}");
    }
    assert_eq!(client.ended(), Some(0));
}

#[test]
fn the_id_of_a_cancelled_call_is_its_own_until_it_has_ended() {
    let place = Place::new();
    let (folder, sim) = stays(&place);
    let client = Client::new(&folder, &flags(&sim.url()));
    client.call(1, "stays", "go");
    let program = child(&place);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": 1}}));
    client.call(1, "stays", "go on");
    assert_eq!(client.answer(1)["error"]["message"], "a request with this id is under way");
    gone(&program);
    assert_eq!(client.ended(), Some(0));
}

/// The next run has the tools that a server offers now.
#[test]
fn lists_that_change_hold_from_the_next_run_on() {
    let place = Place::new();
    let sim = place.model(&[("mcp__my__changes", "{}"), ("mcp__my__late", "{}")]);
    let folder = agents(&place, &[("caller", "tools: mcp__my")]);
    let (servers, url) = (place.servers("well", ""), sim.url());
    let mut given = flags(&url);
    given.extend(["--mcp", &servers]);
    let client = Client::new(&folder, &given);
    let late = || place.read("heard").matches("\"name\":\"late\"").count();
    client.call(1, "caller", "first");
    assert!(text(&client.answer(1)).contains("All is done."));
    assert_eq!(late(), 0, "a run keeps the tools that it began with");
    client.call(2, "caller", "second");
    assert!(text(&client.answer(2)).contains("All is done."));
    assert_eq!(late(), 1);
    assert_eq!(client.ended(), Some(0));
    place.wait_for_the_end();
}
