//! A finished response as the core sees it.

use softland_core::{Call, Finished, Stop, Text};
use softland_wire::anthropic::{Block, Message, Stop as WireStop};

/// The visible text of a response, its blocks joined in order.
pub(crate) fn text(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The client's calls of a response, in order, with whether their input is whole.
pub(crate) fn calls(blocks: &[Block]) -> impl Iterator<Item = (Call<'_>, bool)> {
    blocks.iter().filter_map(|block| match block {
        Block::ToolUse { id, name, input, complete, server, .. } => {
            Some((Call { id, name, input, server: *server }, *complete))
        }
        _ => None,
    })
}

/// The response in the core's words.
pub(crate) fn finished(message: &Message) -> Finished<'_> {
    let text = Text::of(&text(&message.blocks));
    let calls: Vec<_> = calls(&message.blocks).map(|(call, _)| call).collect();
    let hidden = message.blocks.iter().any(|block| {
        matches!(block, Block::Thinking { .. } | Block::Redacted { .. } | Block::Other { .. })
    });
    Finished {
        text,
        cut_call: cut_call(message),
        calls,
        hidden,
        stop: stop(message.stop.as_ref()),
        output_tokens: Some(message.usage.tokens.output),
    }
}

/// Whether the last call was cut by the end of the output. A call of a turn that ended by itself
/// is whole, valid JSON or not: the loop answers it.
pub(crate) fn cut_call(message: &Message) -> bool {
    let by_end = matches!(
        message.stop,
        None | Some(WireStop::MaxTokens | WireStop::ContextWindowExceeded | WireStop::Refusal)
    );
    by_end && matches!(message.blocks.last(), Some(Block::ToolUse { server: false, .. }))
}

fn stop(stop: Option<&WireStop>) -> Stop {
    match stop {
        Some(WireStop::EndTurn | WireStop::ToolUse) => Stop::Natural,
        Some(WireStop::MaxTokens) => Stop::Length,
        Some(WireStop::StopSequence) => Stop::Sequence,
        Some(WireStop::PauseTurn) => Stop::Pause,
        Some(WireStop::Refusal) => Stop::Refusal,
        Some(WireStop::ContextWindowExceeded) => Stop::ContextFull,
        _ => Stop::Unknown,
    }
}
