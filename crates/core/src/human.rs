//! The sender of a message: a person's message begins a run, a program's goes on with one
//! (`docs/gateway.md`, "Where a run begins").
//!
//! Some texts show by themselves that a program wrote them. For any other text, two signs need the
//! time: the text repeats an earlier one of this run, or it follows a landing, and it comes faster
//! than a person can answer. What the time shows is decided at first sight and recorded.

mod alike;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::event::{UserMessage, UserText};
use crate::lines;
use crate::run::{LastTurn, Phase, Run};
use crate::tables;
use crate::time::Millis;
use alike::Numbers;

/// The longest pause in which nobody can have read the turn.
const AT_ONCE: Millis = Millis::from_secs(2);

/// The earlier runs of which a client may say the nudge again that began them.
const EARLIER: usize = 4;

/// The arrival of a message, which no transcript shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The time since the end of the turn before it.
    pub pause: Millis,
    /// True if softland landed that turn.
    pub landed: bool,
}

impl Arrival {
    /// Returns true if nobody can have read the turn before the message.
    #[must_use]
    pub fn is_at_once(self) -> bool {
        self.pause <= AT_ONCE
    }
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A person: the message begins a run.
    Person,
    /// A program, as the transcript shows.
    Program,
    /// A program, because the message came at once. This is recorded.
    AtOnce {
        /// True if nothing but a landing before the message shows this.
        landing: bool,
    },
}

/// The messages of a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenMessages {
    /// The digests of its user texts.
    texts: BTreeSet<Digest>,
    /// The digests of its messages behind finished turns, without counts and times.
    behind: BTreeSet<Digest>,
    /// The same without any numbers.
    alike: BTreeSet<Digest>,
    /// The digest of the message that opened the conversation, without numbers: surely a person's.
    opening: Option<Digest>,
    /// The digest of the message that began the run, if it stands behind a finished turn, and those
    /// of earlier runs, the newest last. A client that has several nudges takes turns with them.
    began: Vec<Digest>,
    /// True if one of these stood behind a landing.
    behind_landing: bool,
}

impl SeenMessages {
    /// Creates the messages of the conversation's next run, which begins with a message of a
    /// person's.
    pub(crate) fn begin_next(&self, user: &UserMessage<'_>) -> Self {
        let opening = self.opening.or_else(|| Some(digest_message(user, Numbers::All)));
        let known = self.began.len().saturating_sub(EARLIER);
        let began = self.began.get(known..).unwrap_or_default().to_vec();
        Self { opening, began, ..Self::default() }
    }

    /// Returns true if a message says again what was said behind a finished turn. Another number
    /// makes another question: of a question, or where the conversation opened with one like it.
    fn is_said_again(&self, user: &UserMessage<'_>) -> bool {
        let said = digest_message(user, Numbers::Counts);
        if self.behind.contains(&said) || self.began.contains(&said) {
            return true;
        }
        let alike = digest_message(user, Numbers::All);
        let spoken = user.texts.iter().rev().find(|text| !is_machine_made(text.text()));
        let asks = spoken.is_some_and(|text| text.words().trim_end().ends_with('?'));
        self.alike.contains(&alike) && !(asks || self.opening == Some(alike))
    }

    /// Records a message. `last` is the turn before it.
    pub(crate) fn record_message(&mut self, user: &UserMessage<'_>, last: LastTurn, phase: &Phase) {
        self.texts.extend(user.texts.iter().map(UserText::digest));
        if user.results.is_empty() && last.is_finished() {
            let said = digest_message(user, Numbers::Counts);
            if self.behind.is_empty() {
                self.began.push(said);
            }
            self.behind.insert(said);
            self.alike.insert(digest_message(user, Numbers::All));
            self.behind_landing |= *phase != Phase::Open;
        }
    }

