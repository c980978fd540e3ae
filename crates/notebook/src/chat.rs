//! The assistant of a notebook: one conversation, one run at a time, its events for whoever
//! watches.
//!
//! What a run may do and how it ends is the agent's; what is kept is its journal's. Nothing here
//! knows of browsers or of the notebook's cells.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use softland_agent::core::Outcome;
use softland_agent::journal::now;
use softland_agent::{Agent, Conversation, Event, EventKind, Inbox, Report};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

mod kept;
mod owner;
mod tape;

use kept::Kept;
use tape::Tape;

/// Characters of a question.
const QUESTION: usize = 200_000;
/// Questions that may wait for a run that is under way.
const WAITING: usize = 20;
/// Events that a watcher may be behind before it is shown everything anew.
const BEHIND: usize = 4096;

/// What rewords an event for people; `None`: it stays as it is.
pub type Explain = Box<dyn FnMut(&Event) -> Option<Event> + Send>;

/// Where conversations are kept.
#[derive(Clone, Debug, Default)]
pub struct ChatOptions {
    /// The folder of the runs' journals.
    pub journals: Option<PathBuf>,
    /// The folder of the lists that say which runs belong to which notebook.
    pub lists: Option<PathBuf>,
    /// The notebook's file was not there and has just been made: what was said about one that had
    /// its path before is not about this one.
    pub made: bool,
}

/// The conversation with a notebook's assistant.
pub struct Chat {
    agent: Agent,
    explain: Mutex<Explain>,
    kept: Arc<Kept>,
    talk: Mutex<Talk>,
    said: broadcast::Sender<Arc<str>>,
    running: watch::Sender<bool>,
}

struct Talk {
    tape: Tape,
    /// Here while no run is under way.
    conversation: Option<Conversation>,
    inbox: Inbox,
    run: Option<Running>,
    /// The run whose conversation the next one goes on with.
    before: Option<String>,
}

/// A run that is under way.
struct Running {
    cancel: CancellationToken,
    id: String,
    /// Of its newest event.
    seq: u64,
    turn: u64,
    waiting: usize,
    /// A request is under way, whose cost is not known yet.
    asks: bool,
    /// What ends it before its time.
    stopped: Option<StoppedBy>,
    /// Its last event, told once the conversation is back: whoever is told of the end may ask anew.
    end: Option<Value>,
}

/// What ends a run before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    /// A person who wants it so.
    User,
    /// Nobody looks any more.
    Left,
    /// softland is stopped.
    Closed,
    /// The process was ended, and with it the run.
    Killed,
}

impl StoppedBy {
    /// The word that pages are told.
    const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Left => "left",
            Self::Closed => "closed",
            Self::Killed => "killed",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::User, Self::Left, Self::Closed, Self::Killed]
            .into_iter()
            .find(|by| by.word() == word)
    }

    const fn message(self) -> &'static str {
        match self {
            Self::User => "stopped by a person",
            Self::Left => "stopped, since no page was open any more",
            Self::Closed => "stopped with softland",
            Self::Killed => "broken off: softland was killed while it ran",
        }
    }
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// It has begun a run.
    Began,
    /// The run under way hears it after the results of its round.
    Joined,
}

impl Chat {
    /// Opens the conversation of the notebook at `path` as it was left. A run that did not come to
    /// its end is ended now, its open calls answered; nothing is sent.
    ///
    /// Returns what is worth a warning, too.
    pub async fn open(
        agent: Agent,
        path: &std::path::Path,
        options: ChatOptions,
        explain: Explain,
    ) -> (Arc<Self>, Vec<String>) {
        let mut warnings = Vec::new();
        let (kept, left) = Kept::open(path, options, &agent, &mut warnings).await;
        let inbox = left.conversation.inbox();
        let talk = Talk {
            tape: left.tape,
            conversation: Some(left.conversation),
            inbox,
            run: None,
            before: left.before,
        };
        let (said, running) = (broadcast::Sender::new(BEHIND), watch::Sender::new(false));
        let (explain, talk, kept) = (Mutex::new(explain), Mutex::new(talk), Arc::new(kept));
        (Arc::new(Self { agent, explain, kept, talk, said, running }), warnings)
    }

