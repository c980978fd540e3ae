//! The fold over a transcript: the runs in it, their boundaries, and the lines added to its
//! messages. The live loop, the gateway and the replay of recordings all read a history by this
//! code.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::addition::{Addition, AdditionKind, LinePlace};
use crate::because::Because;
use crate::digest::Digest;
use crate::event::{Facts, FinishedTurn, ToolResult, UserMessage, UserText};
use crate::human::{Arrival, MessageContext, SeenMessages, Sender, is_by_another, is_machine_made};
use crate::lines::{self, Wording};
use crate::pinned::{PinnedRecord, PinnedRecords};
use crate::policy::{Policy, RunBoundary};
use crate::rules::Signal;
use crate::run::{AnswerTools, LastTurn, Phase, Role, Run};

/// The fold over a transcript.
#[derive(Clone, Debug)]
pub struct Transcript {
    role: Role,
    /// The policy of runs that have no record yet.
    policy: Arc<Policy>,
    records: PinnedRecords,
    /// Digest of all messages so far.
    chain: Digest,
    run: Option<(Digest, Arc<Run>)>,
    runs: u64,
    /// The messages of the newest run.
    heard: SeenMessages,
    /// The `name` of the conversation's first message, if it has one.
    opener: Option<String>,
    /// The arrival of the message behind the newest turn, if it is known.
    arrival: Option<Arrival>,
    /// The tools whose calls the client takes as answers, as far as its requests show.
    answers: AnswerTools,
    /// True if the client forces one of these tools.
    forces_answer: bool,
    /// Tools that the provider runs.
    hosted: BTreeSet<String>,
    /// The words of runs that have no record yet.
    words: Wording,
    /// The places where runs of the conversation's name began, if the conversation has a name.
    named: Option<BTreeSet<Digest>>,
    /// True if results were given since the newest turn.
    given: bool,
    /// The images and files that stood beside or behind results last.
    shown: Option<Digest>,
}

/// The position of a message that the transcript has not taken yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePosition {
    /// The key of its run.
    pub run: Digest,
    /// True if the message starts that run.
    pub starts: bool,
    /// The digest of all messages, this one included.
    pub place: Digest,
}

/// The effect of one message.
#[derive(Clone, Debug, Default)]
pub struct MessageEffects {
    /// Lines to add to this message.
    pub additions: Vec<Addition>,
    /// The signals of the detectors for this message.
    pub signals: Vec<Signal>,
    /// True if the message starts a run.
    pub starts_run: bool,
}

impl MessageEffects {
    /// Adds the effects of the message behind this one.
    pub fn extend_with(&mut self, next: Self) {
        self.additions.extend(next.additions);
        self.signals.extend(next.signals);
        self.starts_run |= next.starts_run;
    }
}

impl Transcript {
    /// Creates an empty transcript. `records` are the records that earlier requests returned; a run
    /// without a record is pinned to `policy`.
    #[must_use]
    pub fn new(role: Role, policy: impl Into<Arc<Policy>>, records: PinnedRecords) -> Self {
        Self {
            role,
            policy: policy.into(),
            records,
            chain: Digest::EMPTY,
            run: None,
            runs: 0,
            heard: SeenMessages::default(),
            opener: None,
            arrival: None,
            answers: AnswerTools::default(),
            forces_answer: false,
            hosted: BTreeSet::new(),
            words: Wording::NEWEST,
            named: None,
            given: false,
            shown: None,
        }
    }

    /// Adds a user message. `facts` are given for the newest message only.
    pub fn add_user_message(
        &mut self,
        user: &UserMessage<'_>,
        facts: Option<&Facts>,
    ) -> MessageEffects {
        let mut step = self.apply_message(user, facts);
        if let (Some((_, run)), Some(facts)) = (&mut self.run, facts) {
            let run = Arc::make_mut(run);
            run.land_late(facts);
            step.signals.extend(run.stop_if_stale(facts));
        }
        step
    }

    /// Returns the position that a user message would have if it came next.
    #[must_use]
    pub fn locate_message(&self, user: &UserMessage<'_>) -> MessagePosition {
        let place = self.digest_with(user);
        match &self.run {
            Some((run, current)) if self.find_sender(current, user, place) != Sender::Person => {
                MessagePosition { run: *run, starts: false, place }
            }
            _ => MessagePosition { run: place, starts: true, place },
        }
    }

    /// Returns the policy that holds, or will hold, for the run of this key.
    #[must_use]
    pub fn policy_of(&self, run: &Digest) -> &Policy {
        match &self.run {
            Some((key, current)) if key == run => current.policy(),
            _ => self.records.get(run).map_or(&self.policy, |pinned| &pinned.policy),
        }
    }

