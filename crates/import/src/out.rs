//! The output of the readers of all kinds: conversations for the sink, and what could not be read.

use softland_session::core::{User, UserText};

use crate::input::{Broken, Input, Piece};
use crate::step::{Begin, Noted, Sink, Talk, Turn, UserStep};

/// Problems that are listed of one file: a file of an unknown kind has one in every line.
const LISTED: usize = 100;

pub(crate) struct Out<'s> {
    sink: &'s mut dyn Sink,
    /// The state of each conversation: whether it is open, and whether a message came before the
    /// model's turn.
    talks: Vec<State>,
    pub(crate) unreadable: Vec<(Option<u64>, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Asked,
    Over,
}

impl<'s> Out<'s> {
    pub(crate) fn new(sink: &'s mut dyn Sink) -> Self {
        Self { sink, talks: Vec::new(), unreadable: Vec::new() }
    }

    pub(crate) fn begin(&mut self, begin: &Begin<'_>) -> Talk {
        let talk = Talk(self.talks.len());
        self.talks.push(State::Begun);
        self.sink.begin(talk, begin);
        talk
    }

    pub(crate) fn user(&mut self, talk: Talk, step: &UserStep<'_>) {
        self.asked(talk);
        self.sink.user(talk, step);
    }

    /// Hands on a user's message of texts.
    pub(crate) fn texts(&mut self, talk: Talk, texts: &[&str], said: Said) {
        let Said { machine, media, time, line } = said;
        let texts = if machine { &[] } else { texts };
        let texts = texts.iter().map(|text| UserText::of(*text)).collect();
        let user = User { texts, media, ..User::default() };
        self.user(talk, &UserStep { user, machine, time, line });
    }

    pub(crate) fn turn(&mut self, talk: Talk, turn: &Turn<'_>) {
        if self.talks.get(talk.0) == Some(&State::Begun) {
            // No question is recorded: a run begins all the same.
            let (time, line) = (turn.time, turn.line);
            let step = UserStep { user: User::default(), machine: true, time, line };
            self.user(talk, &step);
        }
        self.sink.turn(talk, turn);
    }

    fn asked(&mut self, talk: Talk) {
        if let Some(state) = self.talks.get_mut(talk.0) {
            *state = State::Asked;
        }
    }

    /// Hands on the recorded total of tool calls.
    pub(crate) fn counted(&mut self, talk: Talk, calls: u64) {
        self.sink.counted(talk, calls);
    }

    /// Hands on a signal that softland recorded at the time.
    pub(crate) fn noted(&mut self, talk: Talk, noted: Noted) {
        self.sink.noted(talk, noted);
    }

    /// Hands on the recorded end of the conversation's run.
    pub(crate) fn outcome(&mut self, talk: Talk, outcome: &str, reason: &str) {
        self.sink.outcome(talk, outcome, reason);
    }

    /// Ends a conversation, once.
    pub(crate) fn end(&mut self, talk: Talk) {
        if let Some(state) = self.talks.get_mut(talk.0)
            && *state != State::Over
        {
            *state = State::Over;
            self.sink.end(talk);
        }
    }

    /// Ends all open conversations.
    pub(crate) fn end_all(&mut self) {
        for talk in 0..self.talks.len() {
            self.end(Talk(talk));
        }
    }

    pub(crate) fn unreadable(&mut self, line: Option<u64>, reason: impl Into<String>) {
        if self.unreadable.len() < LISTED {
            self.unreadable.push((line, reason.into()));
        }
    }

    /// Lists a piece that had to be mended; it is read all the same.
    pub(crate) fn mended(&mut self, piece: &Piece<'_>) {
        if piece.is_mended() {
            self.unreadable(
                Some(piece.line),
                "not UTF-8 throughout: read with U+FFFD in its place",
            );
        }
    }

    /// Lists the reason why a document cannot be read on.
    pub(crate) fn broken(&mut self, input: &Input<'_>, broken: &Broken) {
        if input.failed().is_some() {
            return; // The function that opened the file lists this error.
        }
        let reason = match broken {
            Broken::Cut => "the JSON ends before it is over",
            Broken::Malformed => "no JSON from here",
        };
        self.unreadable(Some(input.line_number()), reason);
    }

    /// Calls `each` with every line of JSON, and lists the line with the reason if `each` fails.
    pub(crate) fn lines(
        &mut self,
        input: &mut Input<'_>,
        each: &mut dyn FnMut(&mut Self, &str, u64) -> Result<(), String>,
    ) {
        loop {
            match input.line() {
                None => return,
                Some(Err(line)) => self.unreadable(Some(line), "longer than 64 MiB"),
                Some(Ok(piece)) if piece.text.trim().is_empty() => {}
                Some(Ok(piece)) => {
                    self.mended(&piece);
                    let (line, whole) = (piece.line, piece.whole);
                    if let Err(reason) = each(self, &piece.text, line) {
                        let cut = !whole && reason.starts_with("invalid JSON");
                        if cut && input.failed().is_some() {
                            return;
                        }
                        let reason = if cut { "the last line is cut".to_owned() } else { reason };
                        self.unreadable(Some(line), reason);
                    }
                }
            }
        }
    }
}

/// The facts about a user's message beside its texts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    pub(crate) machine: bool,
    pub(crate) media: bool,
    pub(crate) time: Option<u64>,
    pub(crate) line: Option<u64>,
}