    /// The events so far, each a JSON text, and those that follow: none is missed, none comes twice.
    #[must_use]
    pub fn watch(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        let talk = lock(&self.talk);
        (talk.tape.all(), self.said.subscribe())
    }

    /// Whether a run is under way.
    #[must_use]
    pub fn is_running(&self) -> bool {
        *self.running.borrow()
    }

    /// Waits until no run is under way.
    pub async fn idle(&self) {
        let mut running = self.running.subscribe();
        let _ = running.wait_for(|running| !running).await;
    }

    /// Asks the assistant. While a run is under way, the run hears it: there is one at a time.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub fn ask(self: &Arc<Self>, text: &str) -> Result<Asked, String> {
        if text.trim().is_empty() {
            return Err("the question is empty".to_owned());
        }
        if text.chars().nth(QUESTION).is_some() {
            return Err(format!("a question has at most {QUESTION} characters"));
        }
        let mut talk = lock(&self.talk);
        let inbox = talk.inbox.clone();
        if let Some(run) = &mut talk.run {
            if run.waiting >= WAITING {
                return Err(format!("{WAITING} messages wait for the run already; stop it first"));
            }
            run.waiting += 1;
            inbox.say(text);
            let (id, seq, turn) = (run.id.clone(), run.seq, run.turn);
            self.kept.said(&id, seq, text);
            self.tell(&mut talk, &question(&id, turn, text, true));
            return Ok(Asked::Joined);
        }
        let conversation = talk.conversation.take().unwrap_or_default();
        self.begin(&mut talk, conversation, text);
        Ok(Asked::Began)
    }

    /// Begins a new conversation: what was said is not shown to the model any more, nor on pages.
    /// Its runs stay where they are kept.
    ///
    /// # Errors
    /// A run is under way, or it cannot be kept that it is a new one.
    pub fn anew(&self) -> Result<(), String> {
        let mut talk = lock(&self.talk);
        if talk.run.is_some() {
            return Err("a run is under way; stop it first".to_owned());
        }
        self.kept.anew().map_err(|error| format!("it cannot be kept: {error}"))?;
        let conversation = Conversation::new();
        talk.inbox = conversation.inbox();
        talk.conversation = Some(conversation);
        (talk.before, talk.tape) = (None, Tape::default());
        let event = json!({"v": 1, "ts": now(), "run": "", "turn": 0, "event": "new_conversation"});
        let _ = self.said.send(event.to_string().into());
        Ok(())
    }

    /// Ends the run under way: the model, its tools. Returns whether there was one, and when it has
    /// ended.
    pub async fn stop(&self, by: StoppedBy) -> bool {
        let cancel = lock(&self.talk).run.as_mut().map(|run| {
            if run.stopped.is_none() {
                run.stopped = Some(by);
                self.kept.stopped(&run.id, by, run.asks);
            }
            run.cancel.clone()
        });
        let Some(cancel) = cancel else { return false };
        cancel.cancel();
        self.idle().await;
        true
    }

    fn begin(self: &Arc<Self>, talk: &mut Talk, conversation: Conversation, text: &str) {
        let (journal, trouble) = self.kept.begin(talk.before.as_deref(), text);
        let (id, cancel) = (journal.run().to_owned(), CancellationToken::new());
        if let Some(trouble) = trouble {
            self.tell(talk, &note(&id, &trouble));
        }
        if !text.is_empty() {
            self.tell(talk, &question(&id, 0, text, false));
        }
        let run = Running {
            cancel: cancel.clone(),
            id: id.clone(),
            seq: 0,
            turn: 0,
            waiting: 0,
            asks: false,
            stopped: None,
            end: None,
        };
        talk.run = Some(run);
        self.running.send_replace(true);
        let (chat, text) = (Arc::clone(self), text.to_owned());
        tokio::spawn(async move {
            let mut conversation = conversation;
            chat.remember().await;
            let mut hear = |event: &Event| chat.hear(event);
            let asked = chat.agent.keep(&journal, &mut conversation, &text, &mut hear, &cancel);
            if let Err(unfit) = Box::pin(asked).await
                && let Some(run) = &mut lock(&chat.talk).run
            {
                run.end = Some(failed(&id, &unfit.to_string()));
            }
            // The file is given free before anybody may read it.
            drop(journal);
            chat.remember().await;
            chat.end(&id, conversation, cancel.is_cancelled());
        });
    }

    /// Keeps which notebook it is about.
    async fn remember(&self) {
        let kept = Arc::clone(&self.kept);
        let _ = tokio::task::spawn_blocking(move || kept.remember()).await;
    }

    /// Takes the conversation back; what was said too late for the run opens the next one.
    fn end(self: &Arc<Self>, id: &str, conversation: Conversation, stopped: bool) {
        let mut talk = lock(&self.talk);
        if let Some(end) = talk.run.take().and_then(|run| run.end) {
            self.tell(&mut talk, &end);
        }
        talk.before = Some(id.to_owned());
        if !stopped && !talk.inbox.is_empty() {
            return self.begin(&mut talk, conversation, "");
        }
        talk.conversation = Some(conversation);
        drop(talk);
        self.running.send_replace(false);
    }

    fn hear(&self, event: &Event) {
        let explained = lock(&self.explain)(event);
        let event = explained.as_ref().unwrap_or(event);
        let Ok(mut value) = serde_json::to_value(event) else { return };
        let mut talk = lock(&self.talk);
        if let Some(run) = &mut talk.run {
            (run.seq, run.turn) = (event.seq, event.turn);
            if matches!(event.kind, EventKind::TurnStart { .. }) {
                run.waiting = 0;
            }
            match (&event.kind, run.stopped) {
                (EventKind::TurnStart { .. }, _) => run.asks = true,
                (EventKind::Usage { .. }, None) => run.asks = false,
                (EventKind::Error { report, .. }, Some(by)) if is_cancelled(report) => {
                    tell_stop(&mut value, by, run.asks);
                }
                _ => {}
            }
            if event.kind.is_terminal() && event.run == run.id {
                run.end = Some(value);
                return;
            }
        }
        self.tell(&mut talk, &value);
    }

    /// Tells whoever watches, in the order in which it stands on the tape.
    fn tell(&self, talk: &mut Talk, event: &Value) {
        talk.tape.add(event);
        let _ = self.said.send(event.to_string().into());
    }
}