    /// Returns the digest of all messages so far.
    #[must_use]
    pub fn history_digest(&self) -> Digest {
        self.chain
    }

    /// Returns the position of a history that ends in a turn of the model; `None` before any turn.
    #[must_use]
    pub fn turn_position(&self) -> Option<MessagePosition> {
        Some(MessagePosition { run: self.run_key()?, starts: false, place: self.chain })
    }

    /// Sets the tools whose calls the client takes as answers, beside those that the policy names.
    /// `forced` is true if the client forces one of them. Call this before any message is added.
    pub fn set_answer_tools(&mut self, tools: Vec<String>, forced: bool) {
        self.forces_answer = forced && !tools.is_empty();
        self.answers = AnswerTools::from_shown(tools);
    }

    /// Sets the tools that the provider runs, as the requests declare them. Call this before any
    /// message is added.
    pub fn set_hosted_tools(&mut self, tools: BTreeSet<String>) {
        self.hosted = tools;
    }

    /// Sets the places where runs of this conversation's name began. Policies whose runs only a
    /// header starts read them. A name without any place is new: its run begins at the newest human
    /// message. Call this before any message is added.
    pub fn set_named_runs(&mut self, begun: Vec<Digest>) {
        self.named = Some(begun.into_iter().collect());
    }

    /// Sets the arrival of the messages that are added next, up to the model's next turn.
    pub fn set_arrival(&mut self, arrival: Option<Arrival>) {
        self.arrival = arrival;
    }

    /// Adds a turn of the model. A history may open with a turn, because the client has left out
    /// the prompt or put a summary in its place; then a run begins there.
    pub fn add_turn(&mut self, turn: &FinishedTurn<'_>) {
        let calls = turn.calls.iter().fold(Digest::EMPTY, |sum, call| {
            sum.followed_by(Digest::from_bytes(call.name.as_bytes()))
                .followed_by(Digest::from_bytes(call.input.as_bytes()))
        });
        let text = turn.text.digest.unwrap_or(Digest::EMPTY);
        self.chain = self
            .chain
            .followed_by(Digest::from_bytes(b"assistant"))
            .followed_by(text)
            .followed_by(calls);
        self.arrival = None;
        self.given = false;
        let opens = self.run.is_none();
        if opens {
            self.begin_run(None);
        }
        if let Some((_, run)) = &mut self.run {
            let run = Arc::make_mut(run);
            if !opens {
                run.count_carried_at(self.chain);
            }
            run.add_turn(turn);
        }
    }

    /// Returns the newest run.
    #[must_use]
    pub fn current_run(&self) -> Option<&Run> {
        self.run.as_ref().map(|(_, run)| &**run)
    }

    /// Returns the key of the newest run: the digest of the messages up to and including the human
    /// message that started it.
    #[must_use]
    pub fn run_key(&self) -> Option<Digest> {
        self.run.as_ref().map(|(key, _)| *key)
    }

    /// Returns the number of runs in the transcript.
    #[must_use]
    pub fn run_count(&self) -> u64 {
        self.runs
    }

    /// Returns the newest run's [`Self::run_key`], the run itself, and every record to store,
    /// including those that were passed in.
    #[must_use]
    pub fn into_parts(mut self) -> (Option<Digest>, Option<Arc<Run>>, PinnedRecords) {
        self.store_record();
        let (key, run) = self.run.unzip();
        (key, run, self.records)
    }

    fn apply_message(&mut self, user: &UserMessage<'_>, facts: Option<&Facts>) -> MessageEffects {
        let place = self.digest_with(user);
        let moves = place != self.chain;
        self.chain = place;
        let Some((_, run)) = &self.run else {
            self.opener = user.name.as_deref().map(String::from);
            return self.begin_human_run(user, facts);
        };
        let sender = self.find_sender(run, user, place);
        if sender == Sender::Person {
            return self.begin_human_run(user, facts);
        }
        let mut step = MessageEffects::default();
        self.heard.record_message(user, run.last_turn(), run.phase());
        let by_another = is_by_another(user, self.opener.as_deref());
        let closes = user.spoken_after || closes_answer(user);
        self.given |= !user.results.is_empty();
        let shows_progress = self.given && self.shows_progress(user);
        let Some((_, run)) = &mut self.run else { return step };
        let run = Arc::make_mut(run);
        if let Sender::AtOnce { landing } = sender {
            run.record_going_on(place, landing);
        }
        let carries = moves && run.count_carried_at(place);
        if run.awaits_answer() && closes {
            run.close_answer();
        } else if !user.results.is_empty() {
            (step.additions, step.signals) = run.add_results(&user.results, facts);
            if shows_progress {
                run.clear_loops();
            }
        } else if by_another {
            run.end_turn_by_other();
        } else {
            if shows_progress {
                run.clear_loops();
            }
            let own = user.texts.iter().all(|text| lines::is_own_message(text.text()));
            step.signals.extend(run.record_self_continuation(own));
            if carries && let Some(because) = run.land_here(facts) {
                step.additions.push(ask_addition(&because, run.pinned().words));
            }
        }
        step
    }

