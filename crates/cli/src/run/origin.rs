//! The origin of a run, which is new or was begun before, and the journal that keeps it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use softland_agent::core::policy::Policy;
use softland_agent::http::Api;
use softland_agent::journal::{FinishedRun, JournalSummary, RunJournal, new_run_id, now_rfc3339};
use softland_agent::{Conversation, Event, EventKind, Journal};

use super::{EventPrinter, exit_status, state};
use crate::args::{RunArgs, RunSelection};
use crate::failure::Failure;
use crate::platform;
use crate::render::CallLocator as Shown;
use crate::settings::RunSettings;

/// The origin of a run.
pub(super) enum RunOrigin {
    /// A new run.
    New,
    /// An interrupted run.
    Open { path: PathBuf, was: Box<JournalSummary> },
    /// A run that has ended with an answer: nothing is left to do.
    Ended { finished: Box<FinishedRun>, named: Option<PathBuf> },
    /// A new run in the conversation of an ended run.
    Further { was: Box<JournalSummary> },
}

/// The journal of a run, and the conversation that it continues.
pub(super) struct StoredRun {
    pub(super) journal: RunJournal,
    pub(super) conversation: Conversation,
    file: bool,
    /// The journal's file, if the run's id does not lead to it.
    named: Option<PathBuf>,
}

impl StoredRun {
    /// Returns the run's id, if the run is kept.
    pub(super) fn run_id(&self) -> Option<&str> {
        self.file.then(|| self.journal.run_id())
    }

    /// Returns the arguments with which `softland show` finds the run's calls, if the run is kept.
    pub(super) fn call_locator(&self) -> Option<Shown> {
        let id = self.run_id()?.to_owned();
        let run = self.named.as_ref().map_or(id, |path| path.display().to_string());
        Some(Shown { run, within: String::new() })
    }

    /// Returns the command that resumes the run, or continues it with a prompt.
    pub(super) fn resume_command(&self, resume: bool) -> Option<String> {
        Some(format_resume_command(self.run_id()?, self.named.as_deref(), resume))
    }
}

/// Returns the command that resumes a run, or continues it with a prompt. A run that is not kept in
/// the state folder is named by its file.
pub(super) fn format_resume_command(run: &str, named: Option<&Path>, resume: bool) -> String {
    let file = named.map(|path| {
        // A bare name would be taken for an id.
        let bare = path.components().count() == 1 && path.extension().is_none();
        let text = if bare { format!("./{}", path.display()) } else { path.display().to_string() };
        let plain = |c: char| c.is_alphanumeric() || "/._-+:@".contains(c);
        if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
    });
    match (file, resume) {
        (None, true) => format!("softland run --resume {run}"),
        (Some(file), true) => format!("softland run --resume {run} --journal {file}"),
        (None, false) => format!("softland run --continue {run} PROMPT"),
        (Some(file), false) => format!("softland run --continue {file} PROMPT"),
    }
}

/// Returns the file of a run's journal, if the run's id does not lead to it.
fn explicit_path(path: &Path, run: &str) -> Option<PathBuf> {
    let usual = state_folder().map(|folder| state::journal_file(&folder, run));
    (usual.as_deref() != Some(path)).then(|| path.to_owned())
}

impl RunOrigin {
    /// Looks up the run that the arguments name.
    ///
    /// # Errors
    /// Returns a failure if the run does not exist, or cannot be resumed or continued with these
    /// arguments.
    pub(super) fn from_args(args: &RunArgs) -> Result<Self, Failure> {
        match &args.which {
            RunSelection::New => Ok(Self::New),
            RunSelection::Resume(run) => {
                let path = match &args.journal {
                    Some(path) => path.clone(),
                    None => state::find_journal(run, state_folder().as_deref())?,
                };
                let was = Box::new(state::read_glance(&path)?);
                if args.journal.is_some() && was.run != *run {
                    let message = format!("{} is the journal of {}", path.display(), was.run);
                    return Err(Failure::usage(message));
                }
                let done = |ended: &&FinishedRun| ended.report.ended.outcome.is_done();
                let Some(finished) = was.finished.as_ref().filter(done) else {
                    return Ok(Self::Open { path, was });
                };
                if let Some(flag) = find_different_arg(args, &was) {
                    return Err(Failure::usage(format!(
                        "{flag} has another value than at the beginning of {run}, which has ended \
                         and is not run again (softland run --continue {run} PROMPT asks it more)"
                    )));
                }
                let finished = Box::new(finished.clone());
                Ok(Self::Ended { finished, named: explicit_path(&path, &was.run) })
            }
            RunSelection::Continue(run) => {
                let was = Box::new(state::read_glance(&state::find_journal(
                    run,
                    state_folder().as_deref(),
                )?)?);
                if was.finished.is_none() {
                    let message =
                        format!("{run} has not ended; softland run --resume {run} goes on with it");
                    return Err(Failure::usage(message));
                }
                Ok(Self::Further { was })
            }
        }
    }

