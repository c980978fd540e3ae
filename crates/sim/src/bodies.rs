//! Response bodies for every protocol: whole, cut or streamed.

use crate::pieces::recut_chunks;
use crate::reply::{Body, Chunk, Piece, Response};

/// Creates a response with a whole JSON body.
pub(crate) fn whole_response(status: u16, delay_ms: u64, bytes: Vec<u8>) -> Response {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Response { status, headers, body: Body::Whole { delay_ms, bytes } }
}

/// Creates a response that breaks after half of its body.
pub(crate) fn cut_response(mut body: Vec<u8>) -> Response {
    body.truncate(body.len() / 2);
    let chunks = vec![
        Chunk { delay_ms: 0, piece: Piece::Bytes(body) },
        Chunk { delay_ms: 0, piece: Piece::Cut },
    ];
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    Response { status: 200, headers, body: Body::Stream(chunks) }
}

/// Creates a streamed response, cut into pieces of `piece_bytes` if given.
pub(crate) fn stream_response(mut chunks: Vec<Chunk>, piece_bytes: Option<usize>) -> Response {
    if let Some(size) = piece_bytes {
        chunks = recut_chunks(chunks, size);
    }
    let headers = vec![
        ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()),
        ("cache-control".to_owned(), "no-cache".to_owned()),
    ];
    Response { status: 200, headers, body: Body::Stream(chunks) }
}
