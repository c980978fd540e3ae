//! Any bytes, cut any way: the same frames, and their raw bytes are the input.

use softland_wire::sse::{Decoder, SseError};

/// Event, data, raw bytes, and true if the frame was cut.
type Owned = (String, String, Vec<u8>, bool);

fn frames(chunks: &[&[u8]], limit: usize) -> (Vec<Owned>, Option<SseError>) {
    let mut decoder = Decoder::new(limit);
    let mut frames = Vec::new();
    let mut drain = |decoder: &mut Decoder| {
        while let Some(frame) = decoder.next() {
            match frame {
                Ok(f) => {
                    frames.push((f.event.to_owned(), f.data.into_owned(), f.raw.to_vec(), f.cut));
                }
                Err(error) => return Some(error),
            }
        }
        None
    };
    for chunk in chunks {
        decoder.push(chunk);
        if let Some(error) = drain(&mut decoder) {
            return (frames, Some(error));
        }
    }
    decoder.finish();
    let error = drain(&mut decoder);
    (frames, error)
}

/// The first byte chooses the limit and the chunk size, the rest is the stream.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, stream)) = data.split_first() else { return };
    let limit = if choice & 1 == 0 { usize::MAX } else { usize::from(choice) };
    let size = usize::from(choice >> 1 & 0b1111) + 1;

    let (whole, error) = frames(&[stream], limit);
    let chunks: Vec<&[u8]> = stream.chunks(size).collect();
    assert_eq!((&whole, error), (&frames(&chunks, limit).0, frames(&chunks, limit).1));

    let raw: Vec<u8> = whole.iter().flat_map(|frame| frame.2.iter().copied()).collect();
    assert!(stream.starts_with(&raw), "raw bytes in order");
    assert!(error.is_some() || raw.len() == stream.len(), "no byte lost");
    assert!(whole.iter().all(|frame| frame.2.len() <= limit), "every frame within the limit");
    assert!(whole.iter().rev().skip(1).all(|frame| !frame.3), "only the last is cut");
}