    fn earlier_run(&self) -> Option<&JournalSummary> {
        match self {
            Self::New | Self::Ended { .. } => None,
            Self::Open { was, .. } | Self::Further { was } => Some(was),
        }
    }

    /// Completes the arguments with those that the run was begun with.
    pub(super) fn recall_args(&self, args: RunArgs) -> RunArgs {
        let Some(was) = self.earlier_run() else { return args };
        let text = |key: &str| was.setup()[key].as_str().map(str::to_owned);
        let path = |key: &str| text(key).map(PathBuf::from);
        RunArgs {
            agent: args.agent.or_else(|| path("agent")),
            agents: args.agents.or_else(|| path("agents")),
            root: args.root.or_else(|| path("root")),
            config: args.config.or_else(|| path("config")),
            mcp: args.mcp.or_else(|| path("mcp")),
            base_url: args.base_url.or_else(|| text("base_url")),
            model: args.model.or_else(|| Some(was.start.model.clone())),
            api: args.api.or_else(|| Api::from_name(&was.start.api)),
            show_thinking: args.show_thinking || was.start.show_thinking,
            ..args
        }
    }

    /// Opens the journal of the run.
    ///
    /// # Errors
    /// Returns a failure if the journal is in use, cannot be created or cannot be read. If no
    /// journal was named and there is no place for a new one, the run is not kept, with a warning.
    pub(super) fn open_journal(
        &self,
        args: &RunArgs,
        settings: &mut RunSettings,
    ) -> Result<StoredRun, Failure> {
        let failed = |error: softland_agent::JournalError| Failure::usage(error.to_string());
        match self {
            Self::Ended { .. } | Self::New => {
                let journal = create_journal(args, settings)?;
                Ok(StoredRun { conversation: Conversation::new(), ..journal })
            }
            Self::Open { path, was } => {
                let journal = Journal::open(path).map_err(failed)?.root_run(&was.run);
                for difference in settings.agent.differs_from(&was.start) {
                    settings.warnings.push(format!(
                        "{}: {difference} when {} was begun; the run keeps that",
                        args.agent.as_deref().unwrap_or_else(|| Path::new("?")).display(),
                        was.run
                    ));
                }
                let named = explicit_path(path, &was.run);
                Ok(StoredRun { journal, conversation: Conversation::new(), file: true, named })
            }
            Self::Further { was } => {
                settings.agent.policy = further_policy(args, was, &settings.agent.policy)?;
                let kept = create_journal(args, settings)?;
                let conversation = was.rebuild_conversation();
                let conversation =
                    conversation.map_err(|unfit| Failure::usage(unfit.to_string()))?;
                Ok(StoredRun {
                    journal: kept.journal.with_continued_run(&was.run),
                    conversation,
                    ..kept
                })
            }
        }
    }
}

/// Returns the first argument that differs from the one with which the run was begun. Equal
/// arguments may be repeated, since a user who resumes a run need not know whether it has ended.
fn find_different_arg(args: &RunArgs, was: &JournalSummary) -> Option<&'static str> {
    let setup = was.setup();
    let then = |key: &str| setup[key].as_str();
    let path = |key: &str, given: &Option<PathBuf>| {
        given.as_ref().is_some_and(|given| then(key).map(Path::new) != Some(&*absolute_path(given)))
    };
    let text = |then: Option<&str>, given: Option<&str>| given.is_some() && given != then;
    let others = [
        ("the agent file", path("agent", &args.agent)),
        ("--agents", path("agents", &args.agents)),
        ("--root", path("root", &args.root)),
        ("--config", path("config", &args.config)),
        ("--mcp", path("mcp", &args.mcp)),
        ("--base-url", text(then("base_url"), args.base_url.as_deref())),
        ("--model", text(Some(&was.start.model), args.model.as_deref())),
        ("--api", text(Some(&was.start.api), args.api.map(Api::name))),
    ];
    others.into_iter().find_map(|(flag, differs)| differs.then_some(flag))
}

