//! The reading of a whole request body: within a size and a time, unpacked where it is packed.

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

use super::Share;
use crate::settings::Limits;

/// Bytes unpacked before other tasks get their turn.
const SLICE: usize = 256 << 10;
/// Bytes that a buffer has room for once it has to grow.
const FIRST: usize = 16 << 10;
/// Bytes from which on it is a large one.
const LARGE: usize = 1 << 20;
/// Bodies up to this size are copied out of the buffer that they were read into.
const SMALL: usize = 4 << 10;

/// A request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadBody {
    /// What the client means: as sent, or unpacked.
    Plain(Bytes),
    /// As sent, in an encoding that is not read here.
    Opaque {
        /// The bytes as sent.
        bytes: Bytes,
        /// The encoding, as the client names it.
        encoding: String,
    },
}

/// Why there is no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// More than the limit, unpacked.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// With it, all bodies together have more than they may.
    Full,
    /// Not there in time.
    Slow {
        /// The time.
        after: Duration,
    },
    /// The client's connection broke, or the body's framing is wrong.
    Broken,
    /// It is not what `content-encoding` says.
    Packed {
        /// What it says.
        encoding: &'static str,
    },
}

impl BodyError {
    /// The status that says so.
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
            Self::Full => f.write_str("softland holds as many large requests as it may: try again"),
            Self::Slow { after } => {
                write!(f, "the request body was not there within {after:?}")
            }
            Self::Broken => f.write_str("the request body broke off or is wrongly framed"),
            Self::Packed { encoding } => {
                write!(f, "the request body is not the {encoding} that content-encoding says")
            }
        }
    }
}

impl std::error::Error for BodyError {}

/// Reads a whole request body, which takes its share of what all may have.
///
/// # Errors
/// When it is larger, later or other than allowed. Sizes are checked while it comes in.
pub(crate) async fn read(
    incoming: Incoming,
    headers: &HeaderMap,
    limits: &Limits,
    share: &mut Share,
) -> Result<ReadBody, BodyError> {
    let after = limits.body_time;
    let collected = tokio::time::timeout(after, collect(incoming, headers, limits.body, share));
    let bytes = collected.await.map_err(|_| BodyError::Slow { after })??;
    unpack(bytes, headers, limits.body, share).await
}

async fn collect(
    mut incoming: Incoming,
    headers: &HeaderMap,
    limit: usize,
    share: &mut Share,
) -> Result<Bytes, BodyError> {
    let too_large = BodyError::TooLarge { limit };
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large);
    }
    let Some(first) = piece(&mut incoming).await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large);
    }
    share.grow(first.len())?;
    if incoming.is_end_stream() {
        // A small one is a slice of the connection's buffer, which it would keep from being used.
        let small = first.len() <= SMALL;
        return Ok(if small { Bytes::copy_from_slice(&first) } else { first });
    }
    let rest = usize::try_from(incoming.size_hint().lower()).unwrap_or(limit);
    // Memory that nobody has written to yet is not taken, and who promises much may send nothing.
    let mut bytes = Vec::with_capacity((first.len() + rest.min(limit)).min(limit));
    bytes.extend_from_slice(&first);
    while let Some(next) = piece(&mut incoming).await? {
        if bytes.len() + next.len() > limit {
            return Err(too_large);
        }
        share.grow(bytes.len() + next.len())?;
        make_room(&mut bytes, next.len(), limit);
        bytes.extend_from_slice(&next);
    }
    Ok(bytes.into())
}

/// Room for so many bytes more. A large buffer grows in few and long steps: memory that nobody has
/// written to is not taken, while what is copied from one buffer to the next is there twice.
fn make_room(bytes: &mut Vec<u8>, more: usize, limit: usize) {
    if bytes.capacity() - bytes.len() >= more {
        return;
    }
    let times = if bytes.len() < LARGE { 2 } else { 8 };
    let room = (times * bytes.len()).max(FIRST).min(limit.saturating_add(1));
    bytes.reserve_exact(room.saturating_sub(bytes.len()).max(more));
}

/// The next bytes; trailers are not looked at.
async fn piece(incoming: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// The body behind its `content-encoding`.
pub(super) async fn unpack(
    bytes: Bytes,
    headers: &HeaderMap,
    limit: usize,
    share: &mut Share,
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
            // One body may be several members, as RFC 1952 §2.2 has it.
            decoder.multiple_members(true);
            inflate(decoder, "gzip", limit, (bytes.len(), share)).await?
        }
        "zstd" => {
            let mut decoder = ZstdDecoder::new(&*bytes);
            decoder.multiple_members(true);
            inflate(decoder, "zstd", limit, (bytes.len(), share)).await?
        }
        other => return Ok(ReadBody::Opaque { encoding: other.to_owned(), bytes }),
    };
    Ok(ReadBody::Plain(unpacked))
}

async fn inflate(
    mut decoder: impl AsyncRead + Unpin,
    encoding: &'static str,
    limit: usize,
    (packed, share): (usize, &mut Share),
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
        share.grow(packed + bytes.len())?;
        if since >= SLICE {
            since = 0;
            tokio::task::yield_now().await;
        }
    }
}
