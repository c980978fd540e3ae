//! `softland run --engine` and `--attach`: starts runs that an engine keeps, and follows them.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use softland_agent::journal::new_run_id;
use softland_agent::{AgentFile, Event, EventKind, Report};
use softland_restate::{
    EngineClient, FollowError, FollowNote, RunRequest, follow_run, show_address,
};

use super::{EventPrinter, exit_status};
use crate::args::{EngineRun, EngineRunArgs, OutputFormat};
use crate::engine::{client_runtime, engine_failure, unknown_run};
use crate::failure::{Failure, status};
use crate::platform::Signals;
use crate::render::Writer;
use crate::settings::read_prompt;

/// Starts a run, or finds it, and follows it to its end.
pub(crate) fn run_command(args: &EngineRunArgs) -> Result<ExitCode, Failure> {
    let runtime = client_runtime()?;
    let client = EngineClient::new(&args.engine).map_err(|error| engine_failure(&error))?;
    let writer = Writer::for_process();
    let run = match &args.which {
        EngineRun::Attach(run) => run.clone(),
        EngineRun::New { agent, prompt } => {
            let (agent, prompt) = (agent_name(agent)?, read_prompt(prompt.as_deref())?);
            let run = new_run_id();
            let request = RunRequest { agent, prompt };
            let started = client.start_run(&run, &request);
            runtime.block_on(started).map_err(|error| engine_failure(&error))?;
            run
        }
    };
    if args.shown.format == OutputFormat::Text {
        writer.write_note(&format!("{run} on {}", show_address(&args.engine)));
    }
    let entered = runtime.enter();
    let system = |error| Failure::usage(format!("the run cannot be followed: {error}"));
    let mut signals = Signals::with_hangup().map_err(system)?;
    let mut printer = EventPrinter::new(&args.shown, writer, None);
    let following = follow(args, &client, &run, &mut printer);
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = following => ended.map(Some),
            () = signals.next() => Ok(None),
        }
    });
    drop(entered);
    runtime.shutdown_background();
    match ended? {
        Some(report) => Ok(ExitCode::from(exit_status(&report, printer.output_loss()))),
        None => {
            Writer::for_process().write_note(&format!(
                "{run} goes on; softland run --attach {run} --engine {engine} follows it, softland \
                 cancel {run} --engine {engine} ends it",
                engine = show_address(&args.engine)
            ));
            Ok(ExitCode::from(status::CANCELLED))
        }
    }
}

/// Returns the name of an agent: that in the file, if there is such a file here.
fn agent_name(agent: &Path) -> Result<String, Failure> {
    if agent.is_file() {
        let file = AgentFile::load(agent).0.map_err(|problems| {
            Failure::from_messages(problems.iter().map(ToString::to_string).collect())
        })?;
        return Ok(file.name);
    }
    let name =
        agent.to_str().ok_or_else(|| Failure::usage("the agent's name is not UTF-8 text"))?;
    Ok(name.to_owned())
}

async fn follow(
    args: &EngineRunArgs,
    client: &EngineClient,
    run: &str,
    printer: &mut EventPrinter,
) -> Result<Report, Failure> {
    let (began, mut report) = (Instant::now(), None);
    let mut hear = |event: &Event| {
        printer.print_event(event);
        if let EventKind::Done { report: end } | EventKind::Error { report: end, .. } = &event.kind
            && event.run == run
        {
            report = Some(end.as_ref().clone());
        }
    };
    let mut note = |note: FollowNote| {
        Writer::for_process().write_warning(&match note {
            FollowNote::Failing(why) => format!("{run}: the engine tries again: {why}"),
            FollowNote::Away(why) => format!("{run}: waiting: {why}"),
        });
    };
    let followed = follow_run(client, run, &mut hear, &mut note).await;
    followed.map_err(|error| describe_error(&error, args, run))?;
    let report = report.ok_or_else(|| Failure::usage(format!("{run} has no end")))?;
    printer.print_summary(&report, began.elapsed(), false);
    Ok(report)
}

fn describe_error(error: &FollowError, args: &EngineRunArgs, run: &str) -> Failure {
    let of_engine = |message: String| Failure::usage(message).with_status(status::PROVIDER);
    match error {
        FollowError::Unknown => unknown_run(run, &args.engine),
        FollowError::Refused(why) => Failure::usage(format!("{run} was refused: {why}")),
        FollowError::Paused { invocation, failure } => of_engine(format!(
            "{run} is paused by the engine{}; `restate invocations resume {invocation}` goes on \
             with it, and softland run --attach {run} --engine {} follows it then",
            because(failure.as_deref()),
            show_address(&args.engine)
        )),
        FollowError::Ended(failure) => of_engine(format!(
            "{run} was ended by the engine without an answer{}",
            because(failure.as_deref())
        )),
        FollowError::Unreadable(why) => {
            Failure::usage(format!("{run} has events that cannot be read: {why}"))
        }
        FollowError::Engine(failure) => engine_failure(failure),
    }
}

fn because(failure: Option<&str>) -> String {
    failure.map(|why| format!(" ({why})")).unwrap_or_default()
}
