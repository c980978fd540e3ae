//! The first words of what each run was asked, for the list. They are read from the ledger's
//! contents, once for each run.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use softland_ledger::{LedgerPlace, Reader};

use super::start;
use crate::state::GatewayState;

/// The length of a question, in characters.
const SHOWN: usize = 80;
/// The number of questions that are remembered.
const MOST: usize = 4096;
/// The time that one list may spend on reading; the next list reads further ones.
const TIME: Duration = Duration::from_millis(250);

/// Adds the question of the run to rows without a name or an agent.
pub(super) async fn add_questions(
    gate: &Arc<GatewayState>,
    place: LedgerPlace,
    mut runs: Vec<Value>,
) -> Vec<Value> {
    let gate = Arc::clone(gate);
    let kept = runs.clone();
    let read = tokio::task::spawn_blocking(move || {
        let reader = Reader::open(&place).ok();
        let mut known = gate.pages.questions.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > MOST {
            known.clear();
        }
        let until = Instant::now() + TIME;
        for row in &mut runs {
            let named =
                ["name", "agent"].iter().any(|key| row.get(key).is_some_and(Value::is_string));
            let Some(run) = row.get("run").and_then(Value::as_str).filter(|_| !named) else {
                continue;
            };
            if !known.contains_key(run)
                && Instant::now() < until
                && let Some(question) =
                    reader.as_ref().and_then(|reader| start::stored_question(reader, run))
            {
                known.insert(run.to_owned(), first_words(&question));
            }
            let question = known.get(run).filter(|question| !question.is_empty());
            if let (Some(question), Value::Object(fields)) = (question.cloned(), row) {
                fields.insert("question".to_owned(), json!(question));
            }
        }
        runs
    });
    read.await.unwrap_or(kept)
}

/// Returns the first words of a text, on one line.
fn first_words(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if words.chars().count() + word.chars().count() > SHOWN {
            if words.is_empty() {
                words = word.chars().take(SHOWN).collect();
            }
            words.push('…');
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words += word;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_few_words_on_one_line() {
        assert_eq!(first_words("  What did\n we\tdecide? "), "What did we decide?");
        assert_eq!(first_words(&"word ".repeat(100)).chars().count(), 80);
        assert_eq!(first_words(&"x".repeat(500)), "x".repeat(80) + "…");
        assert_eq!(first_words(" \n"), "");
    }
}