    /// Finds the sender of a message of a run. `forced` is true if the client forces an answer
    /// tool.
    pub(crate) fn find_sender(
        &self,
        run: &Run,
        user: &UserMessage<'_>,
        came: MessageContext<'_>,
        forced: bool,
    ) -> Sender {
        let last = run.last_turn();
        let answered = last.is_finished();
        // A text beside the results of an open round is steering. The round of an answer tool is
        // closed. An answer that failed, or has the wrong form, has to be made again.
        let again = user.results.iter().any(|result| result.failed || result.sent_back);
        if !user.results.is_empty() && (!answered || again) {
            return Sender::Program;
        }
        // Under a forced choice, a client may ask for the answer's form. No person wrote that text.
        let retries = |text: &str| forced && tables::is_validation_retry(text);
        // softland's own nudge follows no answer, and a person may write the same words.
        let common = |text: &str| answered && tables::is_common_nudge(text);
        let is_spoken = |text: &&UserText<'_>| {
            let (text, words) = (text.text(), text.words());
            !(is_machine_made(text) || retries(words)) || common(words)
        };
        let mut spoken = user.texts.iter().filter(is_spoken).peekable();
        let shows = user.media.is_some() && user.results.is_empty();
        let program = match last {
            LastTurn::Nothing | LastTurn::Unfinished => true,
            _ if spoken.peek().is_none() => !(shows && answered),
            _ if came.by_another => true,
            LastTurn::Empty => spoken
                .all(|text| tables::is_nudge(text.words()) || self.texts.contains(&text.digest())),
            LastTurn::Finished | LastTurn::TrivialLooking { .. } => {
                return self.find_sender_after_turn(run, user, spoken, came);
            }
        };
        if program { Sender::Program } else { Sender::Person }
    }

    /// Finds the sender of a message with words of its own behind a finished turn.
    fn find_sender_after_turn<'u>(
        &self,
        run: &Run,
        user: &UserMessage<'_>,
        mut spoken: impl Iterator<Item = &'u UserText<'u>> + Clone,
        came: MessageContext<'_>,
    ) -> Sender {
        if spoken.clone().all(|text| tables::is_telling_nudge(text.words())) {
            return Sender::Program;
        }
        if run.pinned().went_on.contains(&came.place) {
            return Sender::AtOnce { landing: run.pinned().behind_landing == Some(came.place) };
        }
        let Some(arrival) = came.arrival.filter(|arrival| arrival.is_at_once()) else {
            return Sender::Person;
        };
        if self.is_said_again(user) || spoken.all(|text| tables::is_nudge(text.words())) {
            return Sender::AtOnce { landing: false };
        }
        let first = !self.behind_landing && run.pinned().behind_landing.is_none();
        if arrival.landed && first { Sender::AtOnce { landing: true } } else { Sender::Person }
    }
}

/// The circumstances of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageContext<'a> {
    /// The digest of all messages, including this one.
    pub(crate) place: Digest,
    /// The arrival, if it is known.
    pub(crate) arrival: Option<&'a Arrival>,
    /// True if the message has another speaker's name.
    pub(crate) by_another: bool,
}

/// Returns true if the `name` of a message is another speaker's than the person's. `opener` is the
/// name of the conversation's first message, which is the person's.
pub(crate) fn is_by_another(user: &UserMessage<'_>, opener: Option<&str>) -> bool {
    let name = user.name.as_deref();
    name.is_some_and(|name| Some(name) != opener && !tables::names_a_person(name))
}

/// Returns true for a text that no person wrote: a harness's own tags, a summary, softland's own
/// words.
pub(crate) fn is_machine_made(text: &str) -> bool {
    lines::is_own_message(text)
        || tables::is_harness_only(text)
        || tables::is_compaction_summary(text)
}

/// Returns the digest of a message's words, without times and without these numbers.
fn digest_message(user: &UserMessage<'_>, left_out: Numbers) -> Digest {
    let spoken = user.texts.iter().filter(|text| !is_machine_made(text.text()));
    spoken.fold(Digest::EMPTY, |sum, text| {
        sum.followed_by(alike::digest_text(text.words(), left_out))
    })
}
