//! Assembling the events of a stream into a response.

use std::{collections::BTreeMap, mem};

use super::{
    Failure, Response, Status,
    item::{ItemTexts, OutputItem, OutputKind},
    read_whole_items,
};
use crate::{
    bound::{AssembleError, SizeBound},
    json::{Cursor, Str},
    responses::stream::{
        Channel, Event, EventKind, Phase, Snapshot, StreamItem, StreamItemKind, read_stream_item,
    },
    tokens::Tokens,
};

/// Assembles events into a [`Response`], within a size limit.
///
/// Items are identified by `output_index`. The content of an item is that of its
/// `output_item.done`.
/// Broken upstreams are handled with the least loss:
/// - A second `response.created` before any item announces the same response again. After items it
///   is a second response spliced into the stream: its items are appended to the existing ones, and
///   so are items with an index that begins a second time. Both count in [`Finished::restarts`].
/// - An item that is done without having begun is accepted. Text or reasoning for an index that
///   never began opens an item and counts in [`Finished::strays`]. Any other piece that fits
///   nowhere is left out and counts there too.
/// - If no item came, or one was not done, the output of the terminal event fills the gap.
/// - Anything after the terminal event is left out and counts as stray, except for a restart and
///   for pings. After an `error` event, `response.failed` still states the usage.
#[derive(Clone, Debug)]
pub struct Assembler {
    response: Response,
    open: Vec<OpenItem>,
    /// Position in `open` of the newest item of each index.
    by_index: BTreeMap<u32, usize>,
    end: StreamEnd,
    /// True if a terminal event arrived.
    closed: bool,
    started: bool,
    restarts: u32,
    strays: u32,
    /// The number of bytes that the model wrote, as received.
    written: usize,
    bound: SizeBound,
}

/// An item that is being assembled.
#[derive(Clone, Debug)]
struct OpenItem {
    index: u32,
    /// The item as it started.
    begun: String,
    pieces: BTreeMap<(Channel, u32), String>,
    whole: Option<OutputItem>,
    /// Bytes counted for the item.
    bytes: usize,
}

/// The result of assembling a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The response, as far as it arrived.
    pub response: Response,
    /// The end of the stream.
    pub end: StreamEnd,
    /// The number of restarts of the stream.
    pub restarts: u32,
    /// The number of events that fit nowhere.
    pub strays: u32,
}

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Ended by `response.completed` or `response.incomplete`.
    Stop,
    /// Ended without a terminal event: the connection was cut.
    Cut,
    /// Ended by an `error` event or `response.failed`.
    Error(Failure),
}

/// The memory cost of an item or a piece beside its text, counted against the limit.
const ITEM_COST: usize = 256;

