//! Calls that a model writes as text, and their results: what the governor sees of both, so that
//! they count, land and are answered as declared ones do.
//!
//! Which text is a call is decided in `softland_wire::tags`, what becomes of it where every other
//! call's fate is decided. Nothing here knows a protocol.

pub(crate) mod flat;
mod history;

use std::collections::BTreeMap;

use softland_core::{Addition, Admission, Because, Call, Limit, Role};
use softland_wire::json::{Cursor, Str, write_str};
use softland_wire::request::Request;
use softland_wire::tags::{self, Malformed, Shape, StopAfter, StopReason, Tags};

use crate::relay::Show;

pub(crate) use history::{Given, Reader, Waiting};

/// What a model is told whose message holds a call and what looks like its result.
const ECHOED: &str = "Not run: behind the call stands something that looks like its result, but no \
                      tool had run. Write the call and nothing behind it; its result comes in the \
                      next message.";
/// What it is told of a call that stands behind one that cannot be read.
const BEHIND: &str =
    "Not run: a call before it could not be read. Write it again if it is still needed.";

/// The shape that holds for an exchange. An engine reads every response to its end and lets the
/// model see what it broke; a gateway ends a response where an invented result begins; what only
/// observes changes nothing.
pub(crate) fn in_force(shape: &Shape, role: Role, observes: bool) -> Shape {
    let held_limit = shape.held_limit;
    let watch = Shape { held_limit, ..Shape::watch(shape.tags.clone()) };
    match role {
        _ if observes => watch,
        Role::Gateway => Shape { stop_at_echo: true, ..shape.clone() },
        Role::Engine => {
            let (suppress_tail, drop_repeated) = (shape.suppress_tail, shape.drop_repeated);
            Shape { suppress_tail, drop_repeated, stop_after: StopAfter::Off, ..watch }
        }
    }
}

/// Whether a request is one of an agent that writes its calls as text: its instructions, or what
/// was said before, show one of the tags.
#[must_use]
pub fn uses_tags(request: &Request<'_>, tags: &Tags) -> bool {
    tags.names().iter().any(|name| {
        [["<", name].concat(), ["\\u003c", name].concat(), ["\\u003C", name].concat()]
            .iter()
            .any(|opening| request.text.contains(opening.as_str()))
    })
}

/// The id of a turn's call that is written as text: its place. `turn` tells it from those of other
/// turns for whoever reads along; a history joins results by place alone.
pub(crate) fn id_of(turn: Option<u64>, place: usize) -> String {
    match turn {
        Some(turn) => format!("tag_{turn}_{place}"),
        None => format!("tag_{place}"),
    }
}

/// What the texts of a response hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tagged {
    /// The texts that passed, taken apart, in order.
    pub(crate) segments: Vec<Segment>,
    pub(crate) calls: Vec<TagCall>,
    /// Whether an invented result stands behind a call.
    pub(crate) echo: bool,
    /// Why it was ended early, if it was.
    pub(crate) stop: Option<StopReason>,
    /// Bytes that were dropped at its end.
    pub(crate) trimmed: u64,
    /// Whether what stands between two calls passes only with the second.
    pub(crate) suppress: bool,
}

/// A stretch of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The block of the response it stands in.
    pub(crate) block: usize,
    pub(crate) what: What,
    pub(crate) raw: String,
}

/// What a stretch of a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Text,
    /// The call of this place.
    Call(usize),
    /// One that repeats an earlier one and was taken out.
    Repeated,
    /// A block that the text ends in.
    Open,
}

/// A call that is written as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
    /// What the model is told in place of its result, where it is not to be run.
    pub(crate) unfit: Option<String>,
}

impl TagCall {
    /// It in the core's words.
    pub(crate) fn call(&self) -> Call<'_> {
        Call { id: &self.id, name: &self.name, input: &self.input, server: false }
    }
}

impl Tagged {
    /// Whether there is nothing but words in it.
    pub(crate) fn is_plain(&self) -> bool {
        self.segments.iter().all(|s| matches!(s.what, What::Text | What::Repeated))
    }

    /// The block that the last text ends in, if it does.
    pub(crate) fn open(&self) -> Option<&Segment> {
        self.segments.last().filter(|last| last.what == What::Open)
    }

    /// The stretches of each block, in order.
    pub(crate) fn by_block(&self) -> BTreeMap<usize, Vec<&Segment>> {
        let mut blocks: BTreeMap<usize, Vec<&Segment>> = BTreeMap::new();
        for segment in &self.segments {
            blocks.entry(segment.block).or_default().push(segment);
        }
        blocks
    }

    /// The text of each block that has any, as far as its calls pass and, with `open`, its last one
    /// may be half.
    pub(crate) fn texts(
        &self,
        open: bool,
        passes: impl Fn(usize) -> bool,
    ) -> BTreeMap<usize, String> {
        let mut behind = false;
        let text = |(block, segments): (usize, Vec<&Segment>)| {
            let (mut kept, mut between) = (String::new(), String::new());
            for Segment { what, raw, .. } in segments {
                match *what {
                    What::Text if behind && self.suppress => between.push_str(raw),
                    What::Text => kept.push_str(raw),
                    What::Call(at) => {
                        if passes(at) {
                            kept.push_str(&between);
                            kept.push_str(raw);
                        }
                        between.clear();
                        behind = true;
                    }
                    What::Repeated => kept.push_str(&std::mem::take(&mut between)),
                    What::Open if open => kept.push_str(raw),
                    What::Open => {}
                }
            }
            (block, kept)
        };
        self.by_block().into_iter().map(text).collect()
    }

