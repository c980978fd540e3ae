//! Notes that nobody waits for. They go with the next call, or by themselves shortly after, and are
//! kept until the store has taken them: what was spent while it was away is booked when it is back.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

/// The number of notes that wait at most. Beyond it, the oldest one that is no settlement is lost.
const MOST: usize = 100_000;
/// The number of notes that go with one call.
const AT_ONCE: usize = 500;

/// A note, as the script takes it.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    number: u64,
    text: String,
    is_money: bool,
}

/// The notes that wait.
#[derive(Debug, Default)]
pub(crate) struct NoteQueue {
    held: Mutex<Held>,
    /// Told when a note has come.
    come: Notify,
}

#[derive(Debug, Default)]
struct Held {
    next: u64,
    waiting: VecDeque<Note>,
}

impl NoteQueue {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a note. Its number tells the store whether it has come before.
    pub(crate) fn push(&self, mut operation: Value, is_money: bool) {
        let mut held = self.lock();
        held.next += 1;
        let number = held.next;
        if let Some(fields) = operation.as_object_mut() {
            fields.insert("note".to_owned(), number.into());
        }
        held.waiting.push_back(Note { number, text: operation.to_string(), is_money });
        if held.waiting.len() > MOST {
            let lost = held.waiting.iter().position(|note| !note.is_money).unwrap_or(0);
            held.waiting.remove(lost);
            tracing::warn!("a note to the shared state is lost: too many wait");
        }
        drop(held);
        self.come.notify_one();
    }

    /// Takes the oldest notes. They come back unless they are marked as brought.
    pub(crate) fn take(&self) -> CarriedNotes<'_> {
        let mut held = self.lock();
        let many = held.waiting.len().min(AT_ONCE);
        CarriedNotes { queue: self, notes: held.waiting.drain(..many).collect() }
    }

    /// Puts notes back that the store may not have taken, in their order.
    fn put_back(&self, notes: Vec<Note>) {
        let mut held = self.lock();
        held.waiting.extend(notes);
        held.waiting.make_contiguous().sort_by_key(|note| note.number);
    }

    /// Returns true if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    /// Waits until a note comes.
    pub(crate) async fn wait_for_note(&self) {
        self.come.notified().await;
    }
}

/// Notes on their way to the store. If the call that carries them fails or is given up, they are put
/// back: a note that comes twice counts once.
#[derive(Debug)]
pub(crate) struct CarriedNotes<'a> {
    queue: &'a NoteQueue,
    notes: Vec<Note>,
}

impl CarriedNotes<'_> {
    /// Returns the operations.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(|note| note.text.as_str())
    }

    /// Notes that the store has taken them.
    pub(crate) fn mark_brought(mut self) {
        self.notes.clear();
    }
}

impl Drop for CarriedNotes<'_> {
    fn drop(&mut self) {
        if !self.notes.is_empty() {
            self.queue.put_back(std::mem::take(&mut self.notes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(notes: &CarriedNotes<'_>) -> Vec<String> {
        notes.texts().map(str::to_owned).collect()
    }

    #[test]
    fn notes_of_a_call_that_is_given_up_come_back_in_their_order() {
        let queue = NoteQueue::default();
        for op in ["one", "two"] {
            queue.push(serde_json::json!({"op": op}), true);
        }
        let carried = queue.take();
        let first = texts(&carried);
        queue.push(serde_json::json!({"op": "three"}), true);
        drop(carried);
        let carried = queue.take();
        assert_eq!(texts(&carried)[..2], first);
        assert_eq!(texts(&carried).len(), 3);
        carried.mark_brought();
        assert!(queue.is_empty());
    }

    #[test]
    fn of_too_many_notes_no_settlement_is_lost() {
        let queue = NoteQueue::default();
        queue.push(serde_json::json!({"op": "settle"}), true);
        for _ in 0..MOST {
            queue.push(serde_json::json!({"op": "progress"}), false);
        }
        assert!(texts(&queue.take())[0].contains("settle"));
        assert_eq!(queue.lock().waiting.len(), MOST);
    }
}
