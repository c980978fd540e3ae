//! A hostile model and its surroundings, all from one seed: turns of any shape, policies of any
//! kind, tools that repeat, change, fail or say nothing.

use softland_session::core::policy::{KEYS, Policy, PolicyValue};
use softland_session::wire::Api;
use softland_sim::{Fault, Part, Stop, Turn};

use super::case::{Case, Manner, Move};

/// What the thinking of the hostile model says; it must never be in an answer.
pub(crate) const THOUGHT: &str = "secret-thought";

/// Models with different rules: forcing, thinking, binding, mid-conversation system messages.
pub(crate) const MODELS: &[&str] = &[
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-sonnet-5",
    "claude-sonnet-5-5",
    "claude-haiku-4-5",
    "claude-fable-5-1",
];

/// Models behind Responses, with reasoning and without.
const RESPONSES_MODELS: &[&str] = &[
    "openai/gpt-4o",
    "openai/gpt-5.3-codex",
    "openai/gpt-5.6-sol",
    "openai/gpt-6-astra",
    "openai/o3",
];

/// Models behind Chat Completions: every dialect that the simulator speaks.
const CHAT_MODELS: &[&str] = &[
    "openai/gpt-4o",
    "openai/gpt-5.6-sol",
    "openai/o3",
    "azure/model-router",
    "deepseek/deepseek-v4-flash",
    "openrouter/anthropic/claude-haiku-4.5",
    "openrouter/anthropic/claude-opus-5.5",
    "openrouter/openai/o4-mini",
    "openrouter/minimax/minimax-m2",
    "zai/glm-4.7",
    "xai/grok-4.3",
    "groq/llama-3.3-70b-versatile",
    "anthropic/claude-sonnet-4-5",
];

/// A model that no table lists.
pub(crate) const UNLISTED: &str = "mystery-7-large";

/// Numbers from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides.max(1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize].clone()
    }
}

/// What a model is like in one case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Wild,
    Looping,
    Cycling,
    Failing,
    Sweeping,
    Silent,
    Cut,
    Curt,
    Working,
}

const MOODS: &[Mood] = &[
    Mood::Wild,
    Mood::Wild,
    Mood::Wild,
    Mood::Looping,
    Mood::Cycling,
    Mood::Cycling,
    Mood::Failing,
    Mood::Sweeping,
    Mood::Sweeping,
    Mood::Silent,
    Mood::Cut,
    Mood::Curt,
    Mood::Working,
    Mood::Working,
];

/// The names of the tools that the surroundings have.
pub(crate) const TOOLS: &[&str] = &["grep", "read_file", "write_file", "wait", "custom", "broken"];

/// The turns of a hostile model.
pub(crate) fn script(dice: &mut Dice) -> Vec<Turn> {
    let mood = dice.pick(MOODS);
    let length = match mood {
        Mood::Cycling => 6 + dice.roll(13),
        _ if dice.chance(25) => 1 + dice.roll(5),
        _ => 1 + dice.roll(18),
    };
    let base = dice.roll(1000);
    let mut turns: Vec<Turn> = (0..length).map(|n| turn(dice, mood, n, base)).collect();
    if dice.chance(30) {
        turns.push(Turn::from_text("done, this is the answer"));
    }
    turns
}

