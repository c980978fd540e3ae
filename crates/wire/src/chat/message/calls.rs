//! Assigning the pieces of calls in a stream to their calls.
//!
//! OpenAI numbers its calls, and a piece belongs to the call of its index. Other vendors begin at
//! 1, give every call the index 0, give none, leave out ids, repeat names, or send whole calls. So
//! a known index may begin another call, and a piece without an index belongs to the call with its
//! id, or to the last call. A piece with neither id nor name continues a call or fits nowhere.
//!
//! - Another id, another name, or arguments after closed arguments begin another call.
//! - Two elements of the same list without index and id are two calls.
//! - A repeated name is the same name. A new id or index begins a call.

use std::collections::BTreeMap;

use super::{Call, CallKind};
use crate::{chat::chunk::CallDelta, json::Str};

/// The number of recent calls that are searched for an id if a piece has no index. The limit keeps
/// a hostile stream from costing more than linear time.
const SEARCHED: usize = 64;

/// The calls of a response that is being assembled.
#[derive(Clone, Debug, Default)]
pub(super) struct CallAssembler {
    list: Vec<OpenCall>,
    /// Position in `list` of the newest call of each index.
    by_index: BTreeMap<u32, usize>,
    legacy: Option<usize>,
    last_touched: usize,
    /// The number of lists of pieces received.
    lists: u64,
    /// The calls to which the pieces of the newest list were assigned.
    placed: Vec<Option<usize>>,
}

/// A call that is being assembled.
#[derive(Clone, Debug)]
struct OpenCall {
    call: Call,
    depth: JsonDepth,
    /// The last list that contained it.
    list: u64,
}

/// The nesting state of a JSON text that arrives in pieces and is not stored.
#[derive(Clone, Copy, Debug, Default)]
struct JsonDepth {
    open: u32,
    in_string: bool,
    escaped: bool,
    /// True if an object or list was opened and closed again.
    closed: bool,
}

impl CallAssembler {
    /// Adds the elements of a list of pieces. Returns the number of pieces that fit nowhere.
    pub(super) fn add_pieces(&mut self, pieces: &[CallDelta<'_>]) -> u32 {
        self.placed.clear();
        if pieces.is_empty() {
            return 0;
        }
        self.lists += 1;
        let mut strays = 0;
        for piece in pieces {
            let place = self.place_piece(piece);
            self.placed.push(place);
            match place {
                Some(at) => self.extend_call(at, piece),
                None => strays += 1,
            }
        }
        strays
    }

    /// Returns the positions of the calls to which the pieces of the newest list were assigned.
    pub(super) fn placed_calls(&self) -> &[Option<usize>] {
        &self.placed
    }

    /// Adds a piece of the deprecated `function_call`. A response has only one.
    pub(super) fn add_legacy_piece(&mut self, piece: &CallDelta<'_>) {
        let at = self.legacy.unwrap_or_else(|| self.begin_call(piece));
        self.legacy = Some(at);
        self.extend_call(at, piece);
        if let Some(building) = self.list.get_mut(at) {
            building.call.kind = CallKind::Legacy;
        }
    }

    /// Returns the calls, each checked. `cut` is true if the output was cut off.
    pub(super) fn into_calls(self, cut: bool) -> Vec<Call> {
        let (last, touched) = (self.list.len().saturating_sub(1), self.last_touched);
        let calls = self.list.into_iter().enumerate().map(|(at, mut building)| {
            building.call.close_with(cut && (at == last || at == touched));
            building.call
        });
        calls.collect()
    }

    /// Returns the position of the call to which a piece belongs, beginning a call if necessary.
    fn place_piece(&mut self, piece: &CallDelta<'_>) -> Option<usize> {
        let begins = piece.name.is_some() || piece.id.is_some();
        let known = if let Some(index) = piece.index {
            self.by_index.get(&index).copied()
        } else if let Some(id) = piece.id {
            let from = self.list.len().saturating_sub(SEARCHED);
            let recent = self.list.get(from..).unwrap_or_default();
            recent.iter().rposition(|building| id.eq_str(&building.call.id)).map(|at| from + at)
        } else {
            let last = self.list.len().checked_sub(1);
            let apart =
                |at: &usize| self.list.get(*at).is_some_and(|building| building.list == self.lists);
            last.filter(|at| !begins || !apart(at))
        };
        let goes_on =
            |at: &usize| self.list.get(*at).is_some_and(|call| !call.is_followed_by(piece));
        known.filter(goes_on).or_else(|| begins.then(|| self.begin_call(piece)))
    }

    fn begin_call(&mut self, piece: &CallDelta<'_>) -> usize {
        let at = self.list.len();
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        let call = Call { index: piece.index.unwrap_or(place), ..Call::default() };
        self.list.push(OpenCall { call, depth: JsonDepth::default(), list: self.lists });
        at
    }

    fn extend_call(&mut self, at: usize, piece: &CallDelta<'_>) {
        self.last_touched = at;
        if let Some(building) = self.list.get_mut(at) {
            building.list = self.lists;
            building.extend_with(piece);
        }
    }
}

impl OpenCall {
    /// Returns true if a piece that seems to belong to this call begins another one.
    fn is_followed_by(&self, piece: &CallDelta<'_>) -> bool {
        let differs = |new: Option<Str<'_>>, old: &str| {
            !old.is_empty() && new.is_some_and(|new| !new.eq_str(old))
        };
        let more = piece.object.is_some() || piece.arguments.is_some_and(|text| !text.is_blank());
        differs(piece.id, &self.call.id)
            || differs(piece.name, &self.call.name)
            || (piece.name.is_some() && self.depth.closed && more)
    }

    fn extend_with(&mut self, piece: &CallDelta<'_>) {
        let call = &mut self.call;
        let set = |target: &mut String, value: Option<Str<'_>>| {
            if let (true, Some(value)) = (target.is_empty(), value) {
                value.push_to(target);
            }
        };
        set(&mut call.id, piece.id);
        set(&mut call.name, piece.name);
        if piece.custom {
            call.kind = CallKind::Custom;
        }
        if let Some(more) = piece.arguments {
            let from = call.arguments.len();
            more.push_to(&mut call.arguments);
            self.depth.track_text(call.arguments.get(from..).unwrap_or_default());
        }
        if let Some(object) = piece.object {
            object.clone_into(&mut call.arguments);
            self.depth.closed = true;
        }
        for (name, value) in &piece.extra {
            call.extra.insert(name.unescape().into_owned(), (*value).to_owned());
        }
    }
}

impl JsonDepth {
    fn track_text(&mut self, piece: &str) {
        for byte in piece.bytes() {
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                self.escaped = byte == b'\\';
                self.in_string = byte != b'"';
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.open = self.open.saturating_add(1),
                    b'}' | b']' => {
                        self.open = self.open.saturating_sub(1);
                        self.closed |= self.open == 0;
                    }
                    _ => {}
                }
            }
        }
    }
}
