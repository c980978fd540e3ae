//! Deterministic cutting of texts and streams into pieces.

use crate::reply::{Chunk, Piece};

/// Cuts a text at arbitrary places, as the real APIs do, but never inside a character.
pub(crate) fn cut_text(text: &str) -> impl Iterator<Item = &str> {
    const LENGTHS: [usize; 6] = [5, 19, 31, 11, 47, 23];
    let scale = 1 + text.len() / 2048;
    let mut rest = text;
    let mut lengths = LENGTHS.iter().cycle();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let wanted = lengths.next().map_or(1, |n| n * scale);
        let mut at = wanted.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, after) = rest.split_at(at);
        rest = after;
        Some(piece)
    })
}

/// Cuts the bytes of a stream anew, into pieces of at most `size` bytes.
pub(crate) fn recut_chunks(chunks: Vec<Chunk>, size: usize) -> Vec<Chunk> {
    let mut out = Vec::new();
    for chunk in chunks {
        let Piece::Bytes(bytes) = &chunk.piece else {
            out.push(chunk);
            continue;
        };
        for (i, piece) in bytes.chunks(size.max(1)).enumerate() {
            let delay_ms = if i == 0 { chunk.delay_ms } else { 0 };
            out.push(Chunk { delay_ms, piece: Piece::Bytes(piece.to_vec()) });
        }
    }
    out
}