impl std::fmt::Debug for Chat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chat").field("agent", &self.agent.name).finish_non_exhaustive()
    }
}

/// What a person has said: `steers` to a run that was under way.
fn question(run: &str, turn: u64, text: &str, steers: bool) -> Value {
    json!({"v": 1, "ts": now(), "run": run, "turn": turn, "event": "question", "text": text,
        "steers": steers})
}

fn is_cancelled(report: &Report) -> bool {
    report.ended.outcome == Outcome::Cancelled
}

/// The end of a run that was stopped: by what, and whether what it cost is known to the end.
fn tell_stop(end: &mut Value, by: StoppedBy, estimated: bool) {
    end["stopped_by"] = by.word().into();
    end["message"] = by.message().into();
    end["estimated"] = estimated.into();
}

fn note(run: &str, text: &str) -> Value {
    json!({"v": 1, "ts": now(), "run": run, "turn": 0, "event": "note", "text": text})
}

/// A run that could not begin has an end, too.
fn failed(run: &str, message: &str) -> Value {
    json!({"v": 1, "ts": now(), "run": run, "turn": 0, "event": "error", "outcome": "failed",
        "reason": "configuration", "message": message, "turns": 0, "tool_calls": 0,
        "cost_usd": 0.0})
}

/// No lock is held over anything that panics; were one poisoned, what it holds is whole.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
