//! Measures how often a person's message is taken for a program's, on recorded sessions (the rules
//! and the figures are in `docs/gateway.md`):
//!
//! ```sh
//! cargo test -p softland-import --test it human:: -- --nocapture
//! ```
//!
//! The recording says who wrote a message, never a table: Claude Code marks its own messages, and
//! in tau-bench and tau2 every user's message stands for a person's. Their users are models, which
//! answer within a second or two and say the same again, so they are the hardest case.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use softland_session::core::policy::Policy;
use softland_session::core::{
    Arrival, Call, Digest, FinishedTurn, LineRoom, Millis, Phase, Role, Stop, ToolResult,
    Transcript, UserMessage, UserText, VisibleText,
};

/// The most messages of a thousand that may be taken for a program's.
const ALLOWED_OF_1000: usize = 5;

/// A step of a recorded session.
enum Step {
    Model { text: String, calls: Vec<(String, String, String)>, at: Option<u64> },
    Results(Vec<String>, Vec<String>),
    Said { texts: Vec<String>, human: bool, at: Option<u64> },
}

/// The results of one source.
#[derive(Default)]
struct Found {
    /// Messages of persons behind finished turns.
    messages: usize,
    /// Those of them that began no run.
    taken: Vec<String>,
    /// The number of times that two messages in a row did not.
    in_a_row: usize,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.taken.extend(other.taken);
        self.in_a_row += other.in_a_row;
    }
}

/// A source's name, its folders, and how its files are read.
type Source = (&'static str, &'static [&'static str], fn(&str) -> Vec<Vec<Step>>);

/// The timing of messages in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    /// As they were recorded, where a time is.
    Recorded,
    /// All at once: nothing but what they say tells a person.
    AtOnce,
}

#[test]
#[ignore = "reads recordings from ../shared"]
fn few_recorded_messages_of_persons_are_taken_for_a_programs() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/trajectories"));
    assert!(root.is_dir(), "there are no recordings at {root:?}");
    let sources: [Source; 2] = [
        ("Claude Code", &["claude-entireio-cli", "claude-moredip"], claude),
        (
            "tau-bench and tau2",
            &["tau-bench", "tau2-oscaralvaro", "tau2-whissle", "tau2-activegraph"],
            tau,
        ),
    ];
    let cases = [(Coming::Recorded, None), (Coming::AtOnce, None), (Coming::Recorded, Some(1))];
    for (coming, limit) in cases {
        let mut all = Found::default();
        for (name, folders, read) in sources {
            let files = folders.iter().flat_map(|folder| files(&root.join(folder)));
            let mut found = Found::default();
            for session in files.flat_map(|file| read(&text(&file))) {
                found.add(replay(&session, coming, limit));
            }
            println!(
                "{name}, {coming:?}, limit {limit:?}: {} messages behind answers, {} taken for a \
                 program's, {} times two in a row",
                found.messages,
                found.taken.len(),
                found.in_a_row
            );
            all.add(found);
        }
        assert!(all.messages > 1000, "{}", all.messages);
        assert_eq!(all.in_a_row, 0, "{coming:?}, {limit:?}: {:?}", all.taken);
        if limit.is_none() {
            let taken = all.taken.len();
            assert!(taken * 1000 <= all.messages * ALLOWED_OF_1000, "{taken}: {:?}", all.taken);
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|f| f.path()).collect();
    files.sort();
    files
}

fn text(file: &Path) -> String {
    let bytes = std::fs::read(file).unwrap();
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    text
}

/// The times of recordings, in milliseconds.
fn time(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    let text = if text.ends_with('Z') { text.to_owned() } else { format!("{text}Z") };
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

fn strings(content: &Value, kind: &str, member: &str) -> Vec<String> {
    let parts = content.as_array().into_iter().flatten().filter(|part| part["type"] == kind);
    parts.map(|part| part[member].as_str().unwrap_or_default().to_owned()).collect()
}

/// A session of Claude Code: sub-agents apart, what is marked as the program's own is.
fn claude(text: &str) -> Vec<Vec<Step>> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let step = |line: Value| {
        let (content, at) = (&line["message"]["content"], time(&line["timestamp"]));
        if line["isSidechain"] == true {
            return None;
        }
        let mut texts = strings(content, "text", "text");
        texts.extend(content.as_str().map(str::to_owned));
        match line["type"].as_str()? {
            "assistant" => {
                let calls = content.as_array().into_iter().flatten();
                let calls = calls.filter(|part| part["type"] == "tool_use").map(|part| {
                    let word = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
                    (word("id"), word("name"), part["input"].to_string())
                });
                let calls: Vec<_> = calls.collect();
                // A line of thinking alone is a part of the turn.
                let says = !calls.is_empty() || !texts.is_empty();
                says.then(|| Step::Model { text: texts.concat(), calls, at })
            }
            "user" => {
                let results = strings(content, "tool_result", "tool_use_id");
                if !results.is_empty() {
                    return Some(Step::Results(results, texts));
                }
                let own = line["isMeta"] == true || line["isCompactSummary"] == true;
                // A command of the client's own, and what it wrote.
                let command = |text: &String| {
                    ["<command-", "<local-command-", "<bash-", "<task-notification", "[Request int"]
                        .iter()
                        .any(|opening| text.starts_with(opening))
                };
                let human = !own && !texts.iter().all(command);
                (!texts.is_empty()).then_some(Step::Said { texts, human, at })
            }
            _ => None,
        }
    };
    vec![lines.filter_map(step).collect()]
}

/// Sessions of tau-bench and tau2.
fn tau(text: &str) -> Vec<Vec<Step>> {
    let file: Value = serde_json::from_str(text).unwrap();
    let (sessions, member) = match file.get("simulations") {
        Some(sessions) => (sessions, "messages"),
        None => (&file, "traj"),
    };
    let step = |message: &Value| {
        let at = time(&message["timestamp"]);
        let said = message["content"].as_str().unwrap_or_default().to_owned();
        match message["role"].as_str()? {
            "assistant" => {
                let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
                    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let name = call.get("name").unwrap_or_else(|| &call["function"]["name"]);
                    (word(&call["id"]), word(name), call["arguments"].to_string())
                });
                Some(Step::Model { text: said, calls: calls.collect(), at })
            }
            "tool" => {
                let id = message.get("tool_call_id").unwrap_or_else(|| &message["id"]);
                let id = id.as_str().unwrap_or_default().to_owned();
                Some(Step::Results(vec![id], Vec::new()))
            }
            // The user of tau2 has tools of its own, which the agent does not see.
            "user" if said.is_empty() => None,
            "user" => Some(Step::Said { texts: vec![said], human: true, at }),
            _ => None,
        }
    };
    let messages = |session: &Value| session[member].as_array().cloned().unwrap_or_default();
    let sessions = sessions.as_array().into_iter().flatten();
    sessions.map(|session| messages(session).iter().filter_map(step).collect()).collect()
}

