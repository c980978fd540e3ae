//! Scenarios: the behaviour of the simulated model. A scenario turns a view of the request into a
//! turn. It does not deal with rules, billing or protocols.

mod delegate;
mod faults;
mod loops;
mod notebook;
mod reader;
mod silences;
mod tags;
mod view;

pub(crate) use view::{RequestView, find_human_turn};

use crate::script::Script;
use crate::turn::Turn;
use std::path::Path;

/// The behaviour of a simulator.
#[derive(Clone, Debug)]
pub enum Scenario {
    /// A built-in scenario.
    Builtin(Builtin),
    /// A scenario from a file.
    Script(Script),
    /// These turns, one for each accepted request, whatever it asks. After the last turn, a plain
    /// answer follows. For tests.
    Scripted(Vec<Turn>),
}

/// A built-in scenario and its parameter (`overloaded:5`, `empty:never`).
#[derive(Clone, Debug)]
pub struct Builtin {
    name: &'static str,
    play: PlayFn,
    parameter: Option<Parameter>,
}

type PlayFn = fn(&RequestView<'_>, Option<Parameter>) -> Turn;

/// The parameter after the colon of a scenario's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Number(u64),
    Always,
    Never,
    Text,
}

/// The name, the description and the function of each built-in scenario.
const BUILTIN: &[(&str, &str, PlayFn)] = &[
    (
        "reader",
        "searches the folder with the tools it is given and answers from it",
        reader::play_reader,
    ),
    ("looper", "makes the same call for ever, until told to answer", loops::play_looper),
    ("alternator", "alternates between two calls for ever, until told", loops::play_alternator),
    (
        "sweeper",
        "calls one reading tool with new arguments each time, until told",
        loops::play_sweeper,
    ),
    ("poller", "asks for a status that does not change, until told", loops::play_poller),
    ("parallel", "batches of six calls, three times, then answers", loops::play_parallel),
    (
        "delegate",
        "calls every agent that it may, at once (:N times, :always)",
        delegate::play_delegate,
    ),
    (
        "notebook",
        "mends and runs a cell of a notebook (:always, until told)",
        notebook::play_notebook,
    ),
    ("stubborn", "ignores being told to answer; answers only without tools", loops::play_stubborn),
    ("mute", "like stubborn, and says nothing without tools", loops::play_mute),
    ("thinker", "like reader, with signed thinking before each call", reader::play_thinker),
    (
        "empty",
        "empty turns after tool results, until nudged (:never recovers)",
        silences::play_empty,
    ),
    (
        "whitespace",
        "a blank text after tool results, until nudged (:never)",
        silences::play_whitespace,
    ),
    ("trivial", "an answer of three tokens after tool results", silences::play_trivial),
    ("echo", "a call written as text with an invented result", silences::play_echo),
    ("tail", "a call written as text, and words behind it; then an answer", tags::play_tail),
    (
        "partial-tag",
        "a call as text that breaks off; whole; then an answer",
        tags::play_partial_tag,
    ),
    ("truncator", "cut by max_tokens in a call, then in the answer", silences::play_truncator),
    ("pause", "pauses in a server tool twice (:N times)", silences::play_pause),
    ("refuser", "refuses without a word (:text with one)", silences::play_refuser),
    ("bad-json", "a call whose input is not JSON", faults::play_bad_json),
    ("unknown-tool", "a call of a tool that was not declared", faults::play_unknown_tool),
    (
        "overloaded",
        "529 twice with retry-after (:N, :always), then reader",
        faults::play_overloaded,
    ),
    (
        "midstream-error",
        "an error event in mid stream (:N times, then reader)",
        faults::play_midstream_error,
    ),
    ("cut", "the connection breaks in mid stream (:N times, then reader)", faults::play_cut),
    (
        "slow",
        "reader, 1500 ms to the first byte, a tenth before each delta (:MS)",
        faults::play_slow,
    ),
];

