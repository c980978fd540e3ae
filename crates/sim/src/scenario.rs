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

pub(crate) use view::{View, human_at};

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
    play: Play,
    parameter: Option<Parameter>,
}

type Play = fn(&View<'_>, Option<Parameter>) -> Turn;

/// The parameter after the colon of a scenario's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Number(u64),
    Always,
    Never,
    Text,
}

/// The name, the description and the function of each built-in scenario.
const BUILTIN: &[(&str, &str, Play)] = &[
    (
        "reader",
        "searches the folder with the tools it is given and answers from it",
        reader::reader,
    ),
    ("looper", "makes the same call for ever, until told to answer", loops::looper),
    ("alternator", "alternates between two calls for ever, until told", loops::alternator),
    ("sweeper", "one reading tool over ever new arguments, until told", loops::sweeper),
    ("poller", "asks for a status that does not change, until told", loops::poller),
    ("parallel", "batches of six calls, three times, then answers", loops::parallel),
    ("delegate", "calls every agent that it may, at once (:N times, :always)", delegate::delegate),
    ("notebook", "mends and runs a cell of a notebook (:always, until told)", notebook::notebook),
    ("stubborn", "ignores being told to answer; answers only without tools", loops::stubborn),
    ("mute", "like stubborn, and says nothing without tools", loops::mute),
    ("thinker", "like reader, with signed thinking before each call", reader::thinker),
    ("empty", "empty turns after tool results, until nudged (:never recovers)", silences::empty),
    ("whitespace", "a blank text after tool results, until nudged (:never)", silences::whitespace),
    ("trivial", "an answer of three tokens after tool results", silences::trivial),
    ("echo", "a call written as text with an invented result", silences::echo),
    ("tail", "a call written as text, and words behind it; then an answer", tags::tail),
    ("partial-tag", "a call as text that breaks off; whole; then an answer", tags::partial_tag),
    ("truncator", "cut by max_tokens in a call, then in the answer", silences::truncator),
    ("pause", "pauses in a server tool twice (:N times)", silences::pause),
    ("refuser", "refuses without a word (:text with one)", silences::refuser),
    ("bad-json", "a call whose input is not JSON", faults::bad_json),
    ("unknown-tool", "a call of a tool that was not declared", faults::unknown_tool),
    ("overloaded", "529 twice with retry-after (:N, :always), then reader", faults::overloaded),
    ("midstream-error", "an error event in mid stream (:N times, then reader)", faults::midstream),
    ("cut", "the connection breaks in mid stream (:N times, then reader)", faults::cut),
    ("slow", "reader, 1500 ms to the first byte, a tenth before each delta (:MS)", faults::slow),
];

impl Scenario {
    /// Looks up a built-in scenario: `NAME` or `NAME:PARAMETER`.
    ///
    /// # Errors
    /// Returns an error that lists the names, or the allowed parameters.
    pub fn named(text: &str) -> Result<Self, String> {
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let Some((name, _, play)) = BUILTIN.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<&str> = Self::names().map(|(name, _)| name).collect();
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
    pub fn load(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        let is_file = path.extension().is_some_and(|e| e == "toml") || text.contains(['/', '\\']);
        if is_file { Script::load(path).map(Self::Script) } else { Self::named(text) }
    }

    /// Returns the name and description of each built-in scenario.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        BUILTIN.iter().map(|(name, line, _)| (*name, *line))
    }

    pub(crate) fn play(&self, view: &View<'_>) -> Turn {
        match self {
            Self::Builtin(builtin) => (builtin.play)(view, builtin.parameter),
            Self::Script(script) => script.play(view),
            Self::Scripted(turns) => match turns.get(view.played) {
                Some(turn) => turn.clone(),
                None => view.answer("That is all."),
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
pub fn pose(model: &str) -> Option<(&str, &str)> {
    pose_as(model, crate::models::DEFAULT_MODEL)
}

/// Splits like [`parse_model_name`], with another default model.
pub(crate) fn pose_as<'a>(model: &'a str, default: &'a str) -> Option<(&'a str, &'a str)> {
    let (bare, prefixed) = match model.strip_prefix("sim/") {
        Some(rest) => (rest, true),
        None => (model, false),
    };
    match bare.split_once('@') {
        Some((name, id)) => Some((name, id)),
        None if prefixed || Scenario::named(bare).is_ok() => Some((bare, default)),
        None => None,
    }
}
