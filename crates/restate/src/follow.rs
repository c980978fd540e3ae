//! Follows a run from its beginning: every event once, in order.

use std::time::Duration;

use softland_agent::Event;
use softland_agent::durable::{EventReader, RunEnd};

use crate::client::{EngineClient, EngineFailure};
use crate::status::EngineState;

/// The delays between two looks: short after an event, longer while nothing happens.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);
/// The time without an event after which the engine is asked for the state of the run.
const QUIET: Duration = Duration::from_secs(2);
/// The time for which an engine or a worker may be away.
const AWAY: Duration = Duration::from_secs(600);

/// A remark about the run for the person who follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowNote {
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
    /// The run was refused before it began.
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

/// Follows a run to its end.
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
    let (mut quiet, mut away, mut said) = (Duration::ZERO, Duration::ZERO, None);
    // An unknown run is told at once, and the end of a run that has no event left.
    let mut look = true;
    loop {
        let piece = match client.fetch_piece(run, number).await {
            Ok(piece) => piece,
            Err(failure) if failure.is_passing() && away < AWAY => {
                say_once(&mut said, FollowNote::Away(failure.to_string()), note);
                tokio::time::sleep(LONGEST).await;
                away += LONGEST;
                continue;
            }
            Err(failure) => return Err(failure.into()),
        };
        away = Duration::ZERO;
        if !piece.is_empty() {
            let events = reader.push_piece(&piece);
            for event in events.map_err(|error| FollowError::Unreadable(error.to_string()))? {
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
            if let Some(failure) = check_state(state, client, run, number).await? {
                say_once(&mut said, FollowNote::Failing(failure), note);
            }
            (quiet, look) = (Duration::ZERO, false);
        }
        tokio::time::sleep(delay).await;
        quiet += delay;
        delay = (delay * 2).min(LONGEST);
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

/// Returns the failure that the engine is trying to get over, or the reason why no event will come.
async fn check_state(
    state: Result<EngineState, EngineFailure>,
    client: &EngineClient,
    run: &str,
    number: u64,
) -> Result<Option<String>, FollowError> {
    match state {
        // The look before the events tells it, too.
        Err(failure) if failure.is_passing() => Ok(None),
        Err(failure) => Err(failure.into()),
        Ok(EngineState::Active { failure }) => Ok(failure),
        Ok(EngineState::Unknown) => Err(FollowError::Unknown),
        Ok(EngineState::Paused { invocation, failure }) => {
            Err(FollowError::Paused { invocation, failure })
        }
        Ok(EngineState::Ended { end: Some(RunEnd::Refused(why)), .. }) => {
            Err(FollowError::Refused(why))
        }
        // The last events may have come between the two looks.
        Ok(EngineState::Ended { failure, .. }) => match client.fetch_piece(run, number).await {
            Ok(piece) if !piece.is_empty() => Ok(None),
            _ => Err(FollowError::Ended(failure)),
        },
    }
}