    /// What is said beside calls.
    pub(crate) fn words(&self) -> String {
        let words = self.segments.iter().filter(|segment| segment.what == What::Text);
        words.map(|segment| segment.raw.as_str()).collect()
    }

    /// Says of each call whether its owner can run it. `ended`: the response came to its end by
    /// itself, so that what is open in it is a call that was not closed.
    pub(crate) fn judge(&mut self, reader: &Reader, ended: bool, id: &dyn Fn(usize) -> String) {
        if reader.role == Role::Gateway {
            // What its client makes of half a call is its own affair.
            let open = self.segments.iter_mut().filter(|segment| segment.what == What::Open);
            open.for_each(|segment| segment.what = What::Text);
            return;
        }
        let tags = &reader.shape.tags;
        if ended && let Some(last) = self.segments.last_mut().filter(|s| s.what == What::Open) {
            let at = self.calls.len();
            last.what = What::Call(at);
            let name = opened(&last.raw, tags).to_owned();
            let unfit = Some(repair(&Malformed::Unclosed, tags));
            self.calls.push(TagCall { id: id(at), name, input: "{}".to_owned(), unfit });
        }
        let mut broken = false;
        for call in &mut self.calls {
            match &call.unfit {
                _ if self.echo => call.unfit = Some(ECHOED.to_owned()),
                None if broken => call.unfit = Some(BEHIND.to_owned()),
                Some(_) if broken => call.unfit = Some(BEHIND.to_owned()),
                Some(_) => broken = true,
                None => {}
            }
        }
    }
}

/// A call as it is counted: one that cannot be read goes by its tag's name.
pub(crate) fn read_call(
    call: &Result<tags::Call, Malformed>,
    tag: &str,
    tags: &Tags,
    id: String,
) -> TagCall {
    match call {
        Ok(call) => {
            let input = call.input.to_json().into_owned();
            TagCall { id, name: call.name.clone(), input, unfit: None }
        }
        Err(why) => {
            let unfit = Some(repair(why, tags));
            TagCall { id, name: tag.to_owned(), input: "{}".to_owned(), unfit }
        }
    }
}

/// The name of the tag that a text begins with.
pub(crate) fn opened<'t>(raw: &'t str, tags: &'t Tags) -> &'t str {
    let rest = raw.get(1..).unwrap_or_default();
    let names = tags.names().iter().filter(|name| rest.starts_with(name.as_str()));
    // The longest: one name may be the beginning of another.
    names.max_by_key(|name| name.len()).map_or("", String::as_str)
}

/// What a model is told of a call that cannot be read.
fn repair(why: &Malformed, tags: &Tags) -> String {
    let tag = tags.names().first().map_or("", String::as_str);
    format!(
        "The tool call could not be read: {why}. It was not run. Write the whole block again: \
         <{tag}>, one JSON object with \"name\" and \"input\", </{tag}>."
    )
}

/// Whether a call's text is shown.
pub(crate) fn shows(show: Show, admission: Option<&Admission>) -> bool {
    match (show, admission) {
        (Show::All, Some(admission)) => {
            !matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
        }
        (Show::All, None) => true,
        (Show::Landed | Show::Answer, Some(admission)) => *admission == Admission::Answer,
        (Show::Landed | Show::Answer | Show::Text | Show::Nothing, _) => false,
    }
}

/// The message that answers these calls, in the form that a history is read by.
#[must_use]
pub fn results_text<'r>(results: impl IntoIterator<Item = (&'r str, &'r str)>) -> String {
    let one = |(name, text): (&str, &str)| {
        // What a tool returns must not end its own result, nor begin another one.
        let mut text = text.replace("</tool_result", "<\\/tool_result");
        text = text.replace("<tool_result", "<\\tool_result");
        if text.trim_start().starts_with("<![CDATA[") {
            text = text.replacen("<![CDATA[", "<\\![CDATA[", 1);
        }
        format!("<tool_result name=\"{name}\">\n{text}\n</tool_result>")
    };
    results.into_iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Of the lines of several results the one that their message gets: the most important, and of
/// countdowns the one with the fewest left.
pub(crate) fn most_important(lines: Vec<Addition>) -> Option<Addition> {
    let left = |because: &Because| match (because.limit, because.used) {
        (Limit::Count(limit), Limit::Count(used)) => limit.saturating_sub(used),
        _ => u64::MAX,
    };
    let rank = |line: &Addition| {
        let left = line.because.as_ref().map_or(u64::MAX, left);
        (line.kind, std::cmp::Reverse(left))
    };
    lines.into_iter().max_by_key(rank)
}

/// A text as it stands in JSON.
pub(crate) fn with_str<R>(text: &str, take: impl FnOnce(Str<'_>) -> R) -> R {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    write_str(&mut quoted, text);
    // It was written from text.
    let quoted = String::from_utf8(quoted).unwrap_or_default();
    take(Cursor::new(&quoted).string().map(|(text, _)| text).unwrap_or_default())
}
