//! The view of a request that scenarios get: the question, the rounds of calls since then, the
//! tools, and whether the model was told to answer. All of it is read from the conversation,
//! whatever its protocol; only the counters are the simulator's.

use crate::history::{Choice, History, HistoryTurn, Role, Tool, ToolCall};
use crate::json::Json;
use crate::turn::Turn;

/// The names of tools whose call is the answer.
const ANSWER_TOOLS: &[&str] =
    &["respond", "final_result", "attempt_completion", "StructuredOutput", "submit", "finish"];

/// A request as a scenario sees it.
#[derive(Debug)]
pub(crate) struct RequestView<'a> {
    /// The last human message.
    pub(crate) question: String,
    /// The model's own last text; empty if it has said nothing.
    pub(crate) last_words: String,
    /// The calls and results since the question.
    pub(crate) rounds: Vec<Vec<AnsweredCall<'a>>>,
    pub(crate) tools: &'a [Tool<'a>],
    pub(crate) choice: Choice<'a>,
    pub(crate) parallel: bool,
    /// True if the last message says to answer now.
    pub(crate) told: bool,
    /// True if the last message says to finish the research.
    pub(crate) warned: bool,
    /// True if the last message is a nudge after a placeholder.
    pub(crate) nudged: bool,
    /// The number of server tool calls in the assistant turn that ends the request.
    pub(crate) paused: usize,
    /// The number of earlier requests of this run.
    pub(crate) attempt: u64,
    /// The number of earlier requests to this simulator.
    pub(crate) played: usize,
}

/// One call with its result.
#[derive(Debug)]
pub(crate) struct AnsweredCall<'a> {
    pub(crate) name: &'a str,
    pub(crate) input: &'a Json,
    /// The result's text, without softland's own lines.
    pub(crate) result: String,
    pub(crate) failed: bool,
}

static EMPTY: Json = Json::Map(Vec::new());

impl<'a> RequestView<'a> {
    pub(crate) fn from_history(history: &'a History<'a>, attempt: u64, played: usize) -> Self {
        let turns = &history.turns;
        let human = find_human_turn(turns);
        let last = turns.iter().rev().find(|t| t.role == Role::User);
        let system = turns.last().filter(|t| t.role == Role::System);
        let said: String = [last, system].into_iter().flatten().map(all_text).collect();
        let user_text = last.map(HistoryTurn::text).unwrap_or_default();
        let model = turns.iter().rev().find(|t| t.role == Role::Assistant);
        Self {
            question: human.and_then(|i| turns.get(i)).map(question_text).unwrap_or_default(),
            last_words: model.map(HistoryTurn::text).unwrap_or_default(),
            rounds: collect_rounds(turns.get(human.map_or(0, |i| i + 1)..).unwrap_or(&[])),
            tools: &history.tools,
            choice: history.choice,
            parallel: history.parallel,
            told: tells_to_answer(&said),
            warned: said.contains("Finish your research"),
            nudged: system.is_some_and(|t| is_nudge(&t.text()))
                || (is_nudge(&user_text) && last.is_none_or(|t| t.results.is_empty())),
            paused: history.paused,
            attempt,
            played,
        }
    }

    /// True if the model may call tools.
    pub(crate) fn can_call(&self) -> bool {
        !self.tools.is_empty() && self.choice != Choice::None
    }

    /// True if the model must end now: it was told to, or no tool may be called.
    pub(crate) fn must_answer(&self) -> bool {
        self.told || !self.can_call()
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &AnsweredCall<'a>> {
        self.rounds.iter().flatten()
    }

    /// Finds a tool by words in its name, in order of preference.
    pub(crate) fn tool_like(&self, names: &[&str]) -> Option<&Tool<'a>> {
        let allowed = |tool: &&Tool<'a>| match self.choice {
            Choice::Tool(forced) => tool.name == forced,
            _ => true,
        };
        names.iter().find_map(|name| {
            let like = |tool: &&Tool<'a>| {
                tool.name.to_ascii_lowercase().replace(['_', '-'], "").contains(name)
            };
            self.tools.iter().filter(allowed).find(like)
        })
    }

    /// Returns the tool to misuse: the forced one, else a reading one, else any but an answer tool.
    pub(crate) fn any_tool(&self) -> Option<&Tool<'a>> {
        let plain = |t: &&Tool<'a>| !ANSWER_TOOLS.contains(&t.name);
        match self.choice {
            Choice::Tool(name) => self.tools.iter().find(|t| t.name == name),
            _ => self
                .tool_like(&["grep", "search", "read", "list", "glob", "get"])
                .or_else(|| self.tools.iter().find(plain))
                .or_else(|| self.tools.first()),
        }
    }

    /// Returns the final answer: a text, or the call of an answer tool if a call is forced.
    pub(crate) fn answer_with(&self, text: impl Into<String>) -> Turn {
        let text = text.into();
        let tool = match self.choice {
            Choice::Auto | Choice::None => return Turn::from_text(text),
            Choice::Tool(name) => self.tools.iter().find(|t| t.name == name),
            Choice::Any => self
                .tools
                .iter()
                .find(|t| ANSWER_TOOLS.contains(&t.name))
                .or_else(|| self.any_tool()),
        };
        match tool {
            Some(tool) => Turn::from_call(tool.name, tool.answer_input(&text)),
            None => Turn::from_text(text),
        }
    }

    /// Returns a call of any tool, or the answer if there is none. `n` varies the arguments.
    pub(crate) fn call_any(&self, n: u64) -> Turn {
        match self.any_tool() {
            Some(tool) if self.choice != Choice::None => {
                Turn::from_call(tool.name, tool.example_input(n))
            }
            _ => self.answer_with("There is no tool I may use."),
        }
    }
}

