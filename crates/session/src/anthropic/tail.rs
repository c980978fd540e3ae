//! The messages that softland adds behind the governed history within one client request.

use softland_core::lines;
use softland_core::models::capability::Nudge;
use softland_core::{Admission, Because, Text};
use softland_wire::Splice;
use softland_wire::anthropic::{
    Block, BlockKind, Content, Message, Request, RequestBlock, RequestMessage, respond,
};
use softland_wire::json::{Span, write_str};

use super::turn;

/// One message of a tail, as JSON.
pub(crate) type Json = Vec<u8>;

/// The blocks of a response that may go back: what the API refuses, or what was cut, is left out.
pub(crate) fn kept(message: &Message, cut_call: bool) -> Vec<Block> {
    let mut blocks = message.blocks.clone();
    if cut_call {
        blocks.pop();
    }
    blocks.retain(|block| match block {
        Block::Text { text, .. } => !Text::of(text).is_blank(),
        Block::Thinking { signature, .. } => !signature.is_empty(),
        _ => true,
    });
    blocks
}

/// The same without the calls of the provider's tools that have no result: only the turn itself
/// may go on behind such a call, no text.
pub(crate) fn closed(mut blocks: Vec<Block>) -> Vec<Block> {
    let mut results = blocks.iter().filter(|block| is_result(block)).count();
    blocks.retain(|block| match block {
        Block::ToolUse { server: true, .. } if results == 0 => false,
        Block::ToolUse { server: true, .. } => {
            results -= 1;
            true
        }
        _ => true,
    });
    blocks
}

/// Whether a response goes on with the result of a call that was left open.
pub(crate) fn resolves(message: &Message) -> bool {
    matches!(message.blocks.iter().find(|b| !is_thinking(b)), Some(block) if is_result(block))
}

fn is_result(block: &Block) -> bool {
    matches!(block, Block::Other { kind, .. } if kind.ends_with("_tool_result"))
}

fn is_thinking(block: &Block) -> bool {
    matches!(block, Block::Thinking { .. } | Block::Redacted { .. })
}

/// Closes a history that ends in the model's turn, for a text behind it.
pub(crate) fn close_history(splice: &mut Splice, request: &Request<'_>) {
    let Some((message, before)) = request.messages.list.split_last() else { return };
    let Content::Blocks { blocks, .. } = &message.content else { return };
    let ends = |block: &RequestBlock<'_>| matches!(block.kind, BlockKind::Other { kind } if kind.unescape().ends_with("_tool_result"));
    let mut results = blocks.iter().filter(|block| ends(block)).count();
    let keeps = |block: &RequestBlock<'_>| match block.kind {
        BlockKind::ToolUse { server: true, .. } => {
            let answered = results > 0;
            results = results.saturating_sub(1);
            answered
        }
        _ => true,
    };
    if !keep_blocks(splice, request.text, message, keeps)
        && let Some(before) = before.last()
    {
        splice.replace(Span::new(before.span.end, message.span.end), Vec::new());
    }
}

/// Messages without their thinking; `None` where they cannot be read.
pub(crate) fn without_thinking(messages: &str) -> Option<String> {
    const HEAD: &str = r#"{"model":"","messages":["#;
    let body = [HEAD, messages, "]}"].concat();
    let request = Request::scan(body.as_bytes()).ok()?;
    let mut splice = Splice::new();
    for message in &request.messages.list {
        let speaks = |block: &RequestBlock<'_>| {
            !matches!(block.kind, BlockKind::Thinking | BlockKind::RedactedThinking)
        };
        keep_blocks(&mut splice, request.text, message, speaks);
    }
    let edited = String::from_utf8(splice.apply(body.as_bytes()).ok()?).ok()?;
    Some(edited.strip_prefix(HEAD)?.strip_suffix("]}")?.to_owned())
}

