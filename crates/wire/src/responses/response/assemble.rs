//! Folding the events of a stream into a response.

use std::{collections::BTreeMap, mem};

use super::{
    Failure, Response, Status,
    item::{OutputItem, OutputKind, Texts},
    whole_items,
};
use crate::{
    bound::{AssembleError, Bound},
    json::{Cursor, Str},
    responses::stream::{
        Channel, Event, EventKind, Phase, Snapshot, StreamItem, StreamItemKind, stream_item,
    },
    tokens::Tokens,
};

/// Folds events into a [`Response`], within a bound.
///
/// Items are told apart by `output_index`; what counts of one is what its `output_item.done` says.
/// Broken upstreams are met with the least loss:
/// - A second `response.created` before any item is the same response announced again. Behind items
///   it is a second response spliced into the stream: its items are appended behind those there
///   are, and so are items whose index begins a second time. Both count in
///   [`Finished::restarts`].
/// - An item that is done without having begun is taken as it is. Text or reasoning for an index
///   that never began opens an item and counts in [`Finished::strays`], as does any piece that has
///   no place; the latter is left out.
/// - Where no item came, or one was not done, the output of the terminal event stands in.
/// - What follows the terminal event is left out and counts as stray, but for a restart and for
///   pings. Behind an `error` event, `response.failed` still says what was used.
#[derive(Clone, Debug)]
pub struct Assembler {
    response: Response,
    open: Vec<Building>,
    /// Position in `open` of the newest item of each index.
    by_index: BTreeMap<u32, usize>,
    end: End,
    /// Whether a terminal event came.
    closed: bool,
    started: bool,
    restarts: u32,
    strays: u32,
    /// Bytes of what the model wrote, as it came.
    written: usize,
    bound: Bound,
}

/// An item under way.
#[derive(Clone, Debug)]
struct Building {
    index: u32,
    /// The item as it began.
    begun: String,
    pieces: BTreeMap<(Channel, u32), String>,
    whole: Option<OutputItem>,
    /// Bytes counted for it.
    bytes: usize,
}

/// A stream folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The response, as far as it came.
    pub response: Response,
    /// How the stream ended.
    pub end: End,
    /// How often the stream began anew.
    pub restarts: u32,
    /// How many events had no place.
    pub strays: u32,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With `response.completed` or `response.incomplete`.
    Stop,
    /// Without a terminal event: the connection was cut.
    Cut,
    /// With an `error` event or `response.failed`.
    Error(Failure),
}

/// What an item or a piece costs in memory beside its text, counted against the limit.
const ITEM_COST: usize = 256;