impl Assembler {
    /// Creates an assembler for responses of at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            response: Response::default(),
            open: Vec::new(),
            by_index: BTreeMap::new(),
            end: StreamEnd::Cut,
            closed: false,
            started: false,
            restarts: 0,
            strays: 0,
            written: 0,
            bound: SizeBound::new(limit_bytes),
        }
    }

    /// Adds the next event.
    ///
    /// # Errors
    /// Returns [`AssembleError`], and again at every later call. The response stays as it was
    /// before.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), AssembleError> {
        self.bound.check_failure()?;
        if self.is_late(&event.kind) {
            self.strays += 1;
            return Ok(());
        }
        let placed = match &event.kind {
            EventKind::Response { phase, response } => {
                self.apply_snapshot(*phase, response)?;
                true
            }
            EventKind::ItemAdded(item) => match event.output_index {
                Some(index) => {
                    if let StreamItemKind::Other { kind, .. } = item.kind {
                        self.response.usage.tokens.beside.count_item(&kind.unescape());
                    }
                    self.restarts += u32::from(self.by_index.contains_key(&index));
                    self.begin_item(index, item.raw)?;
                    true
                }
                None => false,
            },
            EventKind::ItemDone(item) => match event.output_index {
                Some(index) => self.end_item(index, item)?,
                None => false,
            },
            EventKind::Delta { channel, at, text } => {
                self.add_piece(event.output_index, (*channel, *at), *text, false)?
            }
            EventKind::Done { channel, at, text } => {
                self.add_piece(event.output_index, (*channel, *at), *text, true)?
            }
            EventKind::Error(error) => {
                let failure = Failure::new(error);
                self.bound
                    .add_bytes(failure.kind.len() + failure.code.len() + failure.message.len())?;
                self.end = StreamEnd::Error(failure);
                true
            }
            EventKind::PartAdded { .. }
            | EventKind::PartDone { .. }
            | EventKind::Annotation
            | EventKind::Progress { .. }
            | EventKind::Ping
            | EventKind::Unknown { .. } => true,
        };
        self.strays += u32::from(!placed);
        Ok(())
    }

    /// Returns true if a terminal event or an `error` event arrived.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end != StreamEnd::Cut
    }

    /// Returns the tokens of the response so far, for a response that may never end: the tokens it
    /// reports, but at least one output token for each four bytes that arrived, since usage is
    /// reported at the end.
    #[must_use]
    pub fn tokens_so_far(&self) -> Tokens {
        let reported = self.response.usage.tokens;
        if self.closed || !self.started {
            return reported;
        }
        Tokens { output: reported.output.max(self.written as u64 / 4), ..reported }
    }

    /// Returns the response as far as it arrived. Call this at the end of the stream, however it
    /// ended.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.response.items =
            mem::take(&mut self.open).into_iter().map(OpenItem::into_item).collect();
        self.response.settle_calls();
        Finished {
            response: self.response,
            end: self.end,
            restarts: self.restarts,
            strays: self.strays,
        }
    }

    fn is_late(&self, event: &EventKind<'_>) -> bool {
        if self.end == StreamEnd::Cut {
            return false;
        }
        match event {
            EventKind::Ping | EventKind::Response { phase: Phase::Created, .. } => false,
            EventKind::Response { phase, .. } => self.closed || !phase.is_last(),
            _ => true,
        }
    }

    fn apply_snapshot(&mut self, phase: Phase, found: &Snapshot<'_>) -> Result<(), AssembleError> {
        // The previous object is replaced.
        self.bound.remove_bytes(self.response.raw.len());
        self.bound.add_bytes(found.raw.len())?;
        if phase == Phase::Created {
            if self.started {
                self.restarts += 1;
                self.by_index.clear();
                self.end = StreamEnd::Cut;
                self.closed = false;
                self.response.error = None;
            }
            self.started = true;
        }
        self.response.apply_snapshot(found);
        if !phase.is_last() {
            return Ok(());
        }
        if found.status.is_none() {
            self.response.status = Some(match phase {
                Phase::Incomplete => Status::Incomplete,
                Phase::Failed => Status::Failed,
                _ => Status::Completed,
            });
        }
        self.closed = true;
        // An earlier error is more specific than the failure that it caused.
        if self.end == StreamEnd::Cut {
            self.end = match phase {
                Phase::Failed => StreamEnd::Error(self.response.error.clone().unwrap_or_default()),
                _ => StreamEnd::Stop,
            };
        }
        self.fill_missing_items(found.output)
    }

    /// Fills in items that are missing before the terminal event from its output.
    fn fill_missing_items(&mut self, output: &str) -> Result<(), AssembleError> {
        if self.open.iter().all(|item| item.whole.is_some()) && !self.open.is_empty() {
            return Ok(());
        }
        self.bound.add_bytes(output.len())?;
        let listed = read_whole_items(output);
        if self.open.is_empty() {
            for (index, item) in (0..).zip(listed) {
                self.written += item.raw.len();
                let begun = String::new();
                let pieces = BTreeMap::new();
                self.open.push(OpenItem { index, begun, pieces, whole: Some(item), bytes: 0 });
            }
            return Ok(());
        }
        for building in self.open.iter_mut().filter(|building| building.whole.is_none()) {
            let at = usize::try_from(building.index).ok();
            let item = at.and_then(|at| listed.get(at));
            building.whole = item.filter(|item| building.is_same_item(item)).cloned();
        }
        Ok(())
    }

    fn begin_item(&mut self, index: u32, begun: &str) -> Result<(), AssembleError> {
        let bytes = begun.len() + ITEM_COST;
        self.bound.add_bytes(bytes)?;
        self.by_index.insert(index, self.open.len());
        let (begun, pieces) = (begun.to_owned(), BTreeMap::new());
        self.open.push(OpenItem { index, begun, pieces, whole: None, bytes });
        Ok(())
    }

    /// Ends an item. Returns false if an identical item ended before.
    fn end_item(&mut self, index: u32, item: &StreamItem<'_>) -> Result<bool, AssembleError> {
        let at = self.by_index.get(&index).copied();
        let known = at.and_then(|at| self.open.get(at));
        let ended = known.and_then(|building| building.whole.as_ref());
        if ended.is_some_and(|whole| whole.raw == item.raw) {
            return Ok(false);
        }
        // The pieces collected so far are dropped when the whole item arrives, which is stored
        // twice: as text and raw.
        let gathered = known.filter(|_| ended.is_none());
        let freed = gathered.map_or(0, |building| building.bytes);
        let silent = gathered.is_none_or(|building| building.pieces.is_empty());
        let again = ended.is_some();
        let bytes = 2 * item.raw.len() + ITEM_COST;
        self.bound.add_bytes(bytes.saturating_sub(freed))?;
        self.bound.remove_bytes(freed.saturating_sub(bytes));
        self.written += if silent { item.raw.len() } else { 0 };
        self.restarts += u32::from(again);
        let whole = Some(OutputItem::from_whole(item));
        let building =
            OpenItem { index, begun: String::new(), pieces: BTreeMap::new(), whole, bytes };
        match at.filter(|_| !again).and_then(|at| self.open.get_mut(at)) {
            Some(open) => *open = building,
            None => {
                self.by_index.insert(index, self.open.len());
                self.open.push(building);
            }
        }
        Ok(true)
    }

    /// Adds a piece to its item, or replaces the pieces by the whole text. Returns false if it fits
    /// nowhere.
    fn add_piece(
        &mut self,
        index: Option<u32>,
        (channel, at): (Channel, u32),
        text: Str<'_>,
        whole: bool,
    ) -> Result<bool, AssembleError> {
        let Some(index) = index else { return Ok(false) };
        let known = self.by_index.contains_key(&index);
        if !known {
            let Some(begun) = find_implied_item(channel) else { return Ok(false) };
            self.begin_item(index, begun)?;
        }
        let Some(position) = self.by_index.get(&index).copied() else { return Ok(false) };
        let Some(building) = self.open.get(position) else { return Ok(false) };
        if building.whole.is_some() {
            return Ok(false);
        }
        let new = !building.pieces.contains_key(&(channel, at));
        let bytes = text.raw().len() + if new { ITEM_COST } else { 0 };
        self.bound.add_bytes(bytes)?;
        let Some(building) = self.open.get_mut(position) else { return Ok(false) };
        building.bytes += bytes;
        let piece = building.pieces.entry((channel, at)).or_default();
        if !whole || new {
            self.written += text.raw().len();
        }
        if whole {
            piece.clear();
        }
        text.push_to(piece);
        Ok(known)
    }
}

