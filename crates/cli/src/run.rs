//! `softland run`: runs one agent file to its answer.

use std::convert::Infallible;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use softland_agent::core::{Outcome, Reason};
use softland_agent::journal::FinishedRun;
use softland_agent::{Agent, AnsweredBy, Event, EventKind, Report, SetupError};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::args::{OutputFormat, RunArgs};
use crate::failure::{Failure, status};
use crate::mcp;
use crate::platform::Signals;
use crate::provider_status::ProviderStatuses;
use crate::render::{
    CallLocator as Shown, OutputLoss, RunTreeView, ViewOptions, Writer, render_summary,
    status as status_line,
};
use crate::settings::RunSettings;

#[cfg(feature = "engine")]
pub(crate) mod engine;
mod origin;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use origin::{RunOrigin, StoredRun};

/// The time after which a slow cancellation is reported.
const PATIENCE: Duration = Duration::from_millis(400);

/// Runs the agent, and returns the exit status of its outcome.
pub(crate) fn run_command(args: RunArgs) -> Result<ExitCode, Failure> {
    let writer = Writer::for_process();
    let begun = RunOrigin::from_args(&args)?;
    if let RunOrigin::Ended { finished, named } = &begun {
        let listener = EventPrinter::new(&args, writer, None);
        return Ok(origin::print_ended_run(finished, named.as_deref(), listener));
    }
    if let (RunOrigin::Open { was, .. }, OutputFormat::Text) = (&begun, args.format) {
        writer.write_note(&format!("resuming {}", was.run));
    }
    let args = begun.recall_args(args);
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
    let servers = mcp::start_servers(&args, &runtime, &mut signals)?;
    let mut settings = RunSettings::from_args(&args, &servers)?;
    let kept = begun.open_journal(&args, &mut settings)?;
    for warning in servers.warnings.iter().chain(&settings.warnings) {
        writer.write_warning(warning);
    }
    // A status line goes with text output only.
    let _status = (args.format == OutputFormat::Text).then(|| writer.show_status());
    let listener = EventPrinter::new(&args, writer, kept.call_locator());
    let ended = drive_run(&runtime, signals, settings, kept, listener);
    if ended.is_some() {
        runtime.block_on(servers.shut_down());
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
type RunResult = Result<(Report, OutputLoss), SetupError>;

/// Returns the exit status of an ended run. An answer that could not be written is not a success.
fn exit_status(report: &Report, lost: OutputLoss) -> u8 {
    match (report.ended.outcome, report.answered_by) {
        (Outcome::Failed, _) if matches!(report.ended.reason, Reason::Journal | Reason::Setup) => {
            status::USAGE
        }
        (Outcome::Failed, _) => status::PROVIDER,
        _ if lost == OutputLoss::Failed => status::USAGE,
        _ if lost == OutputLoss::Closed => status::CANCELLED,
        (Outcome::Cancelled, _) => status::CANCELLED,
        (Outcome::Stopped, _) | (_, Some(AnsweredBy::Local)) => status::LOCAL_ANSWER,
        (Outcome::Answered | Outcome::Landed, _) => 0,
    }
}

/// Drives the run to its end. Returns `None` if a second signal forced the end.
fn drive_run(
    runtime: &Runtime,
    signals: Signals,
    settings: RunSettings,
    kept: StoredRun,
    listener: EventPrinter,
) -> Option<RunResult> {
    let cancel = CancellationToken::new();
    let running = runtime.spawn(ask_agent(settings, kept, listener, cancel.clone()));
    runtime.block_on(wait_for_end(running, signals, cancel))
}

async fn ask_agent(
    settings: RunSettings,
    mut kept: StoredRun,
    mut listener: EventPrinter,
    cancel: CancellationToken,
) -> RunResult {
    let RunSettings { agent, prompt, places, simulated, .. } = settings;
    let began = Instant::now();
    let report =
        run_conversation(&agent, &prompt, places, &mut kept, &mut listener, &cancel).await?;
    listener.print_summary(&report, began.elapsed(), simulated);
    listener.print_next_command(&report, &kept);
    Ok((report, listener.output_loss()))
}

async fn run_conversation(
    agent: &Agent,
    prompt: &str,
    mut places: ProviderStatuses,
    kept: &mut StoredRun,
    listener: &mut EventPrinter,
    cancel: &CancellationToken,
) -> Result<Report, SetupError> {
    let StoredRun { journal, conversation, .. } = kept;
    let mut hear = |event: &Event| {
        if !listener.print_event(places.explain_error(event).as_ref().unwrap_or(event)) {
            // Nobody reads the output, so nothing more is spent.
            cancel.cancel();
        }
    };
    Box::pin(agent.run_in_journal(journal, conversation, prompt, &mut hear, cancel)).await
}

/// Waits for the run's end. The first signal cancels the run, a second one ends the wait.
async fn wait_for_end(
    mut running: JoinHandle<RunResult>,
    mut signals: Signals,
    cancel: CancellationToken,
) -> Option<RunResult> {
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = signals.next() => {
            cancel.cancel();
            tokio::select! {
                ended = running => ended,
                () = signals.next() => return None,
                never = report_delay() => match never {},
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
async fn report_delay() -> Infallible {
    tokio::time::sleep(PATIENCE).await;
    Writer::for_process().write_note("cancelling; a second signal ends the run at once");
    std::future::pending().await
}

/// A printer of a run's events.
enum EventPrinter {
    Text { view: Box<RunTreeView>, writer: Writer },
    Json { writer: Writer },
}

impl EventPrinter {
    /// Creates a printer; `kept` holds the arguments with which the run's calls are looked up.
    fn new(args: &RunArgs, writer: Writer, kept: Option<Shown>) -> Self {
        match args.format {
            OutputFormat::Json => Self::Json { writer },
            OutputFormat::Text => {
                let show = ViewOptions {
                    stream_text: writer.stdout_is_terminal(),
                    markdown: writer.answer_colour(),
                    thinking: args.show_thinking,
                    verbose: args.verbose,
                    nested: false,
                };
                Self::Text {
                    view: Box::new(RunTreeView::new(show, args.fold_agents, writer.width(), kept)),
                    writer,
                }
            }
        }
    }

    /// Prints one event, unless an earlier process has done so. Returns false if nobody reads the
    /// output any more.
    fn print_event(&mut self, event: &Event) -> bool {
        match self {
            Self::Text { view, writer } => {
                if !is_delta(&event.kind) {
                    view.resize(writer.width());
                }
                status_line::update_status(event);
                // Replayed events update the view, since later output depends on them.
                let pieces = view.render_event(event);
                if !event.replayed {
                    writer.write_pieces(&pieces);
                }
            }
            Self::Json { writer } if !event.replayed => writer.write_event(event),
            Self::Json { .. } => {}
        }
        self.output_loss() == OutputLoss::Nothing
    }

    fn output_loss(&self) -> OutputLoss {
        match self {
            Self::Text { writer, .. } | Self::Json { writer } => writer.output_loss(),
        }
    }

    fn print_summary(&mut self, report: &Report, took: Duration, simulated: bool) {
        if let Self::Text { writer, .. } = self {
            let width = writer.width();
            writer.write_pieces(&render_summary(report, took, simulated, width));
        }
    }

    /// Prints how to continue a run that had ended before.
    fn print_ended_before(&mut self, finished: &FinishedRun, named: Option<&Path>) {
        if let Self::Text { writer, .. } = self {
            let (run, outcome) = (&finished.run, finished.report.ended.outcome.word());
            let command = origin::format_resume_command(run, named, false);
            writer.write_note(&format!("{run} has ended ({outcome}); ask it more: {command}"));
        }
    }

    /// Prints how to resume or continue the run.
    fn print_next_command(&mut self, report: &Report, kept: &StoredRun) {
        let Some(command) = kept.resume_command(report.resume.is_some()) else { return };
        if let Self::Text { writer, .. } = self {
            let what = if report.resume.is_some() { "go on with it" } else { "ask it more" };
            writer.write_note(&format!("{what}: {command}"));
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
