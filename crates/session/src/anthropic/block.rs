//! The blocks of a response of the Messages API.

use softland_core::Call;
use softland_wire::anthropic::ResponseBlock as Native;

use crate::block_view::BlockView;

/// Returns the rules' view of a block.
pub(crate) fn block_view(block: &Native) -> BlockView<'_> {
    match block {
        Native::Text { text, .. } => BlockView::Text(text),
        Native::Thinking { thinking, signature, .. } => {
            BlockView::Thinking { text: Some(thinking), signed: !signature.is_empty() }
        }
        Native::Redacted { .. } => BlockView::Thinking { text: None, signed: true },
        Native::ToolUse { id, name, input, complete, server, .. } => {
            BlockView::Call(Call { id, name, input, server: *server }, *complete)
        }
        Native::Other { kind, .. } if kind.ends_with("_tool_result") => BlockView::Result,
        Native::Other { .. } => BlockView::Other,
    }
}
