//! The assistant of a notebook: one conversation, one run at a time, and its events for all
//! watchers.
//!
//! The agent decides what a run may do and how it ends, and its journal what is kept. This module
//! knows nothing of browsers or of the notebook's cells.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use softland_agent::core::Outcome;
use softland_agent::journal::now_rfc3339;
use softland_agent::{Agent, Conversation, Event, EventKind, Inbox, Report};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

mod history;
mod owner;
mod storage;

use history::EventHistory;
use storage::ChatStorage;

/// The most characters of a question.
const QUESTION: usize = 200_000;
/// The number of questions that may wait for the current run.
const WAITING: usize = 20;
/// The number of events that a watcher may be behind before it is shown everything again.
const BEHIND: usize = 4096;

/// A function that rewords an event for people; `None` leaves it is.
pub type ExplainEvent = Box<dyn FnMut(&Event) -> Option<Event> + Send>;

/// The places where conversations are kept.
#[derive(Clone, Debug, Default)]
pub struct ChatOptions {
    /// The folder of the runs' journals.
    pub journals: Option<PathBuf>,
    /// The folder of the lists that say which runs belong to which notebook.
    pub lists: Option<PathBuf>,
    /// True if the notebook's file was just created. Conversations about an earlier file at its
    /// path do not belong to it.
    pub made: bool,
}

/// The conversation with a notebook's assistant.
pub struct Chat {
    agent: Agent,
    explain: Mutex<ExplainEvent>,
    kept: Arc<ChatStorage>,
    talk: Mutex<ChatState>,
    said: broadcast::Sender<Arc<str>>,
    running: watch::Sender<bool>,
}

struct ChatState {
    tape: EventHistory,
    /// The conversation, while no run is active.
    conversation: Option<Conversation>,
    inbox: Inbox,
    run: Option<ActiveRun>,
    /// The run whose conversation the next run continues.
    before: Option<String>,
}

/// The active run.
struct ActiveRun {
    cancel: CancellationToken,
    id: String,
    /// The number of its newest event.
    seq: u64,
    turn: u64,
    waiting: usize,
    /// True while a request is active, whose cost is not known yet.
    asks: bool,
    /// The cause that ends the run early.
    stopped: Option<StoppedBy>,
    /// The run's last event. It is sent once the conversation is back: a watcher may ask again at
    /// once.
    end: Option<Value>,
}

/// The cause that ends a run early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    /// A person stopped it.
    User,
    /// No page is open any more.
    Left,
    /// softland is being stopped.
    Closed,
    /// The process was killed, and with it the run.
    Killed,
}

impl StoppedBy {
    /// Returns the word that pages receive.
    const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Left => "left",
            Self::Closed => "closed",
            Self::Killed => "killed",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
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

/// The effect of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionOutcome {
    /// The question has begun a run.
    Began,
    /// The active run receives the question after the results of its round.
    Joined,
}

