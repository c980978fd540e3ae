//! Compacted contexts that only the provider can read: items and blocks in which a client keeps a
//! part of its history as opaque content (`docs/governing.md` §7).
//!
//! The content passes in a response before it stands in a history, so that a conversation is found
//! again by it.

use softland_core::Digest;
use softland_wire::anthropic::ResponseBlock;
use softland_wire::json::{Cursor, Error};
use softland_wire::request::{BlockKind, Content, Message, Request, Role};
use softland_wire::responses::OutputKind;

use crate::reply::Block;
use crate::responses::block::ResponsesBlock;

/// The shortest content that tells a compacted context from any other, in bytes.
const SHORTEST: usize = 16;

/// The part of a type's name by which a compacted context is known: `compaction` in both APIs,
/// `compaction_summary` in an older form of one.
const KIND: &str = "compaction";

/// Returns the digests of the compacted contexts in a message of a request, in order.
pub(crate) fn message_contexts(
    request: &Request<'_>,
    message: &Message<'_>,
) -> impl Iterator<Item = Digest> {
    let blocks = match &message.content {
        Content::Blocks { blocks, .. } if message.role == Role::Assistant => blocks.as_slice(),
        Content::Blocks { .. } | Content::Text(..) => &[],
    };
    blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Other { kind } if kind.raw().contains(KIND) => {
            context_digest(block.span.slice_of(request.text))
        }
        _ => None,
    })
}

/// Returns the digests of the compacted contexts among the blocks of a response.
pub(crate) fn block_contexts(blocks: &[Block]) -> Vec<Digest> {
    let raw = |block: &Block| match block {
        Block::Anthropic(ResponseBlock::Other { kind, raw }) if kind.contains(KIND) => {
            context_digest(raw)
        }
        Block::Responses(block) => item_context(block),
        Block::Anthropic(_) | Block::Chat(_) => None,
    };
    blocks.iter().filter_map(raw).collect()
}

fn item_context(block: &ResponsesBlock) -> Option<Digest> {
    match &block.item().kind {
        OutputKind::Other { kind, .. } if kind.contains(KIND) => context_digest(&block.item().raw),
        _ => None,
    }
}

/// Returns the digest of the content of a compacted context, a JSON object: of what is encrypted,
/// else of what can be read. Its id makes no difference, since clients leave it out.
fn context_digest(object: &str) -> Option<Digest> {
    let (mut sealed, mut open) = (None, None);
    let mut cursor = Cursor::new(object);
    let read = cursor.read_members(|cursor, member| {
        let text = cursor.read_string_or_skip()?.map(|(text, _)| text.unescape());
        let text = text.filter(|text| text.len() >= SHORTEST);
        match &*member.key.unescape() {
            "encrypted_content" => sealed = text,
            "content" => open = text,
            _ => {}
        }
        Ok::<_, Error>(())
    });
    read.ok()?;
    Some(Digest::from_bytes(sealed.or(open)?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::context_digest;

    #[test]
    fn a_context_is_known_by_its_content() {
        let item = |id: &str, content: &str| {
            context_digest(&format!(
                r#"{{"type":"compaction","id":"{id}","encrypted_content":"{content}"}}"#
            ))
        };
        let one = item("cmp_1", "gAAAAABp-a-context-that-is-sealed");
        assert!(one.is_some());
        assert_eq!(one, item("cmp_2", "gAAAAABp-a-context-that-is-sealed"));
        assert_ne!(one, item("cmp_1", "gAAAAABp-another-context-is-sealed"));
        assert_eq!(item("cmp_1", "short"), None);
        let block = r#"{"content":"What was done, in short.","type":"compaction"}"#;
        assert!(context_digest(block).is_some());
        for bad in ["", "{", "[]", r#"{"type":"compaction","content":null}"#] {
            assert_eq!(context_digest(bad), None, "{bad}");
        }
    }
}