impl Scenario {
    /// Looks up a built-in scenario: `NAME` or `NAME:PARAMETER`.
    ///
    /// # Errors
    /// Returns an error that lists the names, or the allowed parameters.
    pub fn from_name(text: &str) -> Result<Self, String> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let Some((name, _, play)) = BUILTIN.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<&str> = Self::builtin_names().map(|(name, _)| name).collect();
            return Err(format!("unknown scenario `{name}`; there are: {}", names.join(", ")));
        };
        let parameter = match parameter {
            None => None,
            Some("always") => Some(Parameter::Always),
            Some("never") => Some(Parameter::Never),
            Some("text") => Some(Parameter::Text),
            Some(number) => Some(Parameter::Number(number.parse().map_err(|_| {
                format!(
                    "scenario `{name}`: `{number}` is not a parameter; allowed are a whole \
                     number, always, never, text"
                )
            })?)),
        };
        Ok(Self::Builtin(Builtin { name, play: *play, parameter }))
    }

    /// Looks up a built-in scenario by name, or loads one from a file if the text looks like a
    /// path.
    ///
    /// # Errors
    /// Returns an error that says what is wrong, where in the file, and what is allowed.
    pub fn from_name_or_path(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        let is_file = path.extension().is_some_and(|e| e == "toml") || text.contains(['/', '\\']);
        if is_file { Script::load_file(path).map(Self::Script) } else { Self::from_name(text) }
    }

    /// Returns the name and description of each built-in scenario.
    pub fn builtin_names() -> impl Iterator<Item = (&'static str, &'static str)> {
        BUILTIN.iter().map(|(name, line, _)| (*name, *line))
    }

    pub(crate) fn choose_turn(&self, view: &RequestView<'_>) -> Turn {
        match self {
            Self::Builtin(builtin) => (builtin.play)(view, builtin.parameter),
            Self::Script(script) => script.choose_turn(view),
            Self::Scripted(turns) => match turns.get(view.played) {
                Some(turn) => turn.clone(),
                None => view.answer_with("That is all."),
            },
        }
    }

    /// Returns the name, for ledgers.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Builtin(builtin) => builtin.name,
            Self::Script(script) => script.name(),
            Self::Scripted(_) => "scripted",
        }
    }
}

/// Splits a name that poses as a model: `sim/NAME@MODEL`, `NAME@MODEL`, `sim/NAME`, or the `NAME`
/// of a built-in scenario. Returns the scenario's name and the model's id, which by default is
/// [`crate::DEFAULT_MODEL`]. Returns `None` for a plain model id.
#[must_use]
pub fn parse_model_name(model: &str) -> Option<(&str, &str)> {
    parse_model_name_or(model, crate::models::DEFAULT_MODEL)
}

/// Returns the vendor and the id of the model that a name poses as (`NAME` or `NAME@MODEL`) when it
/// is asked through the API of `path`. The vendor is `None` if the id tells it. Without an id a
/// name poses as one model of each vendor.
///
/// ```
/// let posed = softland_sim::parse_posed_model("/v1/messages", "looper@claude-opus-4-8");
/// assert_eq!(posed, (Some("anthropic"), "claude-opus-4-8"));
/// ```
#[must_use]
pub fn parse_posed_model<'a>(path: &str, name: &'a str) -> (Option<&'static str>, &'a str) {
    let posed = name.split_once('@').map(|(_, model)| model);
    match (path, posed) {
        ("/v1/messages", posed) => {
            (Some("anthropic"), posed.unwrap_or(crate::models::DEFAULT_MODEL))
        }
        (_, None) => (Some("openai"), crate::models::open::DEFAULT_OPEN_MODEL),
        (_, Some(model)) if model.contains('/') => (Some("openrouter"), model),
        (_, Some(model)) => (None, model),
    }
}

/// Splits like [`parse_model_name`], with another default model.
pub(crate) fn parse_model_name_or<'a>(
    model: &'a str,
    default: &'a str,
) -> Option<(&'a str, &'a str)> {
    let (bare, prefixed) = match model.strip_prefix("sim/") {
        Some(rest) => (rest, true),
        None => (model, false),
    };
    match bare.split_once('@') {
        Some((name, id)) => Some((name, id)),
        None if prefixed || Scenario::from_name(bare).is_ok() => Some((bare, default)),
        None => None,
    }
}