/// Folds a session, and looks which messages of persons behind finished turns begin a run. With a
/// limit, turns behind it count as landings: what comes at once behind one is taken, once in a run.
fn replay(session: &[Step], coming: Coming, limit: Option<u64>) -> Found {
    let policy = Policy { tool_calls_limit: limit, ..Policy::default() };
    let mut transcript = Transcript::new(Role::Gateway, policy, BTreeMap::new());
    let (mut found, mut before) = (Found::default(), false);
    let (mut ended, mut finished) = (None, false);
    for step in session {
        match step {
            Step::Model { text, calls, at } => {
                finished = calls.is_empty() && !text.trim().is_empty();
                ended = *at;
                model(&mut transcript, text, calls);
            }
            Step::Results(ids, texts) => {
                let results = ids.iter().map(result).collect();
                let texts = texts.iter().map(UserText::new).collect();
                transcript.add_user_message(
                    &UserMessage { results, texts, ..UserMessage::default() },
                    None,
                );
                finished = false;
            }
            Step::Said { texts, human, at } => {
                let landed =
                    transcript.current_run().is_some_and(|run| *run.phase() != Phase::Open);
                let pause = match coming {
                    Coming::Recorded => ended.zip(*at).map(|(end, at)| at.saturating_sub(end)),
                    Coming::AtOnce => Some(0),
                };
                transcript.set_arrival(pause.map(|pause| Arrival { pause: Millis(pause), landed }));
                let own = texts.iter().map(UserText::new).collect();
                let step = transcript
                    .add_user_message(&UserMessage { texts: own, ..UserMessage::default() }, None);
                if *human && finished {
                    found.messages += 1;
                    found.in_a_row += usize::from(before && !step.starts_run);
                    before = !step.starts_run;
                    if !step.starts_run {
                        found.taken.push(texts.concat());
                    }
                    finished = false;
                }
            }
        }
    }
    found
}

fn result(id: &String) -> ToolResult<'_> {
    ToolResult {
        id: id.into(),
        digest: Digest::from_bytes(id.as_bytes()),
        chars: 1,
        failed: false,
        sent_back: false,
        unfinished: false,
        cleared: false,
        lined: false,
        remarked: false,
        room: LineRoom::Text,
    }
}

fn model(transcript: &mut Transcript, text: &str, calls: &[(String, String, String)]) {
    let calls = calls.iter().map(|(id, name, input)| Call { id, name, input, server: false });
    transcript.add_turn(&FinishedTurn {
        text: VisibleText::from_text(text),
        calls: calls.collect(),
        cut_call: false,
        hidden: false,
        gives: false,
        stop: Stop::Unknown,
        output_tokens: None,
    });
}
