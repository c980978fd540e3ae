//! The shaping policy: decides what passes, what is held, what is dropped, and when to stop.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    mem,
};

use super::{
    MAX_TAG, PartialBlocks, Shape, ShapeError, ShapeSummary, ShapedPiece, StopAfter, StopReason,
    body::count_nested_openings,
    markup::{View, count_examined},
    scan::{BlockPosition, Scanner, Token},
};

/// Shapes the text of a response. See the [module](super) for the rules.
///
/// ```
/// use softland_wire::tags::{Shape, ShapedPiece, Shaper, Tags};
///
/// let mut shape = Shape::watch_only(Tags::new(["use_tool"])?);
/// shape.suppress_tail = true;
/// let mut shaper = Shaper::new(shape);
/// let (mut sent, mut calls) = (String::new(), 0);
/// let mut take = |piece: ShapedPiece<'_>| {
///     sent.push_str(piece.forward_text().unwrap_or_default());
///     calls += usize::from(matches!(piece, ShapedPiece::Block(_)));
/// };
/// for delta in ["Let me see. <use_", "tool name=\"ls\">{}</use_tool>", "\nIt says: a, b"] {
///     shaper.push(delta, &mut take)?;
/// }
/// let summary = shaper.finish(&mut take)?;
/// assert_eq!(sent, "Let me see. <use_tool name=\"ls\">{}</use_tool>");
/// assert_eq!((calls, summary.dropped_bytes), (1, 14));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shaper {
    shape: Shape,
    scanner: Scanner,
    /// The text that is held back, from `sent` on.
    held: String,
    /// Offset up to which the text was returned or dropped.
    sent: usize,
    /// The number of complete blocks, including repeated ones.
    closed: u32,
    seen: SeenBlocks,
    /// The time of the last [`tick`](Self::tick), milliseconds.
    now_ms: u64,
    /// The time at which the last block was complete, milliseconds.
    closed_ms: u64,
    summary: ShapeSummary,
    failed: Option<ShapeError>,
    ended: bool,
}

/// The lowest limit. Lower ones would be exceeded by text that only might be a tag.
const MIN_HELD: usize = 4 * MAX_TAG;