/// Returns the item to open for a piece that no item announced.
const fn find_implied_item(channel: Channel) -> Option<&'static str> {
    match channel {
        Channel::Text | Channel::Refusal => {
            Some(r#"{"type":"message","role":"assistant","content":[]}"#)
        }
        Channel::Summary | Channel::Reasoning => Some(r#"{"type":"reasoning","summary":[]}"#),
        Channel::Arguments | Channel::Input => None,
    }
}

impl OpenItem {
    /// Returns true if `item` is the one that began.
    fn is_same_item(&self, item: &OutputItem) -> bool {
        let Ok(begun) = read_stream_item(&mut Cursor::new(&self.begun)) else { return false };
        match (&begun.kind, &item.kind) {
            (StreamItemKind::Message { .. }, OutputKind::Message { .. })
            | (StreamItemKind::Reasoning { .. }, OutputKind::Reasoning { .. }) => true,
            (StreamItemKind::Call { call_id, .. }, OutputKind::Call { call_id: id, .. }) => {
                call_id.eq_str(id)
            }
            (StreamItemKind::Other { kind, .. }, OutputKind::Other { kind: other, .. }) => {
                kind.eq_str(other)
            }
            _ => false,
        }
    }

    fn into_item(self) -> OutputItem {
        let Self { begun, pieces, whole, .. } = self;
        if let Some(item) = whole {
            return item;
        }
        let (mut texts, mut streamed) = (ItemTexts::default(), String::new());
        for ((channel, _), piece) in pieces {
            match channel {
                Channel::Text => texts.text.push_str(&piece),
                Channel::Refusal => texts.refusal.get_or_insert_default().push_str(&piece),
                Channel::Reasoning => texts.reasoning.push_str(&piece),
                Channel::Summary => {
                    texts.start_summary_part();
                    texts.summary.push_str(&piece);
                }
                Channel::Arguments | Channel::Input => streamed.push_str(&piece),
            }
        }
        // The start was scanned when it arrived, so reading it again cannot fail.
        match read_stream_item(&mut Cursor::new(&begun)) {
            Ok(item) => OutputItem::from_cut(&item, texts, streamed),
            Err(_) => OutputItem {
                kind: OutputKind::Other { kind: String::new(), call_id: String::new() },
                id: String::new(),
                raw: begun,
                done: false,
                completed: false,
            },
        }
    }
}
