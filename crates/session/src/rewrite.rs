//! Edits of messages that are already in a history.

use softland_wire::json::{Cursor, Error, Span};
use softland_wire::request::{
    Block as RequestBlock, BlockKind, Content, Message as RequestMessage, Request,
};
use softland_wire::{Api, Splice};

use crate::responses::block::without_id;

/// Closes a history that ends in the model's turn, so that a text can follow.
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
    if !keep_blocks(request.api, splice, request.text, message, keeps, false)
        && let Some(before) = before.last()
    {
        splice.replace(Span::new(before.span.end, message.span.end), Vec::new());
    }
}

/// Returns messages without their thinking; `None` where they cannot be read.
pub(crate) fn without_thinking(api: Api, messages: &str) -> Option<String> {
    let head = match api {
        Api::Anthropic | Api::Chat => r#"{"model":"","messages":["#,
        Api::Responses => r#"{"model":"","input":["#,
    };
    let body = [head, messages, "]}"].concat();
    let request = Request::from_body(api, body.as_bytes()).ok()?;
    let mut splice = Splice::new();
    for message in &request.messages.list {
        let speaks = |block: &RequestBlock<'_>| {
            !matches!(block.kind, BlockKind::Thinking | BlockKind::RedactedThinking)
        };
        keep_blocks(api, &mut splice, request.text, message, speaks, true);
    }
    let edited = String::from_utf8(splice.apply(body.as_bytes()).ok()?).ok()?;
    Some(edited.strip_prefix(head)?.strip_suffix("]}")?.to_owned())
}

/// Members of a Chat Completions message that hold its reasoning, each with its empty value.
const REASONING: [(&str, &str); 3] =
    [("reasoning_content", "\"\""), ("reasoning", "\"\""), ("reasoning_details", "[]")];

/// Replaces the reasoning of the message at `at` by the reasoning of the message `own`.
pub(crate) fn replace_reasoning(splice: &mut Splice, text: &str, at: Span, own: &str) {
    for_each_reasoning(at.slice_of(text), |name, span, none| {
        let mut value = none.to_owned();
        for_each_reasoning(own, |other, span, _| {
            if other == name {
                span.slice_of(own).clone_into(&mut value);
            }
        });
        splice.replace(Span::new(at.start + span.start, at.start + span.end), value);
    });
}

/// Calls `found` for each member of an object that holds reasoning, with the member's name, the
/// span of its value, and its empty value.
fn for_each_reasoning(object: &str, mut found: impl FnMut(&str, Span, &str)) {
    // The object was scanned before, so there is no error to report.
    let _ = Cursor::new(object).read_members(|cursor, member| {
        let span = cursor.skip_value()?;
        let key = member.key.unescape();
        if let Some((name, none)) = REASONING.iter().find(|(name, _)| *name == key) {
            found(name, span, none);
        }
        Ok::<_, Error>(())
    });
}

/// Removes the blocks of a message that `keeps` rejects. Returns false, without an edit, where none
/// would be left. With `bare`, an item loses its own id, which may not go back without the
/// reasoning that it came with.
fn keep_blocks(
    api: Api,
    splice: &mut Splice,
    text: &str,
    message: &RequestMessage<'_>,
    keeps: impl FnMut(&RequestBlock<'_>) -> bool,
    bare: bool,
) -> bool {
    let Content::Blocks { span, blocks } = &message.content else { return true };
    let mut keeps = keeps;
    let mut spans: Vec<Span> =
        blocks.iter().filter(|block| keeps(block)).map(|block| block.span).collect();
    let whole = spans.len() == blocks.len();
    // Several texts may stand in one item.
    spans.dedup();
    let kept: Vec<&str> = spans.iter().map(|span| span.slice_of(text)).collect();
    if whole || kept.is_empty() {
        return !kept.is_empty();
    }
    match api {
        Api::Anthropic => splice.replace(*span, format!("[{}]", kept.join(","))),
        // Items stand in the input itself.
        Api::Responses if bare => {
            let kept: Vec<_> = kept.iter().map(|item| without_id(item)).collect();
            splice.replace(*span, kept.join(","));
        }
        Api::Responses => splice.replace(*span, kept.join(",")),
        // A message has one reasoning and no list of blocks.
        Api::Chat => {}
    }
    true
}
