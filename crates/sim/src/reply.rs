//! A response as the simulator gives it: whole, or in pieces with their delays. It opens no
//! connection; `http` and an embedding program carry it.

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Everything at once, after that many milliseconds.
    Whole {
        /// Milliseconds before the first byte.
        delay_ms: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Pieces in order.
    Stream(Vec<Chunk>),
}

/// One piece of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Milliseconds to wait before it.
    pub delay_ms: u64,
    /// What comes.
    pub piece: Piece,
}

/// What a chunk brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes, cut anywhere.
    Bytes(Vec<u8>),
    /// The connection breaks; always last.
    Cut,
}

impl Response {
    /// The first header of that name (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// All bytes, and whether the connection broke after them.
    #[must_use]
    pub fn collect(&self) -> (Vec<u8>, bool) {
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
