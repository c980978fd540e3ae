//! Reads a whole request body, within a size and a time, and decompresses it.

use std::fmt;
use std::time::Duration;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::BudgetShare;
use crate::settings::Limits;

/// Bytes that are decompressed before other tasks get their turn.
const SLICE: usize = 256 << 10;
/// The smallest capacity of a buffer once it has to grow.
const FIRST: usize = 16 << 10;
/// The size from which on a buffer counts as large.
const LARGE: usize = 1 << 20;
/// Bodies up to this size are copied out of the buffer that they were read into.
const SMALL: usize = 4 << 10;

/// A request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadBody {
    /// The body that the client means: as sent, or decompressed.
    Plain(Bytes),
    /// The body as sent, in an encoding that the gateway does not read.
    Opaque {
        /// The bytes as sent.
        bytes: Bytes,
        /// The encoding, as named by the client.
        encoding: String,
    },
}

/// The reason why there is no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The decompressed body exceeds the limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// With this body, all bodies together would exceed their limit.
    Full,
    /// The body was not complete in time.
    Slow {
        /// The time limit.
        after: Duration,
    },
    /// The client's connection broke, or the body's framing is wrong.
    Broken,
    /// The body is not in the encoding that `content-encoding` names.
    Packed {
        /// The encoding that the header names.
        encoding: &'static str,
    },
}

impl BodyError {
    /// Returns the HTTP status for this error.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Broken | Self::Packed { .. } => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => {
                write!(f, "the request body has more than the {limit} bytes that are allowed")
            }
            Self::Full => f.write_str("softland holds no more large requests for now: try again"),
            Self::Slow { after } => {
                write!(f, "the request body did not arrive within {after:?}")
            }
            Self::Broken => f.write_str("the request body broke off or is wrongly framed"),
            Self::Packed { encoding } => {
                write!(f, "the request body is not the {encoding} that content-encoding says")
            }
        }
    }
}

impl std::error::Error for BodyError {}

/// Reads a whole request body. The body takes its share of the memory of all bodies.
///
/// # Errors
/// Returns an error if the body is too large, too slow, broken or wrongly encoded. Sizes are
/// checked while it arrives.
pub(crate) async fn read_body(
    incoming: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
    share: &mut BudgetShare,
) -> Result<ReadBody, BodyError> {
    let after = limits.body_time;
    let collected =
        tokio::time::timeout(after, collect_body(incoming, headers, limits.body, share));
    let bytes = collected.await.map_err(|_| BodyError::Slow { after })??;
    unpack_body(bytes, headers, limits.body, share).await
}

async fn collect_body(
    mut incoming: Incoming,
    headers: &HeaderMap,
    limit: usize,
    share: &mut BudgetShare,
) -> Result<Bytes, BodyError> {
    let too_large = BodyError::TooLarge { limit };
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large);
    }
    let Some(first) = next_piece(&mut incoming).await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large);
    }
    share.grow_to(first.len())?;
    if incoming.is_end_stream() {
        // A small body is a slice of the connection's buffer, which it would keep from being
        // reused.
        let small = first.len() <= SMALL;
        return Ok(if small { Bytes::copy_from_slice(&first) } else { first });
    }
    let rest = usize::try_from(incoming.size_hint().lower()).unwrap_or(limit);
    // Memory that has not been written to is not taken, and a client that promises much may send
    // nothing.
    let mut bytes = Vec::with_capacity((first.len() + rest.min(limit)).min(limit));
    bytes.extend_from_slice(&first);
    while let Some(next) = next_piece(&mut incoming).await? {
        if bytes.len() + next.len() > limit {
            return Err(too_large);
        }
        share.grow_to(bytes.len() + next.len())?;
        make_room(&mut bytes, next.len(), limit);
        bytes.extend_from_slice(&next);
    }
    Ok(bytes.into())
}

/// Makes room for `more` further bytes. A large buffer grows in few, large steps: memory that has
/// not been written to is not taken, while a copy from one buffer to the next needs both.
fn make_room(bytes: &mut Vec<u8>, more: usize, limit: usize) {
    if bytes.capacity() - bytes.len() >= more {
        return;
    }
    let times = if bytes.len() < LARGE { 2 } else { 8 };
    let room = (times * bytes.len()).max(FIRST).min(limit.saturating_add(1));
    bytes.reserve_exact(room.saturating_sub(bytes.len()).max(more));
}

/// Returns the next bytes, ignoring trailers; `None` at the end.
async fn next_piece(incoming: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Decompresses a body as its `content-encoding` says.
pub(super) async fn unpack_body(
    bytes: Bytes,
    headers: &HeaderMap,
    limit: usize,
    share: &mut BudgetShare,
) -> Result<ReadBody, BodyError> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let Some(encoding) = encodings.next() else { return Ok(ReadBody::Plain(bytes)) };
    let encoding = encoding.to_str().unwrap_or("(not text)").trim();
    if encodings.next().is_some() {
        return Ok(ReadBody::Opaque { bytes, encoding: format!("{encoding} and others") });
    }
    let unpacked = match encoding.to_ascii_lowercase().as_str() {
        "" | "identity" => bytes,
        "gzip" | "x-gzip" => {
            let mut decoder = GzipDecoder::new(&*bytes);
            // One body may have several members, as RFC 1952 §2.2 allows.
            decoder.multiple_members(true);
            inflate_body(decoder, "gzip", limit, (bytes.len(), share)).await?
        }
        "zstd" => {
            let mut decoder = ZstdDecoder::new(&*bytes);
            decoder.multiple_members(true);
            inflate_body(decoder, "zstd", limit, (bytes.len(), share)).await?
        }
        other => return Ok(ReadBody::Opaque { encoding: other.to_owned(), bytes }),
    };
    Ok(ReadBody::Plain(unpacked))
}

async fn inflate_body(
    mut decoder: impl AsyncRead + Unpin,
    encoding: &'static str,
    limit: usize,
    (packed, share): (usize, &mut BudgetShare),
) -> Result<Bytes, BodyError> {
    let mut bytes = Vec::new();
    let mut since = 0;
    loop {
        make_room(&mut bytes, 1, limit);
        match decoder.read_buf(&mut bytes).await {
            Ok(0) => return Ok(bytes.into()),
            Ok(read) => since += read,
            Err(_) => return Err(BodyError::Packed { encoding }),
        }
        if bytes.len() > limit {
            return Err(BodyError::TooLarge { limit });
        }
        share.grow_to(packed + bytes.len())?;
        if since >= SLICE {
            since = 0;
            tokio::task::yield_now().await;
        }
    }
}
