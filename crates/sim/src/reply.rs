//! The simulator's responses: whole, or in pieces with their delays. This module opens no
//! connection; `http` or an embedding program sends the responses.

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A body that is sent at once, after a delay.
    Whole {
        /// The delay before the first byte, in milliseconds.
        delay_ms: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The pieces of a stream, in order.
    Stream(Vec<Chunk>),
}

/// One piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The delay before this piece, in milliseconds.
    pub delay_ms: u64,
    /// The content of the piece.
    pub piece: Piece,
}

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes, cut anywhere.
    Bytes(Vec<u8>),
    /// The connection breaks. Always the last piece.
    Cut,
}

impl Response {
    /// Returns the value of the first header with this name, in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Returns all bytes, and true if the connection broke after them.
    #[must_use]
    pub fn collect_bytes(&self) -> (Vec<u8>, bool) {
        match &self.body {
            Body::Whole { bytes, .. } => (bytes.clone(), false),
            Body::Stream(chunks) => {
                let mut all = Vec::new();
                for chunk in chunks {
                    match &chunk.piece {
                        Piece::Bytes(bytes) => all.extend_from_slice(bytes),
                        Piece::Cut => return (all, true),
                    }
                }
                (all, false)
            }
        }
    }
}