impl Chat {
    /// Opens the conversation of the notebook at `path` as it was left. A run that did not end is
    /// ended now, with results for its open calls; nothing is sent.
    ///
    /// Also returns warnings.
    pub async fn open(
        agent: Agent,
        path: &std::path::Path,
        options: ChatOptions,
        explain: ExplainEvent,
    ) -> (Arc<Self>, Vec<String>) {
        let mut warnings = Vec::new();
        let (kept, left) = ChatStorage::open(path, options, &agent, &mut warnings).await;
        let inbox = left.conversation.inbox();
        let talk = ChatState {
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

    /// Returns the events so far, each as JSON text, and a receiver of those that follow: none is
    /// missed, none comes twice.
    #[must_use]
    pub fn watch(&self) -> (Vec<Arc<str>>, broadcast::Receiver<Arc<str>>) {
        let talk = lock(&self.talk);
        (talk.tape.all_events(), self.said.subscribe())
    }

    /// Returns true if a run is active.
    #[must_use]
    pub fn is_running(&self) -> bool {
        *self.running.borrow()
    }

    /// Waits until no run is active.
    pub async fn wait_until_idle(&self) {
        let mut running = self.running.subscribe();
        let _ = running.wait_for(|running| !running).await;
    }

    /// Asks the assistant. While a run is active, the run receives the question: there is only one
    /// run at a time.
    ///
    /// # Errors
    /// Returns the reason why the assistant cannot be asked.
    pub fn ask_question(self: &Arc<Self>, text: &str) -> Result<QuestionOutcome, String> {
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
            inbox.send_text(text);
            let (id, seq, turn) = (run.id.clone(), run.seq, run.turn);
            self.kept.record_message(&id, seq, text);
            self.send_event(&mut talk, &question_event(&id, turn, text, true));
            return Ok(QuestionOutcome::Joined);
        }
        let conversation = talk.conversation.take().unwrap_or_default();
        self.begin_run(&mut talk, conversation, text);
        Ok(QuestionOutcome::Began)
    }

    /// Begins a new conversation. Earlier messages are no longer shown to the model, nor on pages.
    /// Their runs stay where they are kept.
    ///
    /// # Errors
    /// A run is active, or the new conversation cannot be recorded.
    pub fn begin_conversation(&self) -> Result<(), String> {
        let mut talk = lock(&self.talk);
        if talk.run.is_some() {
            return Err("a run is under way; stop it first".to_owned());
        }
        self.kept.begin_conversation().map_err(|error| format!("it cannot be kept: {error}"))?;
        let conversation = Conversation::new();
        talk.inbox = conversation.inbox();
        talk.conversation = Some(conversation);
        (talk.before, talk.tape) = (None, EventHistory::default());
        let event =
            json!({"v": 1, "ts": now_rfc3339(), "run": "", "turn": 0, "event": "new_conversation"});
        let _ = self.said.send(event.to_string().into());
        Ok(())
    }

    /// Ends the active run: the model and its tools. Returns after the end, with true if there was
    /// a run.
    pub async fn stop_run(&self, by: StoppedBy) -> bool {
        let cancel = lock(&self.talk).run.as_mut().map(|run| {
            if run.stopped.is_none() {
                run.stopped = Some(by);
                self.kept.record_stop(&run.id, by, run.asks);
            }
            run.cancel.clone()
        });
        let Some(cancel) = cancel else { return false };
        cancel.cancel();
        self.wait_until_idle().await;
        true
    }

    fn begin_run(self: &Arc<Self>, talk: &mut ChatState, conversation: Conversation, text: &str) {
        let (journal, trouble) = self.kept.begin_run(talk.before.as_deref(), text);
        let (id, cancel) = (journal.run_id().to_owned(), CancellationToken::new());
        if let Some(trouble) = trouble {
            self.send_event(talk, &note_event(&id, &trouble));
        }
        if !text.is_empty() {
            self.send_event(talk, &question_event(&id, 0, text, false));
        }
        let run = ActiveRun {
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
            chat.remember_notebook().await;
            let mut hear = |event: &Event| chat.take_event(event);
            let asked =
                chat.agent.run_in_journal(&journal, &mut conversation, &text, &mut hear, &cancel);
            if let Err(unfit) = Box::pin(asked).await
                && let Some(run) = &mut lock(&chat.talk).run
            {
                run.end = Some(failure_event(&id, &unfit.to_string()));
            }
            // Release the file before anybody may read it.
            drop(journal);
            chat.remember_notebook().await;
            chat.end_run(&id, conversation, cancel.is_cancelled());
        });
    }

    /// Records which notebook the conversation is about.
    async fn remember_notebook(&self) {
        let kept = Arc::clone(&self.kept);
        let _ = tokio::task::spawn_blocking(move || kept.remember_notebook()).await;
    }

    /// Takes the conversation back. Messages that came too late for the run open the next one.
    fn end_run(self: &Arc<Self>, id: &str, conversation: Conversation, stopped: bool) {
        let mut talk = lock(&self.talk);
        if let Some(end) = talk.run.take().and_then(|run| run.end) {
            self.send_event(&mut talk, &end);
        }
        talk.before = Some(id.to_owned());
        if !stopped && !talk.inbox.is_empty() {
            return self.begin_run(&mut talk, conversation, "");
        }
        talk.conversation = Some(conversation);
        drop(talk);
        self.running.send_replace(false);
    }

    fn take_event(&self, event: &Event) {
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
                    mark_stop(&mut value, by, run.asks);
                }
                _ => {}
            }
            if event.kind.is_terminal() && event.run == run.id {
                run.end = Some(value);
                return;
            }
        }
        self.send_event(&mut talk, &value);
    }

    /// Sends an event to all watchers, in the order of the recorded events.
    fn send_event(&self, talk: &mut ChatState, event: &Value) {
        talk.tape.add_event(event);
        let _ = self.said.send(event.to_string().into());
    }
}

impl std::fmt::Debug for Chat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chat").field("agent", &self.agent.name).finish_non_exhaustive()
    }
}

/// Returns the event of a person's message. `steers` is true if it went to an active run.
fn question_event(run: &str, turn: u64, text: &str, steers: bool) -> Value {
    json!({"v": 1, "ts": now_rfc3339(), "run": run, "turn": turn, "event": "question", "text": text,
        "steers": steers})
}

fn is_cancelled(report: &Report) -> bool {
    report.ended.outcome == Outcome::Cancelled
}

/// Adds to the end of a stopped run its cause, and whether its cost is estimated.
fn mark_stop(end: &mut Value, by: StoppedBy, estimated: bool) {
    end["stopped_by"] = by.word().into();
    end["message"] = by.message().into();
    end["estimated"] = estimated.into();
}

fn note_event(run: &str, text: &str) -> Value {
    json!({"v": 1, "ts": now_rfc3339(), "run": run, "turn": 0, "event": "note", "text": text})
}

/// Returns the end of a run that could not begin.
fn failure_event(run: &str, message: &str) -> Value {
    json!({"v": 1, "ts": now_rfc3339(), "run": run, "turn": 0, "event": "error", "outcome": "failed",
        "reason": "configuration", "message": message, "turns": 0, "tool_calls": 0,
        "cost_usd": 0.0})
}

/// No lock is held over anything that panics; if one were poisoned, its data would still be whole.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
