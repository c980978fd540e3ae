//! `softland run`: runs one agent file to its answer.

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use softland_agent::core::{Outcome, Reason};
use softland_agent::journal::Finished;
use softland_agent::{Agent, AnsweredBy, Event, EventKind, Report, Unfit};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::{Format, RunArgs};
use crate::failure::{Failure, status};
use crate::mcp;
use crate::place::Places;
use crate::render::{Kept as Shown, Lost, Show, Tree, Writer, status as status_line, summary};
use crate::settings::Settings;
use crate::signals::Signals;

mod begun;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use begun::{Begun, Kept};

/// The time after which a slow cancellation is reported.
const PATIENCE: Duration = Duration::from_millis(400);

/// Runs the agent, and returns the exit status of its outcome.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let writer = Writer::of_process();
    let begun = Begun::of(&args)?;
    if let Begun::Ended { finished, named } = &begun {
        let listener = Listener::new(&args, writer, None);
        return Ok(begun::tell_again(finished, named.as_deref(), listener));
    }
    if let (Begun::Open { was, .. }, Format::Text) = (&begun, args.format) {
        writer.note(&format!("going on with {}", was.run));
    }
    let args = begun.recall(args);
    let system = |error| Failure::usage(format!("the run cannot begin: {error}"));
    // One thread may be blocked by a slow reader of standard output; the other still receives
    // Ctrl-C.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .map_err(system)?;
    let entered = runtime.enter();
    let mut signals = Signals::with_hangup().map_err(system)?;
    let servers = mcp::servers(&args, &runtime, &mut signals)?;
    let mut settings = Settings::of(&args, &servers)?;
    let kept = begun.keep(&args, &mut settings)?;
    for warning in servers.warnings.iter().chain(&settings.warnings) {
        writer.warning(warning);
    }
    // A status line goes with text output only.
    let _status = (args.format == Format::Text).then(|| writer.status());
    let listener = Listener::new(&args, writer, kept.shown());
    let ended = drive(&runtime, signals, settings, kept, listener);
    if ended.is_some() {
        runtime.block_on(servers.end());
    }
    drop(entered);
    // The end does not wait for tools that are still at work.
    runtime.shutdown_background();
    match ended {
        Some(Ok((report, lost))) => Ok(ExitCode::from(exit_status(&report, lost))),
        Some(Err(unfit)) => Err(Failure::usage(unfit.to_string())),
        None => Ok(ExitCode::from(status::CANCELLED)),
    }
}

/// The report of a run, and the loss on standard output.
type Ended = Result<(Report, Lost), Unfit>;

/// Returns the exit status of an ended run. An answer that could not be written is not a success.
fn exit_status(report: &Report, lost: Lost) -> u8 {
    match (report.ended.outcome, report.answered_by) {
        (Outcome::Failed, _) if report.ended.reason == Reason::Journal => status::USAGE,
        (Outcome::Failed, _) => status::PROVIDER,
        _ if lost == Lost::Failed => status::USAGE,
        _ if lost == Lost::Closed => status::CANCELLED,
        (Outcome::Cancelled, _) => status::CANCELLED,
        (Outcome::Stopped, _) | (_, Some(AnsweredBy::Local)) => status::LOCAL_ANSWER,
        (Outcome::Answered | Outcome::Landed, _) => 0,
    }
}

/// Drives the run to its end. Returns `None` if a second signal forced the end.
fn drive(
    runtime: &Runtime,
    signals: Signals,
    settings: Settings,
    kept: Kept,
    listener: Listener,
) -> Option<Ended> {
    let cancel = CancellationToken::new();
    let running = runtime.spawn(ask(settings, kept, listener, cancel.clone()));
    runtime.block_on(until_end(running, signals, cancel))
}

async fn ask(
    settings: Settings,
    mut kept: Kept,
    mut listener: Listener,
    cancel: CancellationToken,
) -> Ended {
    let Settings { agent, prompt, places, simulated, .. } = settings;
    let began = Instant::now();
    let report = converse(&agent, &prompt, places, &mut kept, &mut listener, &cancel).await?;
    listener.end(&report, began.elapsed(), simulated);
    listener.further(&report, &kept);
    Ok((report, listener.lost()))
}

