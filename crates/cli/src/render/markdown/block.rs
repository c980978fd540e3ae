//! Lays out the first block of a text.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::StyledLine;
use super::layout::Layout;

/// A block at the beginning of a text.
pub(super) struct Block {
    pub(super) lines: Vec<StyledLine>,
    /// The number of lines that later text cannot change.
    pub(super) stable: usize,
    /// The byte range of complete lines of fenced code in the source.
    pub(super) code: Option<Range<usize>>,
    kind: BlockKind,
}

enum BlockKind {
    Paragraph,
    Heading,
    Other,
}

impl Block {
    /// Returns true if text that follows this source cannot belong to the block.
    pub(super) fn is_closed(&self, source: &str) -> bool {
        match self.kind {
            BlockKind::Paragraph => source.ends_with("\n\n"),
            BlockKind::Heading => source.ends_with('\n'),
            BlockKind::Other => false,
        }
    }
}

/// Returns the first block, and the byte offset of the next one.
pub(super) fn parse_first_block(source: &str, width: usize) -> Option<(Block, Option<usize>)> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Parser::new_ext(source, options).into_offset_iter();
    let mut layout = Layout::new(width);
    let (mut kind, mut fenced, mut depth) = (None, false, 0_usize);
    let (mut stable, mut code) = (0, None::<Range<usize>>);
    for (event, range) in events.by_ref() {
        match &event {
            Event::Start(tag) => {
                if depth == 0 {
                    fenced = matches!(tag, Tag::CodeBlock(kind) if kind.is_fenced());
                }
                kind.get_or_insert(match tag {
                    Tag::Paragraph => BlockKind::Paragraph,
                    Tag::Heading { .. } => BlockKind::Heading,
                    _ => BlockKind::Other,
                });
                // The items before this one are complete.
                if depth == 1 && matches!(tag, Tag::Item) {
                    stable = layout.lines.len();
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(_) if fenced => {
                let start = code.as_ref().map_or(range.start, |code| code.start);
                code = Some(start..range.end);
            }
            _ => {}
        }
        layout.handle_event(event);
        if depth == 0 {
            break;
        }
    }
    let kind = kind.or_else(|| (!layout.lines.is_empty()).then_some(BlockKind::Other))?;
    let next = events.next().map(|(_, range)| range.start);
    // The range ends with the last complete line.
    let code = code.and_then(|code| {
        let text = source.get(code.clone())?;
        stable = text.matches('\n').count();
        Some(code.start..code.start + text.rfind('\n')? + 1)
    });
    Some((Block { lines: layout.lines, stable, code, kind }, next))
}
