//! The events that a page is shown at first: all events so far, with the pieces of each text
//! joined, bounded.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

/// Bytes of events that are kept; the oldest events are left out first.
const KEPT: usize = 4 << 20;

/// The events of a conversation.
#[derive(Debug, Default)]
pub(super) struct EventHistory {
    events: VecDeque<Arc<str>>,
    bytes: usize,
    /// The newest event, which may still grow.
    open: Option<Value>,
    left_out: u64,
}

/// Events whose pieces form one text, and the member that holds the piece.
const PIECES: [(&str, &str); 3] =
    [("text_delta", "text"), ("thinking_delta", "text"), ("tool_input_delta", "partial_json")];

impl EventHistory {
    pub(super) fn add_event(&mut self, event: &Value) {
        if let Some(open) = &mut self.open
            && join_piece(open, event)
        {
            return;
        }
        self.close_event();
        self.open = Some(event.clone());
    }

    /// Returns all events. If some were left out, a note about them comes first.
    pub(super) fn all_events(&self) -> Vec<Arc<str>> {
        let left_out = (self.left_out > 0).then(|| {
            let text = format!("{} earlier events are not shown here", self.left_out);
            json!({"v": 1, "run": "", "turn": 0, "event": "note", "text": text}).to_string().into()
        });
        let open = self.open.as_ref().map(|open| open.to_string().into());
        left_out.into_iter().chain(self.events.iter().cloned()).chain(open).collect()
    }

    fn close_event(&mut self) {
        let Some(open) = self.open.take() else { return };
        let text: Arc<str> = open.to_string().into();
        self.bytes += text.len();
        self.events.push_back(text);
        if self.bytes <= KEPT {
            return;
        }
        // Drop more than necessary, so that it is not done for every event.
        while self.bytes > KEPT / 4 * 3
            && let Some(first) = self.events.pop_front()
        {
            self.bytes -= first.len();
            self.left_out += 1;
        }
    }
}

/// Adds a piece to the text that it belongs to; returns false if it belongs to none.
fn join_piece(open: &mut Value, event: &Value) -> bool {
    let same = |key: &str| open.get(key) == event.get(key);
    if !["event", "run", "turn", "id"].into_iter().all(same) {
        return false;
    }
    let kind = event.get("event").and_then(Value::as_str);
    let Some((_, piece)) = PIECES.iter().find(|(name, _)| Some(*name) == kind) else {
        return false;
    };
    let Some(more) = event.get(piece).and_then(Value::as_str) else { return false };
    match open.get_mut(piece) {
        Some(Value::String(text)) if text.len() < KEPT / 4 => {
            text.push_str(more);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(run: &str, text: &str) -> Value {
        json!({"event": "text_delta", "run": run, "turn": 1, "text": text})
    }

    #[test]
    fn pieces_of_one_text_are_one_event() {
        let mut tape = EventHistory::default();
        for text in ["a", "b"] {
            tape.add_event(&delta("r", text));
        }
        tape.add_event(&json!({"event": "block_stop", "run": "r", "turn": 1}));
        tape.add_event(&delta("r", "c"));
        tape.add_event(&delta("s", "d"));
        let all: Vec<Value> =
            tape.all_events().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let texts: Vec<_> = all.iter().map(|event| event["text"].as_str()).collect();
        assert_eq!(texts, [Some("ab"), None, Some("c"), Some("d")]);
    }

    #[test]
    fn what_is_too_much_is_left_out_and_said() {
        let mut tape = EventHistory::default();
        for n in 0..10 {
            tape.add_event(
                &json!({"event": "tool_result", "id": n, "content": "x".repeat(1 << 20)}),
            );
        }
        let all = tape.all_events();
        assert!(all.len() < 6 && all.iter().map(|text| text.len()).sum::<usize>() < 6 << 20);
        assert!(all[0].contains("earlier events are not shown"));
        assert!(all.last().unwrap().contains("\"id\":9"));
    }
}