impl<'a> Tool<'a> {
    /// Returns the property that best fits one of these names, or the first required one.
    pub(crate) fn find_property(&self, names: &[&str]) -> Option<&'a str> {
        let like = |name: &&str| {
            self.properties.iter().map(|(key, _)| key.as_str()).find(|key| key.contains(*name))
        };
        names.iter().find_map(like).or_else(|| self.required.first().copied())
    }

    pub(crate) fn has_property(&self, property: &str) -> bool {
        self.properties.iter().any(|(key, _)| key == property)
    }

    /// Returns arguments that fit the schema, different for each `n`.
    pub(crate) fn example_input(&self, n: u64) -> String {
        self.fill_properties(|key, schema| example_value(key, schema, n))
    }

    fn answer_input(&self, text: &str) -> String {
        self.fill_properties(|key, schema| match schema.str_at("type") {
            None | Some("string") if schema.get("enum").is_none() => text.into(),
            _ => example_value(key, schema, 1),
        })
    }

    fn fill_properties(&self, make: impl Fn(&str, &Json) -> Json) -> String {
        let mut names: Vec<&str> = self.required.clone();
        if names.is_empty() {
            names.extend(self.properties.first().map(|(key, _)| key.as_str()));
        }
        let schema = |name: &str| {
            self.properties.iter().find(|(key, _)| key == name).map_or(&EMPTY, |(_, s)| s)
        };
        let made = names.into_iter().map(|n| (n.to_owned(), make(n, schema(n)))).collect();
        Json::Map(made).to_text()
    }
}

fn example_value(key: &str, schema: &Json, n: u64) -> Json {
    if let Some(first) = schema.get("enum").and_then(|e| e.items().first()) {
        return first.clone();
    }
    match schema.str_at("type") {
        Some("integer" | "number") => Json::from(n),
        Some("boolean") => Json::Bool(false),
        Some("array") => Json::List(Vec::new()),
        Some("object") => Json::Map(Vec::new()),
        _ if key.contains("path") || key.contains("file") || key.contains("dir") => {
            if n == 0 {
                ".".into()
            } else {
                format!("notes-{n}.md").into()
            }
        }
        _ => format!("topic {n}").into(),
    }
}

/// The user message that continues a cut text.
const CONTINUE: &str = "Continue exactly where you stopped.";

fn is_nudge(text: &str) -> bool {
    text.to_ascii_lowercase().contains("please continue")
}

/// True for softland's ask, and for any text that says the same.
fn tells_to_answer(text: &str) -> bool {
    text.contains("nswer now") || text.contains("final answer now")
}

/// Returns a person's question: a text without the lines that a harness has added.
fn question_text(turn: &HistoryTurn<'_>) -> String {
    let text = turn.text();
    let lines: Vec<&str> = text.lines().filter(|line| !is_softland(line)).collect();
    lines.join("\n")
}

fn all_text(turn: &HistoryTurn<'_>) -> String {
    let mut out = turn.text();
    for result in &turn.results {
        out.push('\n');
        out.push_str(&result.text);
    }
    out
}

/// Returns the index of the last human message: a user message that is not tool results, a nudge, a
/// continuation or a harness's line.
pub(crate) fn find_human_turn(turns: &[HistoryTurn<'_>]) -> Option<usize> {
    turns.iter().rposition(|t| {
        let text = t.text();
        let harness = is_softland(&text) && !text.trim().contains('\n');
        t.role == Role::User
            && t.results.is_empty()
            && !harness
            && text.trim() != CONTINUE
            && !(is_nudge(&text) && text.len() < 40)
    })
}

fn collect_rounds<'a>(turns: &'a [HistoryTurn<'a>]) -> Vec<Vec<AnsweredCall<'a>>> {
    let mut rounds = Vec::new();
    for pair in turns.windows(2) {
        let [said, results] = pair else { continue };
        let round: Vec<AnsweredCall<'a>> =
            said.calls.iter().filter_map(|c| match_result(c, results)).collect();
        if !round.is_empty() {
            rounds.push(round);
        }
    }
    rounds
}

fn match_result<'a>(
    called: &'a ToolCall<'a>,
    results: &HistoryTurn<'_>,
) -> Option<AnsweredCall<'a>> {
    let result = results.results.iter().find(|r| r.id == called.id)?;
    let kept: Vec<&str> = result.text.lines().filter(|line| !is_softland(line)).collect();
    Some(AnsweredCall {
        name: called.name,
        input: &called.input,
        // The blank line before a harness's line was added by the harness too.
        result: kept.join("\n").trim_end().to_owned(),
        failed: result.failed,
    })
}

/// True for lines that the harness adds to results: they are not the tool's output.
fn is_softland(line: &str) -> bool {
    let line = line.trim();
    let ends = ["calls remaining", "call remaining", "other tools remain", "reached: not run."];
    let holds = [
        "nswer now with what you have",
        "or answer with what you have",
        "Finish your research",
        "were beyond the limit and were not run.",
    ];
    ends.iter().any(|e| line.ends_with(e)) || holds.iter().any(|h| line.contains(h))
}
