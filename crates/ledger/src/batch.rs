//! Batches of records on their way to the writer.
//!
//! The texts of a batch are stored one after another in one buffer, which is reused. If each text
//! were allocated by one thread and freed by another, that would take longer than copying it, and a
//! batch scattered over memory would evict everything else from the caches.

use crate::record::{Event, Record, Request, RunEnd, RunStart};

/// The maximum number of records in a batch.
pub(crate) const BATCH: usize = 2048;
/// The maximum size of a batch, in bytes. A larger record gets a batch of its own.
pub(crate) const BATCH_BYTES: usize = 8 << 20;
/// The text capacity that an empty batch keeps, in bytes.
const KEPT: usize = 1 << 20;

/// Records that are written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    records: Vec<PackedRecord>,
    texts: String,
    /// The size of the records in memory, in bytes.
    bytes: usize,
    /// The number of records that are written or lost.
    done: usize,
}

/// A record whose texts are stored in its batch's buffer.
#[derive(Debug)]
pub(crate) enum PackedRecord {
    RunStart(Box<RunStart>),
    Sent(Request<TextSpan>),
    Request(Request<TextSpan>),
    Event(Event<TextSpan>),
    RunEnd(Box<RunEnd>),
}

/// The position of a text in the batch's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextSpan {
    from: u32,
    to: u32,
}

/// Some records of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchPart<'b> {
    pub(crate) records: &'b [PackedRecord],
    pub(crate) texts: &'b str,
}

impl Batch {
    /// True if a record of this size fits into the batch.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let fits = self.bytes.saturating_add(bytes) <= BATCH_BYTES;
        self.records.len() < BATCH && (fits || self.records.is_empty())
    }

    pub(crate) fn push(&mut self, record: Record) {
        self.bytes = self.bytes.saturating_add(record.memory_size());
        let texts = &mut self.texts;
        self.records.push(match record {
            Record::RunStart(start) => PackedRecord::RunStart(Box::new(start)),
            Record::Sent(request) => {
                PackedRecord::Sent(request.map_texts(|text| append_text(texts, &text)))
            }
            Record::Request(request) => {
                PackedRecord::Request(request.map_texts(|text| append_text(texts, &text)))
            }
            Record::Event(event) => {
                PackedRecord::Event(event.map_fields(|fields| append_text(texts, fields.as_str())))
            }
            Record::RunEnd(end) => PackedRecord::RunEnd(Box::new(end)),
        });
    }

    /// Returns the number of records that are not done.
    pub(crate) fn len(&self) -> usize {
        self.records.len() - self.done
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the approximate size of the records in memory, in bytes.
    pub(crate) fn memory_size(&self) -> usize {
        self.bytes
    }

    /// Returns the first `size` records that are not done.
    pub(crate) fn first_records(&self, size: usize) -> BatchPart<'_> {
        let left = self.records.get(self.done..).unwrap_or_default();
        BatchPart { records: left.get(..size).unwrap_or(left), texts: &self.texts }
    }

    /// Marks the next `size` records as done.
    pub(crate) fn mark_done(&mut self, size: usize) {
        self.done = self.records.len().min(self.done + size);
        if self.is_empty() {
            self.clear();
        }
    }

    /// Empties the batch and keeps its memory, apart from a large text buffer.
    fn clear(&mut self) {
        self.records.clear();
        self.texts.clear();
        self.texts.shrink_to(KEPT);
        (self.bytes, self.done) = (0, 0);
    }
}

/// Appends a text to the buffer and returns its position. A batch has less than 4 GiB of text.
fn append_text(texts: &mut String, text: &str) -> TextSpan {
    let end = |texts: &String| u32::try_from(texts.len()).unwrap_or(u32::MAX);
    let from = end(texts);
    texts.push_str(text);
    TextSpan { from, to: end(texts) }
}

impl TextSpan {
    /// Returns the text at this position of `texts`.
    pub(crate) fn text_in(self, texts: &str) -> &str {
        texts.get(self.from as usize..self.to as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(fields: &str) -> Record {
        let fields = fields.into();
        Record::Event(Event { at: 1, run: "run".into(), turn: 1, event: "signal", fields })
    }

    fn texts(batch: &Batch, size: usize) -> Vec<&str> {
        let BatchPart { records, texts } = batch.first_records(size);
        let text = |record: &PackedRecord| match record {
            PackedRecord::Event(event) => Some(event.fields.text_in(texts)),
            PackedRecord::RunStart(_)
            | PackedRecord::Sent(_)
            | PackedRecord::Request(_)
            | PackedRecord::RunEnd(_) => None,
        };
        records.iter().filter_map(text).collect()
    }

    #[test]
    fn each_record_keeps_its_text_until_it_is_done() {
        let mut batch = Batch::default();
        for fields in ["{\"a\":1}", "{}", "{\"ü\":2}"] {
            batch.push(event(fields));
        }
        assert_eq!(texts(&batch, 2), ["{\"a\":1}", "{}"]);
        batch.mark_done(1);
        assert_eq!((texts(&batch, 9), batch.len()), (vec!["{}", "{\"ü\":2}"], 2));
        batch.mark_done(2);
        assert!(batch.is_empty() && batch.memory_size() == 0);
        batch.push(event("{\"b\":3}"));
        assert_eq!(texts(&batch, 1), ["{\"b\":3}"]);
    }

    #[test]
    fn a_batch_is_bounded_but_takes_a_large_record_alone() {
        let mut batch = Batch::default();
        assert!(batch.has_room(usize::MAX));
        batch.push(event("{}"));
        assert!(batch.has_room(BATCH_BYTES - batch.memory_size()));
        assert!(!batch.has_room(BATCH_BYTES - batch.memory_size() + 1));
        for _ in 1..BATCH {
            batch.push(event("{}"));
        }
        assert!(!batch.has_room(0));
    }
}
