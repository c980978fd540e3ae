//! Calls that a model writes as text, and their results. They are read so that they count, land and
//! are answered as declared calls are.
//!
//! `softland_wire::tags` decides which text is a call. The code for all other calls decides what
//! becomes of it. Nothing here knows a protocol.

pub(crate) mod flat;
mod history;

use std::collections::BTreeMap;

use softland_core::{Addition, Because, Call, Quantity, Role};
use softland_wire::json::{Cursor, Str, write_str};
use softland_wire::request::Request;
use softland_wire::tags::{self, MalformedCall, Shape, StopAfter, StopReason, Tags};

pub(crate) use history::{GivenAnswers, TagReader, WaitingCalls};

/// The message to a model that wrote a call, and behind it what looks like the call's result.
const ECHOED: &str = "Not run: behind the call stands something that looks like its result, but no \
                      tool had run. Write the call and nothing behind it; its result comes in the \
                      next message.";
/// The message about a call that stands behind one that cannot be read.
const BEHIND: &str =
    "Not run: a call before it could not be read. Write it again if it is still needed.";

/// Returns the shape that holds for an exchange. An engine reads every response to its end and lets
/// the model see what it broke. A gateway ends a response where an invented result begins. Under a
/// policy that only observes, nothing is changed.
pub(crate) fn shape_in_force(shape: &Shape, role: Role, observes: bool) -> Shape {
    let held_limit = shape.held_limit;
    let watch = Shape { held_limit, ..Shape::watch_only(shape.tags.clone()) };
    match role {
        _ if observes => watch,
        Role::Gateway => Shape { stop_at_echo: true, ..shape.clone() },
        Role::Engine => {
            let (suppress_tail, drop_repeated) = (shape.suppress_tail, shape.drop_repeated);
            Shape { suppress_tail, drop_repeated, stop_after: StopAfter::Off, ..watch }
        }
    }
}

/// True if a request is one of an agent that writes its calls as text: its instructions or its
/// history show one of the tags.
#[must_use]
pub fn uses_tags(request: &Request<'_>, tags: &Tags) -> bool {
    tags.names().iter().any(|name| {
        [["<", name].concat(), ["\\u003c", name].concat(), ["\\u003C", name].concat()]
            .iter()
            .any(|opening| request.text.contains(opening.as_str()))
    })
}

/// Returns the id of a call that is written as text: its place in the turn. `turn` tells it from
/// the calls of other turns for an observer; a history joins results by place alone.
pub(crate) fn call_id(turn: Option<u64>, place: usize) -> String {
    match turn {
        Some(turn) => format!("tag_{turn}_{place}"),
        None => format!("tag_{place}"),
    }
}

/// The content of a response's texts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaggedTexts {
    /// The texts that passed, taken apart, in order.
    pub(crate) segments: Vec<TextSegment>,
    pub(crate) calls: Vec<TagCall>,
    /// True if an invented result stands behind a call.
    pub(crate) echo: bool,
    /// The reason why the response was ended early, if it was.
    pub(crate) stop: Option<StopReason>,
    /// Bytes that were dropped at the end.
    pub(crate) trimmed: u64,
    /// True if text between two calls passes only with the second.
    pub(crate) suppress: bool,
}

/// A stretch of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextSegment {
    /// The index of its block in the response.
    pub(crate) block: usize,
    pub(crate) what: SegmentKind,
    pub(crate) raw: String,
}

/// The kind of a stretch of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Text,
    /// The call of this place.
    Call(usize),
    /// A call that repeats an earlier one and was taken out.
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
    /// The message that the model gets in place of a result, where the call is not to be run.
    pub(crate) unfit: Option<String>,
}

impl TagCall {
    /// Returns the call in the core's words.
    pub(crate) fn as_call(&self) -> Call<'_> {
        Call { id: &self.id, name: &self.name, input: &self.input, server: false }
    }
}

impl TaggedTexts {
    /// True if there is nothing but words in the texts.
    pub(crate) fn is_plain(&self) -> bool {
        self.segments.iter().all(|s| matches!(s.what, SegmentKind::Text | SegmentKind::Repeated))
    }

    /// Returns the block in which the last text ends without closing it, if it does.
    pub(crate) fn open_block(&self) -> Option<&TextSegment> {
        self.segments.last().filter(|last| last.what == SegmentKind::Open)
    }

    /// Returns the stretches of each block, in order.
    pub(crate) fn segments_by_block(&self) -> BTreeMap<usize, Vec<&TextSegment>> {
        let mut blocks: BTreeMap<usize, Vec<&TextSegment>> = BTreeMap::new();
        for segment in &self.segments {
            blocks.entry(segment.block).or_default().push(segment);
        }
        blocks
    }

