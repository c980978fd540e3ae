//! A run as a stream of its events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Agent, Conversation, Setup, SetupError};
use crate::event::Event;

/// The events of a run, up to its last one: `Done`, or `Error`.
///
/// The run goes on only while the stream is asked for events. Dropping the stream cancels the run
/// and its tools.
pub struct EventStream {
    events: Arc<EventQueue>,
    /// The run; `None` once it has ended.
    run: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Cancels what a dropped run leaves behind, such as blocking tools.
    _cancel: DropGuard,
}

/// The events that the run has emitted and that were not taken yet: at most those of one poll.
#[derive(Default)]
struct EventQueue(Mutex<VecDeque<Event>>);

impl EventQueue {
    fn lock_events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    /// Returns the next event; `None` after the last one.
    pub async fn next_event(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(event) = self.events.lock_events().pop_front() {
            return Poll::Ready(Some(event));
        }
        let ended = match &mut self.run {
            None => true,
            Some(run) => run.as_mut().poll(cx).is_ready(),
        };
        if ended {
            self.run = None;
        }
        match self.events.lock_events().pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

impl Agent {
    /// Runs one prompt in a new conversation, as a stream of events that ends with the run's last
    /// one. The run begins when the stream is first asked.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use softland_agent::testing::{ScriptedModel, ScriptedReply};
    /// use softland_agent::{Agent, EventKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let model = Arc::new(ScriptedModel::new([ScriptedReply::from_text("Twelve.")]));
    /// # let agent = Agent::new("shop", "test/script", model);
    /// let mut events = agent.stream("How many lamps are there?")?;
    /// while let Some(event) = events.next_event().await {
    ///     match event.kind {
    ///         EventKind::TextDelta { text } => print!("{text}"),
    ///         EventKind::Done { report } => assert_eq!(report.answer.as_deref(), Some("Twelve.")),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`SetupError`] before anything is sent. Any later failure of the run is in its last
    /// event.
    pub fn stream(&self, prompt: impl Into<String>) -> Result<EventStream, SetupError> {
        Setup::from_agent(self)?;
        self.check_sub_agents()?;
        let (agent, prompt) = (self.clone(), prompt.into());
        let (events, cancel) = (Arc::new(EventQueue::default()), CancellationToken::new());
        let (sink, token) = (Arc::clone(&events), cancel.clone());
        let run = async move {
            let mut take_event = |event: &Event| sink.lock_events().push_back(event.clone());
            let mut conversation = Conversation::new();
            let ran = agent
                .run_in_conversation(&mut conversation, &prompt, &mut take_event, &token)
                .await;
            debug_assert!(ran.is_ok(), "the agent was checked, and its conversation is new");
        };
        Ok(EventStream { events, run: Some(Box::pin(run)), _cancel: cancel.drop_guard() })
    }
}
