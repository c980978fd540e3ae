//! Whose message it is: a person's begins a run, a program's goes on with one (contract §1).
//!
//! A text says by itself that a program wrote it, or it does not. Where it does not, two things
//! tell that need the time: it says again what was said in this run, or it follows a landing, and
//! no person is so quick. What they tell is decided at first sight and recorded.

mod alike;

use alloc::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::event::{User, UserText};
use crate::lines;
use crate::run::{Last, Phase, Run};
use crate::tables;
use crate::time::Millis;

/// Whoever answers within so long has not read the turn.
const AT_ONCE: Millis = Millis::from_secs(2);

/// How a message came, which no transcript shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// How long after the end of the turn before it.
    pub pause: Millis,
    /// Whether softland landed that turn.
    pub landed: bool,
}

impl Arrival {
    fn is_at_once(self) -> bool {
        self.pause <= AT_ONCE
    }
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A person: it begins a run.
    Person,
    /// A program, by what the transcript shows.
    Program,
    /// A program, since it came at once: to be recorded.
    AtOnce {
        /// Whether nothing but a landing before it tells so.
        landing: bool,
    },
}

/// What was said in a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    /// Digests of its user texts.
    texts: BTreeSet<Digest>,
    /// Digests of its messages behind finished turns, apart from numbers and times.
    behind: BTreeSet<Digest>,
    /// Whether one of these stood behind a landing.
    behind_landing: bool,
}

impl Heard {
    /// Takes a message in. `last` is what the turn before it was.
    pub(crate) fn hear(&mut self, user: &User<'_>, last: Last, phase: &Phase) {
        self.texts.extend(user.texts.iter().map(UserText::digest));
        if user.results.is_empty() && last.is_finished() {
            self.behind.insert(alike(user));
            self.behind_landing |= *phase != Phase::Open;
        }
    }

    /// Who wrote a message of a run. `forced`: the client forces an answer tool.
    pub(crate) fn sender(
        &self,
        run: &Run,
        user: &User<'_>,
        came: Came<'_>,
        forced: bool,
    ) -> Sender {
        let last = run.last();
        let answered = last.is_finished();
        // Beside the results of an open round it is steering; an answer tool's round is closed.
        // An answer that failed, or has another form than it should, is to be made again.
        let again = user.results.iter().any(|result| result.failed || result.sent_back);
        if !user.results.is_empty() && (!answered || again) {
            return Sender::Program;
        }
        // Under a forced choice a client may ask for the answer's form, as nobody did.
        let retries = |text: &str| forced && tables::is_validation_retry(text);
        // softland's own nudge follows no answer, and is in words that a person may write.
        let common = |text: &str| answered && tables::is_common_nudge(text);
        let is_spoken = |text: &&UserText<'_>| {
            let (text, words) = (text.text(), text.words());
            !(is_machine_made(text) || retries(words)) || common(words)
        };
        let mut spoken = user.texts.iter().filter(is_spoken).peekable();
        let shows = user.media && user.results.is_empty();
        let program = match last {
            Last::Nothing | Last::Unfinished => true,
            _ if spoken.peek().is_none() => !(shows && answered),
            _ if came.by_another => true,
            Last::Empty => spoken
                .all(|text| tables::is_nudge(text.words()) || self.texts.contains(&text.digest())),
            Last::Finished | Last::TrivialLooking { .. } => {
                return self.behind_a_turn(run, user, spoken, came);
            }
        };
        if program { Sender::Program } else { Sender::Person }
    }

    /// Who wrote a message behind a finished turn that holds words of somebody's.
    fn behind_a_turn<'u>(
        &self,
        run: &Run,
        user: &User<'_>,
        mut spoken: impl Iterator<Item = &'u UserText<'u>> + Clone,
        came: Came<'_>,
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
        let again = self.behind.contains(&alike(user));
        if again || spoken.all(|text| tables::is_nudge(text.words())) {
            return Sender::AtOnce { landing: false };
        }
        let first = !self.behind_landing && run.pinned().behind_landing.is_none();
        if arrival.landed && first { Sender::AtOnce { landing: true } } else { Sender::Person }
    }
}

/// How a message stands where it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came<'a> {
    /// The digest of all messages, this one included.
    pub(crate) place: Digest,
    /// What is known of its time.
    pub(crate) arrival: Option<&'a Arrival>,
    /// Whether another speaker's name stands over it.
    pub(crate) by_another: bool,
}

/// Whether a message is another speaker's than the person's: its `name` says so. `opener` is the
/// name over the conversation's first message, which is the person's.
pub(crate) fn is_by_another(user: &User<'_>, opener: Option<&str>) -> bool {
    let name = user.name.as_deref();
    name.is_some_and(|name| Some(name) != opener && !tables::names_a_person(name))
}

/// Text that no person wrote: a harness's own tags, a summary, softland's own words.
pub(crate) fn is_machine_made(text: &str) -> bool {
    lines::is_own_message(text)
        || tables::is_harness_only(text)
        || tables::is_compaction_summary(text)
}

/// The digest of what a message says, apart from numbers and times.
fn alike(user: &User<'_>) -> Digest {
    let spoken = user.texts.iter().filter(|text| !is_machine_made(text.text()));
    spoken.fold(Digest::EMPTY, |sum, text| sum.then(alike::digest(text.words())))
}