async fn converse(
    agent: &Agent,
    prompt: &str,
    mut places: Places,
    kept: &mut Kept,
    listener: &mut Listener,
    cancel: &CancellationToken,
) -> Result<Report, Unfit> {
    let Kept { journal, conversation, .. } = kept;
    let mut hear = |event: &Event| {
        if !listener.hear(places.explain(event).as_ref().unwrap_or(event)) {
            // Nobody reads the output, so nothing more is spent.
            cancel.cancel();
        }
    };
    Box::pin(agent.keep(journal, conversation, prompt, &mut hear, cancel)).await
}

/// Waits for the run's end. The first signal cancels the run, a second one ends the wait.
async fn until_end(
    mut running: JoinHandle<Ended>,
    mut signals: Signals,
    cancel: CancellationToken,
) -> Option<Ended> {
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = signals.next() => {
            cancel.cancel();
            tokio::select! {
                ended = running => ended,
                () = signals.next() => return None,
                never = tell_of_delay() => match never {},
            }
        }
    };
    match ended {
        Ok(ended) => Some(ended),
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

/// Explains after a while how to end a run whose cancellation is slow.
async fn tell_of_delay() -> Infallible {
    tokio::time::sleep(PATIENCE).await;
    Writer::of_process().note("cancelling; a second signal ends the run at once");
    std::future::pending().await
}

/// A printer of a run's events.
enum Listener {
    Text { view: Box<Tree>, writer: Writer },
    Json { writer: Writer },
}

impl Listener {
    /// Creates a printer; `kept` holds the arguments with which the run's calls are looked up.
    fn new(args: &RunArgs, writer: Writer, kept: Option<Shown>) -> Self {
        match args.format {
            Format::Json => Self::Json { writer },
            Format::Text => {
                let show = Show {
                    stream_text: writer.stdout_is_terminal(),
                    markdown: writer.answer_colour(),
                    thinking: args.show_thinking,
                    verbose: args.verbose,
                    nested: false,
                };
                Self::Text {
                    view: Box::new(Tree::new(show, args.fold_agents, writer.width(), kept)),
                    writer,
                }
            }
        }
    }

    /// Prints one event, unless an earlier process has done so. Returns false if nobody reads the
    /// output any more.
    fn hear(&mut self, event: &Event) -> bool {
        match self {
            Self::Text { view, writer } => {
                if !is_delta(&event.kind) {
                    view.resize(writer.width());
                }
                status_line::hear(event);
                // Replayed events update the view, since later output depends on them.
                let pieces = view.event(event);
                if !event.replayed {
                    writer.pieces(&pieces);
                }
            }
            Self::Json { writer } if !event.replayed => writer.json(event),
            Self::Json { .. } => {}
        }
        self.lost() == Lost::Nothing
    }

    fn lost(&self) -> Lost {
        match self {
            Self::Text { writer, .. } | Self::Json { writer } => writer.lost(),
        }
    }

    fn end(&mut self, report: &Report, took: Duration, simulated: bool) {
        if let Self::Text { writer, .. } = self {
            let width = writer.width();
            writer.pieces(&summary(report, took, simulated, width));
        }
    }

    /// Prints how to continue a run that had ended before.
    fn ended_before(&mut self, finished: &Finished, named: Option<&Path>) {
        if let Self::Text { writer, .. } = self {
            let (run, outcome) = (&finished.run, finished.report.ended.outcome.word());
            let command = begun::command(run, named, false);
            writer.note(&format!("{run} has ended ({outcome}); ask it more: {command}"));
        }
    }

    /// Prints how to resume or continue the run.
    fn further(&mut self, report: &Report, kept: &Kept) {
        let Some(command) = kept.command(report.resume.is_some()) else { return };
        if let Self::Text { writer, .. } = self {
            let what = if report.resume.is_some() { "go on with it" } else { "ask it more" };
            writer.note(&format!("{what}: {command}"));
        }
    }
}

fn is_delta(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ThinkingDelta { .. }
            | EventKind::ToolInputDelta { .. }
    )
}