/// The receiver of pieces.
type Sink<'s> = &'s mut dyn FnMut(ShapedPiece<'_>);

impl Shaper {
    /// Creates a shaper for a response.
    #[must_use]
    pub const fn new(mut shape: Shape) -> Self {
        // Text held to tell a tag from text does not count against the limit.
        if shape.held_limit < MIN_HELD {
            shape.held_limit = MIN_HELD;
        }
        Self {
            shape,
            scanner: Scanner::new(),
            held: String::new(),
            sent: 0,
            closed: 0,
            seen: SeenBlocks { texts: BTreeMap::new(), bytes: 0 },
            now_ms: 0,
            closed_ms: 0,
            summary: ShapeSummary {
                calls: 0,
                repeated: 0,
                partial: false,
                echo: false,
                dropped_bytes: 0,
                stop: None,
            },
            failed: None,
            ended: false,
        }
    }

    /// Takes the next text. After a [`ShapedPiece::Stop`] it is dropped and counted. After
    /// [`finish`](Self::finish) it is ignored.
    ///
    /// # Errors
    /// Returns [`ShapeError`], and again at every later call.
    pub fn push(&mut self, text: &str, sink: Sink<'_>) -> Result<(), ShapeError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.ended {
            return Ok(());
        }
        if self.held.is_empty() {
            let done = self.process_view(View { text, base: self.sent }, false, sink);
            self.held.push_str(text.get(done..).unwrap_or_default());
            count_examined(self.held.len());
        } else {
            let mut held = mem::take(&mut self.held);
            held.push_str(text);
            let done = self.process_view(View { text: &held, base: self.sent }, false, sink);
            held.drain(..done);
            if done > 0 {
                count_examined(held.len());
            }
            self.held = held;
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Sets the current time, in milliseconds of any monotonic clock. Only [`StopAfter::Burst`]
    /// uses it. Call this before each [`push`](Self::push) and when
    /// [`deadline_ms`](Self::deadline_ms) has come.
    pub fn tick(&mut self, now_ms: u64, sink: Sink<'_>) {
        self.now_ms = self.now_ms.max(now_ms);
        let over = self.deadline_ms().is_some_and(|deadline| deadline <= self.now_ms);
        if over && !self.ended && self.failed.is_none() {
            let held = mem::take(&mut self.held);
            self.stop_response(StopReason::Burst, self.sent + held.len(), sink);
        }
    }

    /// Returns the time at which the response must be ended if no further block begins, on the
    /// clock of [`tick`](Self::tick).
    #[must_use]
    pub const fn deadline_ms(&self) -> Option<u64> {
        match self.shape.stop_after {
            StopAfter::Burst { burst_ms }
                if self.closed > 0
                    && self.summary.stop.is_none()
                    && self.scanner.open_block().is_none() =>
            {
                Some(self.closed_ms.saturating_add(burst_ms))
            }
            _ => None,
        }
    }

    /// Returns the number of bytes held back. While it is not zero, the client needs keepalives.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Marks the end of one text of the response; another may follow. An open block ends with it.
    /// What was learned about the response stays.
    ///
    /// # Errors
    /// Returns the [`ShapeError`] that ended reading.
    pub fn end_text(&mut self, sink: Sink<'_>) -> Result<(), ShapeError> {
        if !self.ended && self.failed.is_none() {
            let held = mem::take(&mut self.held);
            let view = View { text: &held, base: self.sent };
            self.process_view(view, true, sink);
            if self.failed.is_none() && self.summary.stop.is_none() {
                self.close_text(view, sink);
            }
            self.sent = 0;
            self.scanner = Scanner::new();
            self.scanner.marks = self.closed > 0 && !self.summary.echo;
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Marks the end of the response, complete or cut, and returns what is left.
    ///
    /// # Errors
    /// Returns the [`ShapeError`] that ended reading.
    pub fn finish(&mut self, sink: Sink<'_>) -> Result<ShapeSummary, ShapeError> {
        self.end_text(sink)?;
        if !self.ended && self.summary.dropped_bytes > 0 {
            sink(ShapedPiece::Trimmed { bytes: self.summary.dropped_bytes });
        }
        self.ended = true;
        Ok(self.summary)
    }

    /// Processes the available text. Returns the number of bytes that were returned or dropped.
    fn process_view(&mut self, view: View<'_>, end: bool, sink: Sink<'_>) -> usize {
        while self.summary.stop.is_none() && self.failed.is_none() {
            let Some(token) = self.scanner.next_token(view, &self.shape.tags, end) else { break };
            match token {
                Token::Opened { start } => self.handle_opened(view, start, sink),
                Token::Closed(place) => self.handle_closed(view, place, sink),
                Token::Mark { at, length } => self.handle_echo(view, at, length, sink),
            }
        }
        if self.failed.is_some() {
            return 0;
        }
        if self.summary.stop.is_some() {
            self.drop_to(view.end());
        } else if !self.holds_tail() {
            self.forward_to(view, self.scanner.safe_end(), sink);
        }
        self.check_held(view.end());
        self.sent - view.base
    }

    /// Returns true if text is held back because a block before it is complete.
    const fn holds_tail(&self) -> bool {
        self.shape.suppress_tail && self.closed > 0
    }

    fn handle_opened(&mut self, view: View<'_>, start: usize, sink: Sink<'_>) {
        if !self.holds_tail() {
            self.forward_to(view, start, sink);
        }
        let name = view.get(start + 1, view.end());
        let of = |tag: &&String| name.starts_with(tag.as_str());
        // The longest match, because one name may be a prefix of another.
        let tag = self.shape.tags.names().iter().filter(of).max_by_key(|tag| tag.len());
        sink(ShapedPiece::Opened { tag: tag.map_or("", String::as_str) });
    }

    fn handle_closed(&mut self, view: View<'_>, place: BlockPosition, sink: Sink<'_>) {
        self.check_held(place.end);
        if self.failed.is_some() {
            return;
        }
        let block = place.slice_block(view);
        let repeated = self.shape.drop_repeated && self.seen.record_text(block.raw);
        if self.shape.drop_repeated && self.seen.bytes > self.shape.held_limit {
            self.failed = Some(ShapeError::Kept { limit: self.shape.held_limit });
            return;
        }
        self.forward_to(view, place.start, sink);
        self.sent = place.end;
        self.closed = self.closed.saturating_add(1);
        self.closed_ms = self.now_ms;
        self.scanner.marks = !self.summary.echo;
        if repeated {
            self.summary.repeated = self.summary.repeated.saturating_add(1);
            sink(ShapedPiece::Repeated(block));
            return;
        }
        self.summary.calls = self.summary.calls.saturating_add(1);
        sink(ShapedPiece::Block(block));
        let full = self.shape.max_tools.is_some_and(|max| self.summary.calls >= max.get());
        if self.shape.stop_after == StopAfter::First {
            self.stop_response(StopReason::First, view.end(), sink);
        } else if full {
            self.stop_response(StopReason::MaxTools, view.end(), sink);
        }
    }

    fn handle_echo(&mut self, view: View<'_>, at: usize, length: usize, sink: Sink<'_>) {
        self.summary.echo = true;
        if !self.holds_tail() {
            self.forward_to(view, at, sink);
        }
        sink(ShapedPiece::Echo { mark: view.get(at, at + length) });
        if self.shape.stop_at_echo {
            self.stop_response(StopReason::Echo, view.end(), sink);
        }
    }

    /// Handles the end of the text: its last block may be open, its tail may be suppressed.
    fn close_text(&mut self, view: View<'_>, sink: Sink<'_>) {
        let suppressed = self.holds_tail();
        let Some((start, opened)) = self.scanner.open_block() else {
            if !suppressed {
                self.forward_to(view, view.end(), sink);
            }
            return self.drop_to(view.end());
        };
        if !suppressed {
            self.forward_to(view, start, sink);
        }
        let passed = !suppressed && self.shape.partial == PartialBlocks::Pass;
        let raw = view.get(start, view.end());
        let nested = count_nested_openings(view.get(opened, view.end()), &self.shape.tags);
        self.summary.partial = true;
        sink(ShapedPiece::Partial { raw, nested, passed });
        if passed {
            self.sent = view.end();
        }
        self.drop_to(view.end());
    }

    fn stop_response(&mut self, reason: StopReason, end: usize, sink: Sink<'_>) {
        self.summary.stop = Some(reason);
        sink(ShapedPiece::Stop(reason));
        self.drop_to(end);
    }

    fn forward_to(&mut self, view: View<'_>, to: usize, sink: Sink<'_>) {
        let text = view.get(self.sent, to);
        if !text.is_empty() {
            sink(ShapedPiece::Text(text));
            self.sent = to;
        }
    }

    const fn drop_to(&mut self, end: usize) {
        self.summary.dropped_bytes += end.saturating_sub(self.sent) as u64;
        self.sent = end;
    }

    /// Fails if the text up to `end` must be held and exceeds the limit.
    const fn check_held(&mut self, end: usize) {
        if end.saturating_sub(self.sent) > self.shape.held_limit && self.failed.is_none() {
            self.failed = Some(ShapeError::Held { limit: self.shape.held_limit });
        }
    }
}

/// The texts of earlier blocks by hash, so that a lookup costs time linear in the text looked up.
#[derive(Clone, Debug)]
struct SeenBlocks {
    texts: BTreeMap<u64, Vec<Box<str>>>,
    bytes: usize,
}

impl SeenBlocks {
    /// Records the text. Returns true if it was recorded before.
    fn record_text(&mut self, text: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let same = self.texts.entry(hasher.finish()).or_default();
        if same.iter().any(|known| **known == *text) {
            return true;
        }
        same.push(text.into());
        self.bytes += text.len();
        false
    }
}