    /// Returns true if a message beside or behind results shows that the run moves on: a person
    /// steers, or the image or file in it is another one than the last.
    fn shows_progress(&mut self, user: &UserMessage<'_>) -> bool {
        let spoken = user.texts.iter().any(|text| !is_machine_made(text.text()));
        let shows = user.media.is_some() && user.media != self.shown;
        self.shown = user.media.or(self.shown);
        spoken || shows || user.results.iter().any(|result| result.remarked)
    }

    fn begin_human_run(&mut self, user: &UserMessage<'_>, facts: Option<&Facts>) -> MessageEffects {
        let last = self.run.as_ref().map_or(LastTurn::Nothing, |(_, run)| run.last_turn());
        self.heard = self.heard.begin_next(user);
        self.heard.record_message(user, last, &Phase::Open);
        self.begin_run(facts)
    }

    /// Begins a run behind the newest message.
    fn begin_run(&mut self, facts: Option<&Facts>) -> MessageEffects {
        self.store_record();
        let key = self.chain;
        let known = self.records.get(&key).map(|known| (**known).clone());
        let new =
            || PinnedRecord { words: self.words, ..PinnedRecord::new(Arc::clone(&self.policy)) };
        let pinned = known.unwrap_or_else(new);
        let mut run = Run::begin_at_place(key, pinned, self.role, self.hosted.clone(), facts);
        let known =
            self.run.as_ref().map(|(_, before)| before.answer_tools().clone().for_next_run());
        run.set_answer_tools(known.unwrap_or_else(|| self.answers.clone()));
        let mut step = MessageEffects { starts_run: true, ..MessageEffects::default() };
        if let Phase::Landing { because, .. } = run.phase() {
            step.additions.push(ask_addition(because, run.pinned().words));
        }
        self.run = Some((key, Arc::new(run)));
        self.runs += 1;
        step
    }

    fn store_record(&mut self) {
        if let Some((key, run)) = &self.run {
            let pinned = run.pinned().clone();
            match self.records.get_mut(key) {
                Some(known) => **known = pinned,
                None => {
                    self.records.insert(*key, Box::new(pinned));
                }
            }
        }
    }

    /// Returns the digest of all messages with this one behind them. A message that consists of a
    /// harness's tags is left out, since some harnesses move their tags from message to message. A
    /// first message counts in any case, because nothing before it could stand for it.
    fn digest_with(&self, user: &UserMessage<'_>) -> Digest {
        let says_nothing =
            user.results.is_empty() && user.media.is_none() && !user.texts.is_empty();
        if says_nothing && self.run.is_some() && user.texts.iter().all(UserText::is_tags) {
            return self.chain;
        }
        self.chain.followed_by(Digest::from_bytes(b"user")).followed_by(digest_content(user))
    }

    /// Finds the sender of a message at this place of the run.
    fn find_sender(&self, run: &Run, user: &UserMessage<'_>, place: Digest) -> Sender {
        let by_name = |begins: bool| if begins { Sender::Person } else { Sender::Program };
        match (run.policy().run_boundary, &self.named) {
            (RunBoundary::Header, Some(begun)) if !begun.is_empty() => {
                by_name(begun.contains(&place))
            }
            (RunBoundary::Header, None) | (RunBoundary::Conversation, _) => by_name(false),
            (RunBoundary::Human | RunBoundary::Header, _) => {
                let by_another = is_by_another(user, self.opener.as_deref());
                let came = MessageContext { place, arrival: self.arrival.as_ref(), by_another };
                self.heard.find_sender(run, user, came, self.forces_answer)
            }
        }
    }

    /// Returns true if a message holds words or media of a person.
    #[must_use]
    pub fn is_spoken(user: &UserMessage<'_>) -> bool {
        user.media.is_some() || user.texts.iter().any(|text| !is_machine_made(text.text()))
    }
}

/// Returns true if the results close an answer and a person goes on in the same message. A result
/// that failed asks for the answer again.
fn closes_answer(user: &UserMessage<'_>) -> bool {
    let taken = |result: &ToolResult<'_>| !result.failed && !result.sent_back;
    !user.results.is_empty()
        && user.results.iter().all(taken)
        && user.texts.iter().any(|text| !is_machine_made(text.text()))
}