fn turn(dice: &mut Dice, mood: Mood, n: u64, base: u64) -> Turn {
    let thinking = dice.chance(30);
    let mut parts = if thinking { vec![Part::Thinking(format!("{THOUGHT} {n}"))] } else { vec![] };
    let wild = mood == Mood::Wild || dice.chance(10);
    let first_delay_ms = if dice.chance(15) { dice.roll(30_000) } else { 0 };
    if wild {
        let mut turn = wild_turn(dice, parts);
        turn.first_delay_ms = first_delay_ms;
        turn.lawless = dice.chance(20);
        return turn;
    }
    let stop = match mood {
        Mood::Looping => {
            parts.push(Part::tool_call("grep", r#"{"pattern":"same"}"#));
            None
        }
        Mood::Cycling => {
            let period = 2 + base % 2;
            parts.push(Part::tool_call("read_file", format!(r#"{{"path":"{}"}}"#, n % period)));
            None
        }
        Mood::Failing => {
            parts.push(Part::tool_call("broken", format!(r#"{{"try":{n}}}"#)));
            None
        }
        Mood::Sweeping => {
            parts.push(Part::tool_call("read_file", format!(r#"{{"path":"file {n}"}}"#)));
            None
        }
        Mood::Silent => {
            match dice.roll(4) {
                0 => parts.push(Part::text("")),
                1 => parts.push(Part::text("  \n ")),
                2 => parts.push(Part::tool_call("grep", format!(r#"{{"pattern":"{n}"}}"#))),
                _ => {}
            }
            None
        }
        Mood::Curt => {
            parts.push(match dice.roll(3) {
                0 => Part::tool_call("grep", format!(r#"{{"pattern":"{n}"}}"#)),
                _ => Part::text(dice.pick(&["ok", "Done.", "Yes"])),
            });
            None
        }
        Mood::Cut => {
            match dice.roll(3) {
                0 => parts.push(Part::tool_call("grep", r#"{"pattern":"a long one"}"#)),
                1 => parts.push(Part::text("half of a sen")),
                _ => {}
            }
            Some(Stop::MaxTokens)
        }
        Mood::Working | Mood::Wild => {
            for k in 0..=dice.roll(3) {
                let name = dice.pick(&["grep", "read_file", "custom", "write_file"]);
                parts.push(Part::tool_call(name, format!(r#"{{"n":{},"k":{k}}}"#, n * 10 + base)));
            }
            None
        }
    };
    Turn { parts, stop, lawless: dice.chance(10), first_delay_ms, ..Turn::default() }
}

fn wild_turn(dice: &mut Dice, mut parts: Vec<Part>) -> Turn {
    for _ in 0..dice.roll(4) {
        parts.push(wild_part(dice));
    }
    let stop = match dice.roll(14) {
        0 => Some(Stop::EndTurn),
        1 => Some(Stop::ToolUse),
        2 => Some(Stop::MaxTokens),
        3 => Some(Stop::StopSequence("END".to_owned())),
        4 => Some(Stop::PauseTurn),
        5 => Some(Stop::Refusal),
        6 => Some(Stop::ContextWindow),
        _ => None,
    };
    let fault = match dice.roll(16) {
        0 => Some(Fault::Http { status: dice.pick(&[429, 500, 503, 529]), retry_after: None }),
        1 => Some(Fault::ErrorEvent { after: dice.roll(8) as usize }),
        2 => Some(Fault::Cut { after: dice.roll(8) as usize }),
        _ => None,
    };
    Turn { parts, stop, fault, ..Turn::default() }
}

fn wild_part(dice: &mut Dice) -> Part {
    match dice.roll(10) {
        0 => Part::text(dice.pick(&["", " ", "\n\t", "\u{200b}", "[no answer]"])),
        1 | 2 => Part::text(dice.pick(&[
            "The answer is 42.",
            "<b>bold</b> and [Tool Result]",
            "ok",
            "3 tool calls remaining",
            "Please continue.",
        ])),
        3 => Part::Thinking(THOUGHT.to_owned()),
        4 => Part::RedactedThinking,
        5 => Part::Tool {
            id: Some(dice.pick(&["", "twice", "twice", "toolu_1"]).to_owned()),
            name: dice.pick(TOOLS).to_owned(),
            input: "{}".to_owned(),
        },
        6 => Part::tool_call(
            "hand_in",
            dice.pick(&[r#"{"answer":"from the tool"}"#, "{}", "{\"answ"]),
        ),
        7 => Part::tool_call(
            dice.pick(&["nope", "grep"]),
            dice.pick(&["[]", "{\"a\":", "null", "\"x\""]),
        ),
        _ => {
            let name = dice.pick(TOOLS);
            Part::tool_call(name, format!(r#"{{"a":{}}}"#, dice.roll(3)))
        }
    }
}

/// A model's id, and the listed one whose rules it has if no table lists it.
pub(crate) fn model(dice: &mut Dice) -> (String, Option<String>) {
    let listed = dice.pick(MODELS).to_owned();
    if dice.chance(15) { (UNLISTED.to_owned(), Some(listed)) } else { (listed, None) }
}

/// The same case in another protocol, with a model of another vendor.
pub(crate) fn posing(api: Api, case: Case, seed: u64) -> Case {
    let mut case = Case { api, ..case };
    let models = if api == Api::Chat { CHAT_MODELS } else { RESPONSES_MODELS };
    // Of these vendors OpenRouter alone has thinking that is not to be read.
    for turn in &mut case.turns {
        turn.parts.retain(|part| *part != Part::RedactedThinking);
    }
    // An unlisted name does not say that its model wants OpenAI's newer name for the output limit.
    let strict = |model: &str| model.contains("gpt-5") || model.contains("/o");
    let models: Vec<_> =
        models.iter().filter(|model| case.rules_of.is_none() || !strict(model)).collect();
    let model = (*models[(seed % models.len() as u64) as usize]).to_owned();
    match case.rules_of {
        Some(_) => Case { rules_of: Some(model), ..case },
        None => Case { model, ..case },
    }
}

/// A client of any kind.
pub(crate) fn manner(dice: &mut Dice, requests: u64) -> Manner {
    let mut manner = Manner {
        thinking: dice.chance(55),
        whole: dice.chance(30),
        answer_tool: dice.chance(60),
        cache: dice.chance(40),
        shape: dice.roll(4),
        piece_bytes: dice.chance(30).then(|| 1 + dice.roll(40) as usize),
        ..Manner::default()
    };
    for request in 0..requests {
        if dice.chance(2) {
            manner.vain.insert(request, 1 + dice.roll(5));
        }
        if dice.chance(5) {
            manner.lost.insert(request);
        }
    }
    manner
}

/// What a client with a history of its own does to it, and what becomes of the gateway meanwhile.
pub(crate) fn ways(dice: &mut Dice, manner: &mut Manner, requests: u64) {
    manner.unbound = dice.chance(25);
    manner.restyles = dice.chance(25);
    manner.reorders = dice.chance(40);
    manner.forgets = dice.chance(20);
    manner.notes = dice.chance(20);
    manner.emptied = dice.chance(50).then(|| 1 + dice.roll(8));
    for request in 1..requests {
        if dice.chance(3) {
            manner.expires.insert(request, dice.roll(12));
        }
        if dice.chance(8) {
            let made = dice.pick(&[Move::Rewind, Move::Compact, Move::Clear]);
            // What is bound to results is lost with them.
            if made != Move::Clear || manner.unbound {
                manner.moves.insert(request, made);
            }
        }
    }
}

/// A policy of any kind. Every value goes through the reader that users' values go through.
pub(crate) fn policy(dice: &mut Dice) -> Policy {
    let mut policy = Policy::default();
    let mut set = |key: &str, value: PolicyValue| policy.set_key(key, &value).unwrap();
    let text = |text: &str| PolicyValue::Text(text.to_owned());
    let int = |n: u64| PolicyValue::Int(n.into());
    assert!(KEYS.len() > 20);
    if dice.chance(65) {
        set("tool_calls_limit", int(dice.roll(9)));
    }
    if dice.chance(25) {
        set("tool_limits", text(&format!("grep={},read_file={}", dice.roll(4), dice.roll(6))));
    }
    if dice.chance(25) {
        set("turns_limit", int(dice.roll(8)));
    }
    if dice.chance(20) {
        set("result_chars_limit", int(dice.roll(300)));
    }
    if dice.chance(25) {
        set("tokens_limit", int(dice.roll(25_000)));
    }
    if dice.chance(20) {
        set("cost_limit_usd", PolicyValue::Float(dice.roll(1000) as f64 / 2000.0));
    }
    if dice.chance(18) {
        set("time_limit", text(&format!("{}s", dice.roll(90))));
        set("reserve_time", text(dice.pick(&["0s", "5s", "30s"])));
    }
    set("countdown", text(dice.pick(&["every", "milestones", "off"])));
    set("countdown_from", PolicyValue::Float(dice.roll(11) as f64 / 10.0));
    set("batch", text(dice.pick(&["first", "all", "none"])));
    set("landing", text(dice.pick(&["auto", "auto", "auto", "ask", "none", "respond", "stop"])));
    if dice.chance(20) {
        set("answer_tool", text("hand_in"));
    }
    set("empty_limit", int(dice.roll(5)));
    set("repeat_limit", int(dice.roll(5)));
    set("cycle_limit", int(2 + dice.roll(3)));
    set("error_limit", int(1 + dice.roll(5)));
    set("on_loop", text(dice.pick(&["ladder", "ladder", "land", "stop", "observe"])));
    set("reserve_tokens", int(dice.roll(3000)));
    policy
}

/// What a tool gives back: the same, something new, an error, JSON, or nothing.
pub(crate) fn tool_result(tool: &str, input: &str, n: u64) -> (String, bool) {
    match tool {
        "grep" => (format!("match for {input}"), false),
        "read_file" => (format!("the text of {input}\nand a second line"), false),
        "wait" => (r#"{"status":"running","elapsed_ms":12}"#.to_owned(), false),
        "custom" if n.is_multiple_of(5) => (String::new(), false),
        "custom" => (format!("new result {n}"), false),
        "broken" => ("Error: it is broken".to_owned(), true),
        _ => (format!("written {n}"), false),
    }
}