/// Leaves the other blocks of a message out; false, and no edit, where none would be left.
fn keep_blocks(
    splice: &mut Splice,
    text: &str,
    message: &RequestMessage<'_>,
    keeps: impl FnMut(&RequestBlock<'_>) -> bool,
) -> bool {
    let Content::Blocks { span, blocks } = &message.content else { return true };
    let mut keeps = keeps;
    let kept: Vec<&str> =
        blocks.iter().filter(|block| keeps(block)).map(|block| block.span.of(text)).collect();
    if kept.len() != blocks.len() && !kept.is_empty() {
        splice.replace(*span, format!("[{}]", kept.join(",")));
    }
    !kept.is_empty()
}

/// An assistant message.
pub(crate) fn assistant(blocks: &[Block]) -> Json {
    let mut out = br#"{"role":"assistant","content":"#.to_vec();
    respond::write_blocks(&mut out, blocks);
    out.push(b'}');
    out
}

/// A message of one text.
pub(crate) fn said(role: &str, text: &str) -> Json {
    let mut out = br#"{"role":"#.to_vec();
    write_str(&mut out, role);
    out.extend_from_slice(br#","content":"#);
    write_str(&mut out, text);
    out.push(b'}');
    out
}

/// A user message that answers calls, each as failed, in order.
pub(crate) fn results<'a>(answers: impl Iterator<Item = (&'a str, String)>) -> Json {
    let mut out = br#"{"role":"user","content":["#.to_vec();
    for (n, (id, text)) in answers.enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
        write_str(&mut out, id);
        out.extend_from_slice(br#","content":"#);
        write_str(&mut out, &text);
        out.extend_from_slice(br#","is_error":true}"#);
    }
    out.extend_from_slice(b"]}");
    out
}

/// The turn with all of its calls refused; the note stands again in the last one's answer.
pub(crate) fn refusal(message: &Message, because: &Because) -> Vec<Json> {
    let blocks = kept(message, turn::cut_call(message));
    let calls: Vec<_> = turn::calls(&blocks).filter(|(call, _)| !call.server).collect();
    let last = calls.len().saturating_sub(1);
    let answers = calls.iter().enumerate().map(|(n, (call, _))| {
        let text = if n == last { lines::refused(because) } else { lines::beyond(because) };
        (call.id, text)
    });
    vec![assistant(&blocks), results(answers)]
}

/// The turn with its calls refused by their tools' own limits.
pub(crate) fn tool_refusal(message: &Message, admissions: &[Admission]) -> Vec<Json> {
    let blocks = kept(message, turn::cut_call(message));
    let answers = turn::calls(&blocks).zip(admissions).filter(|((call, _), _)| !call.server).map(
        |((call, _), admission)| {
            let text = match admission {
                Admission::ToolRefused(because) => lines::tool_refused(call.name, because.limit),
                Admission::Refused(because) => lines::refused(because),
                Admission::Run | Admission::Server | Admission::Answer => String::new(),
            };
            (call.id, text)
        },
    );
    vec![assistant(&blocks), results(answers)]
}

/// What follows an empty turn: it is told to go on in a way that is not the cause again.
pub(crate) fn nudge(message: &Message, form: Nudge) -> Vec<Json> {
    match form {
        Nudge::MidSystem => vec![said("system", lines::NUDGE)],
        Nudge::BareUser => vec![said("user", lines::NUDGE)],
        Nudge::Pair => {
            let mut blocks = kept(message, false);
            blocks.retain(is_thinking);
            blocks
                .push(Block::Text { text: lines::NO_ANSWER.to_owned(), extra: Default::default() });
            vec![assistant(&blocks), said("user", lines::NUDGE)]
        }
    }
}

/// What follows a request that was given up because a limit was reached meanwhile.
pub(crate) fn expired(because: &Because) -> Vec<Json> {
    vec![said("assistant", lines::NO_ANSWER), said("user", &lines::ask(because))]
}

/// What follows a truncated turn. Without anything visible to keep, the request is sent as it was.
pub(crate) fn go_on(message: &Message) -> Vec<Json> {
    let blocks = kept(message, turn::cut_call(message));
    if Text::of(&turn::text(&blocks)).is_blank() {
        return Vec::new();
    }
    vec![assistant(&blocks), said("user", lines::CONTINUE)]
}