impl Assembler {
    /// An assembler for responses of at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            response: Response::default(),
            open: Vec::new(),
            by_index: BTreeMap::new(),
            end: End::Cut,
            closed: false,
            started: false,
            restarts: 0,
            strays: 0,
            written: 0,
            bound: Bound::new(limit_bytes),
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`AssembleError`], again at every later call; the response stays as it was before.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), AssembleError> {
        self.bound.check()?;
        if self.is_late(&event.kind) {
            self.strays += 1;
            return Ok(());
        }
        let placed = match &event.kind {
            EventKind::Response { phase, response } => {
                self.snapshot(*phase, response)?;
                true
            }
            EventKind::ItemAdded(item) => match event.output_index {
                Some(index) => {
                    if let StreamItemKind::Other { kind, .. } = item.kind {
                        self.response.usage.tokens.beside.count(&kind.unescape());
                    }
                    self.restarts += u32::from(self.by_index.contains_key(&index));
                    self.begin(index, item.raw)?;
                    true
                }
                None => false,
            },
            EventKind::ItemDone(item) => match event.output_index {
                Some(index) => self.done(index, item)?,
                None => false,
            },
            EventKind::Delta { channel, at, text } => {
                self.piece(event.output_index, (*channel, *at), *text, false)?
            }
            EventKind::Done { channel, at, text } => {
                self.piece(event.output_index, (*channel, *at), *text, true)?
            }
            EventKind::Error(error) => {
                let failure = Failure::new(error);
                self.bound.grow(failure.kind.len() + failure.code.len() + failure.message.len())?;
                self.end = End::Error(failure);
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

    /// Whether a terminal event or an `error` event came.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end != End::Cut
    }

    /// What the response has cost so far, for one that may never end: the tokens it reports, and of
    /// the output at least one for four bytes that came, since usage is reported at the end.
    #[must_use]
    pub fn so_far(&self) -> Tokens {
        let reported = self.response.usage.tokens;
        if self.closed || !self.started {
            return reported;
        }
        Tokens { output: reported.output.max(self.written as u64 / 4), ..reported }
    }

    /// The response as far as it came. To be called at the end of the stream, however it ended.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.response.items = mem::take(&mut self.open).into_iter().map(Building::finish).collect();
        self.response.settle();
        Finished {
            response: self.response,
            end: self.end,
            restarts: self.restarts,
            strays: self.strays,
        }
    }

    fn is_late(&self, event: &EventKind<'_>) -> bool {
        if self.end == End::Cut {
            return false;
        }
        match event {
            EventKind::Ping | EventKind::Response { phase: Phase::Created, .. } => false,
            EventKind::Response { phase, .. } => self.closed || !phase.is_last(),
            _ => true,
        }
    }

    fn snapshot(&mut self, phase: Phase, found: &Snapshot<'_>) -> Result<(), AssembleError> {
        // The one there is, is replaced.
        self.bound.shrink(self.response.raw.len());
        self.bound.grow(found.raw.len())?;
        if phase == Phase::Created {
            if self.started {
                self.restarts += 1;
                self.by_index.clear();
                self.end = End::Cut;
                self.closed = false;
                self.response.error = None;
            }
            self.started = true;
        }
        self.response.update(found);
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
        // An error before it says more than the failure that it caused.
        if self.end == End::Cut {
            self.end = match phase {
                Phase::Failed => End::Error(self.response.error.clone().unwrap_or_default()),
                _ => End::Stop,
            };
        }
        self.stand_in(found.output)
    }

    /// Takes from the terminal event what did not come before it.
    fn stand_in(&mut self, output: &str) -> Result<(), AssembleError> {
        if self.open.iter().all(|item| item.whole.is_some()) && !self.open.is_empty() {
            return Ok(());
        }
        self.bound.grow(output.len())?;
        let listed = whole_items(output);
        if self.open.is_empty() {
            for (index, item) in (0..).zip(listed) {
                self.written += item.raw.len();
                let begun = String::new();
                let pieces = BTreeMap::new();
                self.open.push(Building { index, begun, pieces, whole: Some(item), bytes: 0 });
            }
            return Ok(());
        }
        for building in self.open.iter_mut().filter(|building| building.whole.is_none()) {
            let at = usize::try_from(building.index).ok();
            let item = at.and_then(|at| listed.get(at));
            building.whole = item.filter(|item| building.is_like(item)).cloned();
        }
        Ok(())
    }

    fn begin(&mut self, index: u32, begun: &str) -> Result<(), AssembleError> {
        let bytes = begun.len() + ITEM_COST;
        self.bound.grow(bytes)?;
        self.by_index.insert(index, self.open.len());
        let (begun, pieces) = (begun.to_owned(), BTreeMap::new());
        self.open.push(Building { index, begun, pieces, whole: None, bytes });
        Ok(())
    }

    /// Ends an item. False if the very same one had ended before.
    fn done(&mut self, index: u32, item: &StreamItem<'_>) -> Result<bool, AssembleError> {
        let at = self.by_index.get(&index).copied();
        let known = at.and_then(|at| self.open.get(at));
        let ended = known.and_then(|building| building.whole.as_ref());
        if ended.is_some_and(|whole| whole.raw == item.raw) {
            return Ok(false);
        }
        // What was gathered of it goes as the whole comes: text and raw.
        let gathered = known.filter(|_| ended.is_none());
        let freed = gathered.map_or(0, |building| building.bytes);
        let silent = gathered.is_none_or(|building| building.pieces.is_empty());
        let again = ended.is_some();
        let bytes = 2 * item.raw.len() + ITEM_COST;
        self.bound.grow(bytes.saturating_sub(freed))?;
        self.bound.shrink(freed.saturating_sub(bytes));
        self.written += if silent { item.raw.len() } else { 0 };
        self.restarts += u32::from(again);
        let whole = Some(OutputItem::whole(item));
        let building =
            Building { index, begun: String::new(), pieces: BTreeMap::new(), whole, bytes };
        match at.filter(|_| !again).and_then(|at| self.open.get_mut(at)) {
            Some(open) => *open = building,
            None => {
                self.by_index.insert(index, self.open.len());
                self.open.push(building);
            }
        }
        Ok(true)
    }

    /// Adds a piece to its item, or puts the whole in the pieces' place. False if it has no place.
    fn piece(
        &mut self,
        index: Option<u32>,
        (channel, at): (Channel, u32),
        text: Str<'_>,
        whole: bool,
    ) -> Result<bool, AssembleError> {
        let Some(index) = index else { return Ok(false) };
        let known = self.by_index.contains_key(&index);
        if !known {
            let Some(begun) = begun_by(channel) else { return Ok(false) };
            self.begin(index, begun)?;
        }
        let Some(position) = self.by_index.get(&index).copied() else { return Ok(false) };
        let Some(building) = self.open.get(position) else { return Ok(false) };
        if building.whole.is_some() {
            return Ok(false);
        }
        let new = !building.pieces.contains_key(&(channel, at));
        let bytes = text.raw().len() + if new { ITEM_COST } else { 0 };
        self.bound.grow(bytes)?;
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

/// The item that a piece opens which no item announced.
const fn begun_by(channel: Channel) -> Option<&'static str> {
    match channel {
        Channel::Text | Channel::Refusal => {
            Some(r#"{"type":"message","role":"assistant","content":[]}"#)
        }
        Channel::Summary | Channel::Reasoning => Some(r#"{"type":"reasoning","summary":[]}"#),
        Channel::Arguments | Channel::Input => None,
    }
}

impl Building {
    /// Whether `item` is the one that began.
    fn is_like(&self, item: &OutputItem) -> bool {
        let Ok(begun) = stream_item(&mut Cursor::new(&self.begun)) else { return false };
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

    fn finish(self) -> OutputItem {
        let Self { begun, pieces, whole, .. } = self;
        if let Some(item) = whole {
            return item;
        }
        let (mut texts, mut streamed) = (Texts::default(), String::new());
        for ((channel, _), piece) in pieces {
            match channel {
                Channel::Text => texts.text.push_str(&piece),
                Channel::Refusal => texts.refusal.get_or_insert_default().push_str(&piece),
                Channel::Reasoning => texts.reasoning.push_str(&piece),
                Channel::Summary => {
                    texts.next_summary();
                    texts.summary.push_str(&piece);
                }
                Channel::Arguments | Channel::Input => streamed.push_str(&piece),
            }
        }
        // What began was scanned when it came, so this reads it again.
        match stream_item(&mut Cursor::new(&begun)) {
            Ok(item) => OutputItem::cut(&item, texts, streamed),
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