/// Returns the policy for a further question: the earlier policy with the flags, or the policy that
/// the arguments name.
fn further_policy(
    args: &RunArgs,
    was: &JournalSummary,
    resolved: &Policy,
) -> Result<Policy, Failure> {
    if args.policy.is_some() {
        return Ok(resolved.clone());
    }
    let mut policy = was.start.policy.clone();
    for (key, value) in &args.keys {
        policy.set_key(key, value).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(policy)
}

fn create_journal(args: &RunArgs, settings: &mut RunSettings) -> Result<StoredRun, Failure> {
    let run = new_run_id();
    let setup = setup_json(args);
    let kept = |journal: Journal| StoredRun {
        journal: journal.root_run(&run).with_setup(setup),
        conversation: Conversation::new(),
        file: true,
        named: args.journal.clone(),
    };
    if let Some(path) = &args.journal {
        let journal = Journal::create(path);
        return Ok(kept(journal.map_err(|error| Failure::usage(error.to_string()))?));
    }
    let made = match state_folder() {
        None => Err(platform::missing_state_folder()),
        Some(folder) => platform::create_folder(&folder)
            .map_err(|error| format!("{} cannot be made: {error}", folder.display()))
            .and_then(|()| {
                let journal = Journal::create(&state::journal_file(&folder, &run));
                journal.map_err(|error| error.to_string())
            }),
    };
    match made {
        Ok(journal) => {
            settings.warnings.extend(warn_seen_by_tools(args, journal.path()));
            Ok(kept(journal))
        }
        Err(why) => {
            settings.warnings.push(format!(
                "the run is not recorded and cannot be resumed: {why} (--journal FILE names a \
                 place)"
            ));
            let (journal, conversation) = (RunJournal::without_journal(), Conversation::new());
            Ok(StoredRun { journal, conversation, file: false, named: None })
        }
    }
}

/// Returns a warning if the agent's own tools can read the journal.
fn warn_seen_by_tools(args: &RunArgs, journal: &Path) -> Option<String> {
    let root = absolute_path(args.root.as_deref().unwrap_or_else(|| Path::new(".")));
    let journal = std::fs::canonicalize(journal).ok()?;
    journal.starts_with(root).then(|| {
        format!(
            "the journal {} is inside --root, where the agent's tools can see it; --journal FILE names \
             another place",
            journal.display()
        )
    })
}

/// Returns the arguments that the command needs in order to resume the run. A base URL contains no
/// credential: one that does is rejected.
fn setup_json(args: &RunArgs) -> Value {
    let path = |path: &Path| absolute_path(path).to_str().map(str::to_owned);
    json!({
        "agent": args.agent.as_deref().and_then(path),
        "agents": args.agents.as_deref().and_then(path),
        "root": path(args.root.as_deref().unwrap_or_else(|| Path::new("."))),
        "config": args.config.as_deref().and_then(path),
        "mcp": args.mcp.as_deref().and_then(path),
        "base_url": args.base_url,
    })
}

fn absolute_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn state_folder() -> Option<PathBuf> {
    state::journal_folder(&|name| std::env::var(name).ok())
}

/// Prints the outcome and the answer of an ended run again.
pub(super) fn print_ended_run(
    finished: &FinishedRun,
    named: Option<&Path>,
    mut listener: EventPrinter,
) -> ExitCode {
    let FinishedRun { run, report, seq, turn, .. } = finished;
    let kind = EventKind::Done { report: Box::new(report.clone()) };
    let (seq, turn, run) = (*seq, *turn, run.clone());
    listener.print_event(&Event { v: 1, seq, ts: now_rfc3339(), run, turn, replayed: false, kind });
    listener.print_ended_before(finished, named);
    ExitCode::from(exit_status(report, listener.output_loss()))
}
