//! What the crates of softland log, kept for a program that has a log of its own.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The number of messages that wait for the program at most. Older ones are dropped.
const WAITING: usize = 1000;

static MESSAGES: Mutex<VecDeque<LogMessage>> = Mutex::new(VecDeque::new());
/// True if messages wait.
static HAS_MESSAGES: AtomicBool = AtomicBool::new(false);

/// A message of softland's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    /// True for an error, false for a warning.
    pub is_error: bool,
    /// The text, with its fields.
    pub text: String,
}

/// Keeps errors and warnings of this process for [`take_log_messages`], from now on. Where the process
/// has a subscriber of `tracing` already, that one has them.
pub fn keep_log_messages() {
    let _ = tracing::subscriber::set_global_default(MessageKeeper);
}

/// Returns the messages since the last time.
#[must_use]
pub fn take_log_messages() -> VecDeque<LogMessage> {
    if !HAS_MESSAGES.swap(false, Ordering::AcqRel) {
        return VecDeque::new();
    }
    std::mem::take(&mut *MESSAGES.lock().unwrap_or_else(PoisonError::into_inner))
}

struct MessageKeeper;

impl Subscriber for MessageKeeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::WARN
            && metadata.target().starts_with("softland")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = MessageText::default();
        event.record(&mut text);
        let is_error = *event.metadata().level() == Level::ERROR;
        let message = LogMessage { is_error, text: text.message + &text.fields };
        let mut kept = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= WAITING {
            kept.pop_front();
        }
        kept.push_back(message);
        drop(kept);
        HAS_MESSAGES.store(true, Ordering::Release);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event, and its fields as they follow the text.
#[derive(Default)]
struct MessageText {
    message: String,
    fields: String,
}

impl Visit for MessageText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // To write into a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "error" => write!(self.fields, ": {value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_warnings_of_softland_are_kept_with_their_fields() {
        tracing::subscriber::with_default(MessageKeeper, || {
            tracing::error!(error = %"away", id = 7, "the state is not there");
            tracing::warn!("no answer");
            tracing::info!("asked");
            tracing::error!(target: "other", "another crate's");
        });
        let kept = take_log_messages();
        let kept: Vec<_> =
            kept.iter().map(|message| (message.is_error, message.text.as_str())).collect();
        assert_eq!(kept, [(true, "the state is not there: away, id: 7"), (false, "no answer")]);
        assert!(take_log_messages().is_empty());
        tracing::subscriber::with_default(MessageKeeper, || {
            (0..WAITING + 5).for_each(|number| tracing::error!("{number}"));
        });
        let kept = take_log_messages();
        assert_eq!((kept.len(), kept[0].text.as_str()), (WAITING, "5"));
    }
}
