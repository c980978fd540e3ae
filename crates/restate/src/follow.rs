//! Follows a run from its beginning: every event once, in order.

use std::time::Duration;

use bytes::Bytes;
use softland_agent::Event;
use softland_agent::durable::{EventReader, OpenRuns, RunEnd};
use tokio::time::Instant;

use crate::client::{EngineClient, EngineFailure, no_worker_answers};
use crate::status::EngineState;

/// The delays between two looks: short after an event, longer while nothing happens.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// The time without an event after which the engine is asked for the state of the run.
const QUIET: Duration = Duration::from_secs(2);
/// The time for which an engine or a worker may be away.
const AWAY: Duration = Duration::from_secs(600);
/// The time without an answer after which it is said that no worker answers.
const SLOW: Duration = Duration::from_secs(10);

/// A remark about the run for the person who follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowNote {
    /// The engine knows the run. Told once, before any event.
    Known,
    /// The engine's last attempt failed for this reason; it tries again.
    Failing(String),
    /// Nothing answers for this reason; it is tried again.
    Away(String),
}

/// The reason why a run cannot be followed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowError {
    /// The engine knows no such run.
    Unknown,
    /// The run was refused before it began, by a build that told no event of it.
    Refused(String),
    /// The engine has paused the run.
    Paused {
        /// The engine's id of the run.
        invocation: String,
        /// The failure of the last attempt.
        failure: Option<String>,
    },
    /// The engine has ended the run, without an end of its own.
    Ended(Option<String>),
    /// A piece of the events cannot be read.
    Unreadable(String),
    /// A request to the engine failed.
    Engine(EngineFailure),
}

impl From<EngineFailure> for FollowError {
    fn from(failure: EngineFailure) -> Self {
        Self::Engine(failure)
    }
}

/// What a look at a run's state says about its events.
enum Look {
    /// More may come. The engine may be trying to get over a failure.
    Open(Option<String>),
    /// The engine was told to end the run, and no event is left.
    Cancelled,
}

/// Follows a run to its end. Where the engine was told to end the run, so that it has no end of its
/// own, the runs of the tree are told as cancelled.
///
/// # Errors
/// Returns an error if the run's terminal event does not come.
pub async fn follow_run(
    client: &EngineClient,
    run: &str,
    hear: &mut (dyn FnMut(&Event) + Send),
    note: &mut (dyn FnMut(FollowNote) + Send),
) -> Result<(), FollowError> {
    let (mut reader, mut number, mut delay) = (EventReader::default(), 0, SHORTEST);
    let (mut quiet, mut away, mut said) = (Duration::ZERO, None, None);
    let (mut open, mut known) = (OpenRuns::default(), false);
    // An unknown run is told at once, and the end of a run that has no event left.
    let mut look = true;
    loop {
        let piece = match fetch_piece(client, run, number, &mut said, note).await {
            Ok(piece) => piece,
            Err(failure) if failure.is_passing() && client.was_reached() => {
                // An engine that was reached once may come back.
                if away.get_or_insert_with(Instant::now).elapsed() >= AWAY {
                    return Err(failure.into());
                }
                say_once(&mut said, FollowNote::Away(failure.to_string()), note);
                tokio::time::sleep(LONGEST).await;
                continue;
            }
            Err(failure) => return Err(failure.into()),
        };
        away = None;
        if !piece.is_empty() {
            say_known(&mut known, note);
            let events = reader.push_piece(&piece);
            for event in events.map_err(|error| FollowError::Unreadable(error.to_string()))? {
                open.push_event(&event);
                hear(&event);
                if event.kind.is_terminal() && event.run == run {
                    return Ok(());
                }
            }
            (number, delay, quiet, look) = (number + 1, SHORTEST, Duration::ZERO, false);
            continue;
        }
        if look || quiet >= QUIET {
            let state = client.find_state(run).await;
            let answered = state.is_ok();
            let seen = check_state(state, client, run, number).await?;
            if answered {
                say_known(&mut known, note);
            }
            match seen {
                Look::Open(None) => {}
                Look::Open(Some(failure)) => {
                    say_once(&mut said, FollowNote::Failing(failure), note);
                }
                Look::Cancelled => {
                    open.cancelled_ends(run).iter().for_each(hear);
                    return Ok(());
                }
            }
            (quiet, look) = (Duration::ZERO, false);
        }
        tokio::time::sleep(delay).await;
        quiet += delay;
        delay = (delay * 2).min(LONGEST);
    }
}

/// Returns a piece of the events. Says after a while that no worker answers.
async fn fetch_piece(
    client: &EngineClient,
    run: &str,
    number: u64,
    said: &mut Option<FollowNote>,
    note: &mut (dyn FnMut(FollowNote) + Send),
) -> Result<Bytes, EngineFailure> {
    let fetching = client.fetch_piece(run, number);
    tokio::pin!(fetching);
    tokio::select! {
        piece = &mut fetching => return piece,
        () = tokio::time::sleep(SLOW) => {}
    }
    say_once(said, FollowNote::Away(no_worker_answers(&client.shown_address())), note);
    fetching.await
}

fn say_known(known: &mut bool, note: &mut (dyn FnMut(FollowNote) + Send)) {
    if !std::mem::replace(known, true) {
        note(FollowNote::Known);
    }
}

fn say_once(
    said: &mut Option<FollowNote>,
    now: FollowNote,
    note: &mut (dyn FnMut(FollowNote) + Send),
) {
    if said.as_ref() != Some(&now) {
        note(now.clone());
        *said = Some(now);
    }
}

/// Returns what the state of a run says about its events, or the reason why none will come.
async fn check_state(
    state: Result<EngineState, EngineFailure>,
    client: &EngineClient,
    run: &str,
    number: u64,
) -> Result<Look, FollowError> {
    let none_left = match state {
        // The look before the events tells it, too.
        Err(failure) if failure.is_passing() => return Ok(Look::Open(None)),
        Err(failure) => return Err(failure.into()),
        Ok(EngineState::Active { failure }) => return Ok(Look::Open(failure)),
        Ok(EngineState::Unknown) => return Err(FollowError::Unknown),
        Ok(EngineState::Paused { invocation, failure }) => {
            return Err(FollowError::Paused { invocation, failure });
        }
        Ok(EngineState::Ended { end: Some(RunEnd::Refused(why)), .. }) => {
            Err(FollowError::Refused(why))
        }
        Ok(EngineState::Cancelled) => Ok(Look::Cancelled),
        Ok(EngineState::Ended { failure, .. }) => Err(FollowError::Ended(failure)),
    };
    // The last events may have come between the two looks.
    match client.fetch_piece(run, number).await {
        Ok(piece) if !piece.is_empty() => Ok(Look::Open(None)),
        Err(failure) if failure.is_passing() => Ok(Look::Open(None)),
        _ => none_left,
    }
}

#[cfg(test)]
mod tests;