    /// Returns the text of each block that has any. A call is kept if it passes, and with `open`
    /// the unclosed block at the end is kept too.
    pub(crate) fn block_texts(
        &self,
        open: bool,
        passes: impl Fn(usize) -> bool,
    ) -> BTreeMap<usize, String> {
        let mut behind = false;
        let text = |(block, segments): (usize, Vec<&TextSegment>)| {
            let (mut kept, mut between) = (String::new(), String::new());
            for TextSegment { what, raw, .. } in segments {
                match *what {
                    SegmentKind::Text if behind && self.suppress => between.push_str(raw),
                    SegmentKind::Text => kept.push_str(raw),
                    SegmentKind::Call(at) => {
                        if passes(at) {
                            kept.push_str(&between);
                            kept.push_str(raw);
                        }
                        between.clear();
                        behind = true;
                    }
                    SegmentKind::Repeated => kept.push_str(&std::mem::take(&mut between)),
                    SegmentKind::Open if open => kept.push_str(raw),
                    SegmentKind::Open => {}
                }
            }
            (block, kept)
        };
        self.segments_by_block().into_iter().map(text).collect()
    }

    /// Returns the text beside calls.
    pub(crate) fn plain_text(&self) -> String {
        let words = self.segments.iter().filter(|segment| segment.what == SegmentKind::Text);
        words.map(|segment| segment.raw.as_str()).collect()
    }

    /// Says of each call whether its owner can run it. `ended` is true if the response came to its
    /// end by itself: an open block in it is then a call that was not closed.
    pub(crate) fn judge_calls(
        &mut self,
        reader: &TagReader,
        ended: bool,
        id: &dyn Fn(usize) -> String,
    ) {
        if reader.role == Role::Gateway {
            // In a gateway, half a call is the client's affair.
            let open = self.segments.iter_mut().filter(|segment| segment.what == SegmentKind::Open);
            open.for_each(|segment| segment.what = SegmentKind::Text);
            return;
        }
        let tags = &reader.shape.tags;
        if ended
            && let Some(last) = self.segments.last_mut().filter(|s| s.what == SegmentKind::Open)
        {
            let at = self.calls.len();
            last.what = SegmentKind::Call(at);
            let name = opening_tag(&last.raw, tags).to_owned();
            let unfit = Some(repair_message(&MalformedCall::Unclosed, tags));
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

/// Returns a call as it is counted. A call that cannot be read goes by its tag's name.
pub(crate) fn read_call(
    call: &Result<tags::TextCall, MalformedCall>,
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
            let unfit = Some(repair_message(why, tags));
            TagCall { id, name: tag.to_owned(), input: "{}".to_owned(), unfit }
        }
    }
}

/// Returns the name of the tag that a text begins with.
pub(crate) fn opening_tag<'t>(raw: &'t str, tags: &'t Tags) -> &'t str {
    let rest = raw.get(1..).unwrap_or_default();
    let names = tags.names().iter().filter(|name| rest.starts_with(name.as_str()));
    // The longest name is taken: one name may be the beginning of another.
    names.max_by_key(|name| name.len()).map_or("", String::as_str)
}

/// Returns the message to a model about a call that cannot be read.
fn repair_message(why: &MalformedCall, tags: &Tags) -> String {
    let tag = tags.names().first().map_or("", String::as_str);
    format!(
        "The tool call could not be read: {why}. It was not run. Write the whole block again: \
         <{tag}>, one JSON object with \"name\" and \"input\", </{tag}>."
    )
}

/// Returns the message that answers these calls, in the form in which a history is read.
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

/// Returns the line that a message of several results gets: the most important, and of countdowns
/// the one with the fewest left.
pub(crate) fn most_important(lines: Vec<Addition>) -> Option<Addition> {
    let left = |because: &Because| match (because.limit, because.used) {
        (Quantity::Count(limit), Quantity::Count(used)) => limit.saturating_sub(used),
        _ => u64::MAX,
    };
    let rank = |line: &Addition| {
        let left = line.because.as_ref().map_or(u64::MAX, left);
        (line.kind, std::cmp::Reverse(left))
    };
    lines.into_iter().max_by_key(rank)
}

/// Calls `take` with a text as it stands in JSON.
pub(crate) fn with_str<R>(text: &str, take: impl FnOnce(Str<'_>) -> R) -> R {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    write_str(&mut quoted, text);
    // The string was written from text.
    let quoted = String::from_utf8(quoted).unwrap_or_default();
    take(Cursor::new(&quoted).read_string().map(|(text, _)| text).unwrap_or_default())
}