/// Returns the note at the end of a message that holds no result.
fn ask_addition(because: &Because, words: Wording) -> Addition {
    Addition {
        place: LinePlace::End,
        kind: AdditionKind::Ask,
        because: Some(because.clone()),
        text: words.ask(because),
    }
}

fn digest_content(user: &UserMessage<'_>) -> Digest {
    let results = user.results.iter().fold(Digest::EMPTY, |sum, r| sum.followed_by(r.digest));
    // Tags count where nothing else is in the message.
    let bare =
        user.results.is_empty() && user.media.is_none() && user.texts.iter().all(UserText::is_tags);
    let words = user.texts.iter().filter(|text| bare || !text.is_tags());
    words.fold(results, |sum, text| sum.followed_by(text.digest()))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;

    use super::*;
    use crate::event::{Call, LineRoom, Stop, VisibleText};

    /// Adds a question, or a round of one call, and returns the line that it gets.
    fn add(transcript: &mut Transcript, said: Option<&str>, n: u64) -> Option<String> {
        if let Some(said) = said {
            let user = UserMessage { texts: vec![UserText::new(said)], ..UserMessage::default() };
            let step = transcript.add_user_message(&user, Some(&Facts::default()));
            return step.additions.into_iter().next().map(|addition| addition.text);
        }
        let id = n.to_string();
        let call = Call { id: &id, name: "grep", input: &id, server: false };
        transcript.add_turn(&FinishedTurn {
            text: VisibleText::from_text(""),
            calls: vec![call],
            cut_call: false,
            hidden: false,
            gives: false,
            stop: Stop::Natural,
            output_tokens: None,
        });
        let result = ToolResult {
            id: id.clone().into(),
            digest: Digest::from_bytes(id.as_bytes()),
            chars: 1,
            failed: false,
            sent_back: false,
            unfinished: false,
            cleared: false,
            lined: false,
            remarked: false,
            room: LineRoom::Text,
        };
        let user = UserMessage { results: vec![result], ..UserMessage::default() };
        let step = transcript.add_user_message(&user, Some(&Facts::default()));
        step.additions.into_iter().next().map(|addition| addition.text)
    }

    fn answer(transcript: &mut Transcript) {
        transcript.add_turn(&FinishedTurn {
            text: VisibleText::from_text("That is the whole answer to it."),
            calls: vec![],
            cut_call: false,
            hidden: false,
            gives: false,
            stop: Stop::Natural,
            output_tokens: None,
        });
    }

    /// A run that began under one wording keeps its words when a release with other words reads the
    /// same history, and the next run has the new ones.
    #[test]
    fn a_run_keeps_the_words_that_it_began_under() {
        let policy = Policy { tool_calls_limit: Some(2), ..Policy::default() };
        let new = |words, records| Transcript {
            words,
            ..Transcript::new(Role::Gateway, policy.clone(), records)
        };
        let mut before = new(Wording::First, PinnedRecords::new());
        assert_eq!(add(&mut before, Some("go"), 0), None);
        let first = add(&mut before, None, 1);
        assert_eq!(first.as_deref(), Some("1 tool call remaining"));
        let stored = serde_json::to_string(&before.into_parts().2).unwrap_or_default();
        let records = serde_json::from_str(&stored).unwrap_or_default();

        let mut after = new(Wording::Second, records);
        add(&mut after, Some("go"), 0);
        assert_eq!(add(&mut after, None, 1), first);
        let ask = add(&mut after, None, 2);
        assert!(ask.is_some_and(|ask| ask.contains("Answer now")), "the old words");
        answer(&mut after);
        add(&mut after, Some("and now?"), 0);
        assert_eq!(add(&mut after, None, 4).as_deref(), Some("left: 1 tool"));

        // Without its record a run has the words of today.
        let mut lost = new(Wording::Second, PinnedRecords::new());
        add(&mut lost, Some("go"), 0);
        assert_eq!(add(&mut lost, None, 1).as_deref(), Some("left: 1 tool"));
    }

    #[test]
    fn a_record_without_words_has_the_first() {
        let record = PinnedRecord::new(Policy::default());
        let mut json = serde_json::to_value(&record).unwrap_or_default();
        assert_eq!(json["words"], 1);
        json.as_object_mut().map(|members| members.remove("words"));
        let read: Result<PinnedRecord, _> = serde_json::from_value(json.clone());
        assert_eq!(read.ok().map(|record| record.words), Some(Wording::First));
        json["words"] = 9.into();
        let read: Result<PinnedRecord, _> = serde_json::from_value(json);
        let why = read.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains("newer release"), "{why}");
    }
}
