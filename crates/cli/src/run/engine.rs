//! `softland run --engine` and `--attach`: starts runs that an engine keeps, and follows them.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use softland_agent::journal::new_run_id;
use softland_agent::{AgentFile, Event, EventKind, Report};
use softland_restate::{
    EngineClient, EngineState, FollowError, FollowNote, RunRequest, follow_run, show_address,
};

use super::{EventPrinter, exit_status};
use crate::args::{EngineRun, EngineRunArgs, OutputFormat};
use crate::engine::{client_runtime, engine_failure, unknown_run};
use crate::failure::{Failure, status};
use crate::platform::Signals;
use crate::render::Writer;
use crate::settings::read_prompt;

/// The time for the engine to say what becomes of a run that is left.
const LEAVING: Duration = Duration::from_secs(2);

/// Starts a run, or finds it, and follows it to its end.
pub(crate) fn run_command(args: &EngineRunArgs) -> Result<ExitCode, Failure> {
    let runtime = client_runtime()?;
    let client = EngineClient::new(&args.engine).map_err(|error| engine_failure(&error))?;
    let writer = Writer::for_process();
    let run = match &args.which {
        // It is not known yet that there is such a run.
        EngineRun::Attach(run) => run.clone(),
        EngineRun::New { agent, prompt } => {
            let (agent, prompt) = (agent_name(agent)?, read_prompt(prompt.as_deref())?);
            let run = new_run_id();
            let request = RunRequest { agent, prompt };
            let started = client.start_run(&run, &request);
            runtime.block_on(started).map_err(|error| engine_failure(&error))?;
            tell_place(args, &run);
            run
        }
    };
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
    if let Ok(None) = ended {
        let state = runtime.block_on(async {
            tokio::select! {
                state = tokio::time::timeout(LEAVING, client.find_state(&run)) => state.ok()?.ok(),
                () = signals.next() => None,
            }
        });
        Writer::for_process().write_note(&describe_left(&run, &args.engine, state.as_ref()));
    }
    drop(entered);
    runtime.shutdown_background();
    Ok(match ended? {
        Some(report) => ExitCode::from(exit_status(&report, printer.output_loss())),
        None => ExitCode::from(status::CANCELLED),
    })
}

/// Says where a run is that the engine knows.
fn tell_place(args: &EngineRunArgs, run: &str) {
    if args.shown.format == OutputFormat::Text {
        Writer::for_process().write_note(&format!("{run} on {}", show_address(&args.engine)));
    }
}

/// Says what becomes of a run that is not followed any more, as far as it is known.
fn describe_left(run: &str, engine: &str, state: Option<&EngineState>) -> String {
    let engine = show_address(engine);
    let follows = format!("softland run --attach {run} --engine {engine} follows it");
    let ends = format!("softland cancel {run} --engine {engine} ends it");
    match state {
        Some(EngineState::Active { .. }) => format!("{run} goes on; {follows}, {ends}"),
        Some(EngineState::Paused { .. }) => {
            format!("{run} is paused by the engine; {follows}, {ends}")
        }
        Some(EngineState::Ended { .. } | EngineState::Cancelled) => {
            format!("{run} has ended; {follows} from its beginning")
        }
        Some(EngineState::Unknown) | None => {
            format!("{run} is not followed any more; if it has not ended, {follows}, {ends}")
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
    let (mut began, mut ended) = (None, None);
    let mut hear = |event: &Event| {
        printer.print_event(event);
        let began = began.get_or_insert_with(|| event.ts.clone());
        if let EventKind::Done { report: end } | EventKind::Error { report: end, .. } = &event.kind
            && event.run == run
        {
            ended = Some((end.as_ref().clone(), event.time_since(began)));
        }
    };
    let mut note = |note: FollowNote| {
        let warning = match note {
            // A new run was told when it was begun.
            FollowNote::Known if matches!(args.which, EngineRun::New { .. }) => return,
            FollowNote::Known => return tell_place(args, run),
            FollowNote::Failing(why) => format!("{run}: the engine tries again: {why}"),
            FollowNote::Away(why) => format!("{run}: waiting: {why}"),
        };
        Writer::for_process().write_warning(&warning);
    };
    let followed = follow_run(client, run, &mut hear, &mut note).await;
    followed.map_err(|error| describe_error(&error, args, run))?;
    let (report, took) = ended.ok_or_else(|| Failure::usage(format!("{run} has no end")))?;
    printer.print_summary(&report, took, false);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e23_only_a_run_that_is_at_work_is_said_to_go_on() {
        let said =
            |state: Option<EngineState>| describe_left("run-1", "http://e:1", state.as_ref());
        assert_eq!(
            said(Some(EngineState::Active { failure: None })),
            "run-1 goes on; softland run --attach run-1 --engine http://e:1 follows it, \
             softland cancel run-1 --engine http://e:1 ends it"
        );
        for state in [EngineState::Ended { end: None, failure: None }, EngineState::Cancelled] {
            let said = said(Some(state));
            assert!(said.starts_with("run-1 has ended; "), "{said}");
        }
        for state in [None, Some(EngineState::Unknown)] {
            let said = said(state);
            assert!(said.starts_with("run-1 is not followed any more; "), "{said}");
        }
    }
}
