//! Tells whether a user has said something new.

use softland_session::wire::request::{BlockKind, Content, Request, Role};

/// Returns true if a user message follows the newest turn: not only results, and not only text that
/// a harness has put into its own tags.
pub(super) fn has_new_message(request: &Request<'_>) -> bool {
    let newest = request.messages.list.iter().rev();
    let newest = newest.take_while(|message| message.role != Role::Assistant);
    let is_said = |text: &str| !text.trim().is_empty() && !text.trim_start().starts_with('<');
    newest.filter(|message| message.role == Role::User).any(|message| match &message.content {
        Content::Text(text, _) => is_said(&text.unescape()),
        Content::Blocks { blocks, .. } => blocks.iter().any(|block| match &block.kind {
            BlockKind::Text { text, .. } => is_said(&text.unescape()),
            _ => false,
        }),
    })
}
