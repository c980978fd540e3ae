//! The output of the readers of all kinds: conversations for the sink, and what could not be read.

use softland_session::core::{Digest, UserMessage, UserText};

use crate::input::{Input, JsonError, Piece};
use crate::step::{
    ConversationId, ConversationStart, KnownTurn, RecordedSignal, Sink, TurnStep, UserStep,
};

/// Problems that are listed of one file: a file of an unknown kind has one in every line.
const LISTED: usize = 100;

pub(crate) struct StepOutput<'s> {
    sink: &'s mut dyn Sink,
    /// The state of each conversation: whether it is open, and whether a message came before the
    /// model's turn.
    talks: Vec<ConversationState>,
    /// The number of turns.
    turns: u64,
    pub(crate) unreadable: Vec<(Option<u64>, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConversationState {
    Begun,
    Asked,
    Over,
}

impl<'s> StepOutput<'s> {
    pub(crate) fn new(sink: &'s mut dyn Sink) -> Self {
        Self { sink, talks: Vec::new(), turns: 0, unreadable: Vec::new() }
    }

    pub(crate) fn begin_conversation(&mut self, begin: &ConversationStart<'_>) -> ConversationId {
        let talk = ConversationId(self.talks.len());
        self.talks.push(ConversationState::Begun);
        self.sink.begin_conversation(talk, begin);
        talk
    }

    pub(crate) fn send_user_step(&mut self, talk: ConversationId, step: &UserStep<'_>) {
        self.mark_asked(talk);
        self.sink.take_user_step(talk, step);
    }

    /// Hands on a user's message of texts.
    pub(crate) fn send_texts(&mut self, talk: ConversationId, texts: &[&str], said: MessageFacts) {
        let MessageFacts { machine, media, time, line } = said;
        let texts = if machine { &[] } else { texts };
        let texts = texts.iter().map(|text| UserText::new(*text)).collect();
        let user = UserMessage { texts, media, ..UserMessage::default() };
        self.send_user_step(talk, &UserStep { user, machine, time, line });
    }

    pub(crate) fn send_turn(&mut self, talk: ConversationId, turn: &TurnStep<'_>) {
        if self.talks.get(talk.0) == Some(&ConversationState::Begun) {
            // No question is recorded: a run begins all the same.
            let (time, line) = (turn.time, turn.line);
            let step = UserStep { user: UserMessage::default(), machine: true, time, line };
            self.send_user_step(talk, &step);
        }
        self.turns += 1;
        self.sink.take_turn(talk, turn);
    }

    /// Hands on a turn that counts in another file.
    pub(crate) fn send_known_turn(&mut self, talk: ConversationId, turn: &KnownTurn<'_>) {
        self.turns += 1;
        self.sink.take_known_turn(talk, turn);
    }

    /// True if the file has brought no turn.
    pub(crate) fn has_no_turn(&self) -> bool {
        self.turns == 0
    }

    fn mark_asked(&mut self, talk: ConversationId) {
        if let Some(state) = self.talks.get_mut(talk.0) {
            *state = ConversationState::Asked;
        }
    }

    /// Hands on the recorded total of tool calls.
    pub(crate) fn send_call_total(&mut self, talk: ConversationId, calls: u64) {
        self.sink.take_call_total(talk, calls);
    }

    /// Hands on a signal that softland recorded at the time.
    pub(crate) fn send_signal(&mut self, talk: ConversationId, noted: RecordedSignal) {
        self.sink.take_signal(talk, noted);
    }

    /// Hands on the recorded end of the conversation's run.
    pub(crate) fn send_outcome(&mut self, talk: ConversationId, outcome: &str, reason: &str) {
        self.sink.take_outcome(talk, outcome, reason);
    }

    /// Ends a conversation, once.
    pub(crate) fn end_conversation(&mut self, talk: ConversationId) {
        if let Some(state) = self.talks.get_mut(talk.0)
            && *state != ConversationState::Over
        {
            *state = ConversationState::Over;
            self.sink.end_conversation(talk);
        }
    }

    /// Ends all open conversations.
    pub(crate) fn end_all(&mut self) {
        for talk in 0..self.talks.len() {
            self.end_conversation(ConversationId(talk));
        }
    }

    pub(crate) fn list_unreadable(&mut self, line: Option<u64>, reason: impl Into<String>) {
        if self.unreadable.len() < LISTED {
            self.unreadable.push((line, reason.into()));
        }
    }

    /// Lists a piece that had to be mended; it is read all the same.
    pub(crate) fn list_mended(&mut self, piece: &Piece<'_>) {
        if piece.is_mended() {
            self.list_unreadable(
                Some(piece.line),
                "not UTF-8 throughout: read with U+FFFD in its place",
            );
        }
    }

    /// Lists the reason why a document cannot be read on.
    pub(crate) fn list_broken(&mut self, input: &Input<'_>, broken: &JsonError) {
        if input.read_error().is_some() {
            return; // The function that opened the file lists this error.
        }
        let reason = match broken {
            JsonError::Cut => "the JSON ends too early",
            JsonError::Malformed => "no JSON from here",
        };
        self.list_unreadable(Some(input.line_number()), reason);
    }

    /// Calls `each` with every line of JSON, and lists the line with the reason if `each` fails.
    pub(crate) fn read_lines(
        &mut self,
        input: &mut Input<'_>,
        each: &mut dyn FnMut(&mut Self, &str, u64) -> Result<(), String>,
    ) {
        loop {
            match input.take_line() {
                None => return,
                Some(Err(line)) => self.list_unreadable(Some(line), "longer than 64 MiB"),
                Some(Ok(piece)) if piece.text.trim().is_empty() => {}
                Some(Ok(piece)) => {
                    self.list_mended(&piece);
                    let (line, whole) = (piece.line, piece.whole);
                    if let Err(reason) = each(self, &piece.text, line) {
                        let cut = !whole && reason.starts_with("invalid JSON");
                        if cut && input.read_error().is_some() {
                            return;
                        }
                        let reason = if cut { "the last line is cut".to_owned() } else { reason };
                        self.list_unreadable(Some(line), reason);
                    }
                }
            }
        }
    }
}

/// The facts about a user's message beside its texts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageFacts {
    pub(crate) machine: bool,
    pub(crate) media: Option<Digest>,
    pub(crate) time: Option<u64>,
    pub(crate) line: Option<u64>,
}
