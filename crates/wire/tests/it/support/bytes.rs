//! Bytes that are nearly valid input for a reader.

use proptest::prelude::*;

/// Pieces of `parts`, joined by `between`.
pub(crate) fn mixed(
    parts: &'static [&'static str],
    between: &'static str,
) -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::collection::vec(prop::sample::select(parts), 0..12);
    pieces.prop_map(move |pieces| pieces.join(between).into_bytes())
}

/// Spoils one byte or cuts off the end, in some cases.
pub(crate) fn spoiled(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let spoil = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    let cut = prop::option::weighted(0.2, any::<prop::sample::Index>());
    (bytes, spoil, cut).prop_map(|(mut bytes, spoil, cut)| {
        if let (Some((at, byte)), false) = (spoil, bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(at) = cut {
            bytes.truncate(at.index(bytes.len() + 1));
        }
        bytes
    })
}
