//! Whether a run is new or was begun before, and where it is kept.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use softland_agent::core::policy::Policy;
use softland_agent::http::provider::Api;
use softland_agent::journal::{Finished, Glance, RunJournal, new_id, now};
use softland_agent::{Conversation, Event, EventKind, Journal};

use super::{Listener, exit_status, state};
use crate::args::{RunArgs, Which};
use crate::failure::Failure;
use crate::render::Kept as Shown;
use crate::settings::Settings;

/// A run before it goes.
pub(super) enum Begun {
    /// It is new.
    New,
    /// It was interrupted.
    Open { path: PathBuf, was: Box<Glance> },
    /// It has come to an answer: nothing is left to do.
    Ended(Box<Finished>),
    /// It is new, in the conversation of one that has ended.
    Further { was: Box<Glance> },
}

/// Where a run is kept, and what stands there.
pub(super) struct Kept {
    pub(super) journal: RunJournal,
    pub(super) conversation: Conversation,
    file: bool,
}

impl Kept {
    /// The run's id, where it is kept at all.
    pub(super) fn id(&self) -> Option<&str> {
        self.file.then(|| self.journal.run())
    }

    /// How `softland show` finds its calls, where it is kept.
    pub(super) fn named(&self, args: &RunArgs) -> Option<Shown> {
        let run = match &args.journal {
            Some(path) => path.display().to_string(),
            None => self.id()?.to_owned(),
        };
        Some(Shown { run, within: String::new() })
    }
}

impl Begun {
    /// Looks up the run that the arguments are about.
    ///
    /// # Errors
    /// A run that is not there, or cannot be gone on with so.
    pub(super) fn of(args: &RunArgs) -> Result<Self, Failure> {
        match &args.which {
            Which::New => Ok(Self::New),
            Which::Resume(run) => {
                let path = match &args.journal {
                    Some(path) => path.clone(),
                    None => state::find(run, folder().as_deref())?,
                };
                let was = Box::new(state::glance(&path)?);
                if args.journal.is_some() && was.run != *run {
                    let message = format!("{} is the journal of {}", path.display(), was.run);
                    return Err(Failure::usage(message));
                }
                let done = |ended: &&Finished| ended.report.ended.outcome.is_done();
                Ok(match was.finished.as_ref().filter(done) {
                    Some(finished) => Self::Ended(Box::new(finished.clone())),
                    None => Self::Open { path, was },
                })
            }
            Which::Continue(run) => {
                let was = Box::new(state::glance(&state::find(run, folder().as_deref())?)?);
                if was.finished.is_none() {
                    let message = format!(
                        "{run} has not ended: softland run --resume {run} goes on with it first"
                    );
                    return Err(Failure::usage(message));
                }
                Ok(Self::Further { was })
            }
        }
    }

    fn was(&self) -> Option<&Glance> {
        match self {
            Self::New | Self::Ended(_) => None,
            Self::Open { was, .. } | Self::Further { was } => Some(was),
        }
    }

    /// The arguments, with what the run was begun with where nothing else is said.
    pub(super) fn recall(&self, args: RunArgs) -> RunArgs {
        let Some(was) = self.was() else { return args };
        let text = |key: &str| was.setup()[key].as_str().map(str::to_owned);
        let path = |key: &str| text(key).map(PathBuf::from);
        RunArgs {
            agent: args.agent.or_else(|| path("agent")),
            root: args.root.or_else(|| path("root")),
            config: args.config.or_else(|| path("config")),
            base_url: args.base_url.or_else(|| text("base_url")),
            model: args.model.or_else(|| Some(was.start.model.clone())),
            api: args.api.or_else(|| Api::from_name(&was.start.api)),
            show_thinking: args.show_thinking || was.start.show_thinking,
            ..args
        }
    }

    /// Opens where the run is kept.
    ///
    /// # Errors
    /// A journal that is in use, cannot be made or cannot be read. Where there is no place for a
    /// new one and none was named, the run goes unkept, with a warning.
    pub(super) fn keep(&self, args: &RunArgs, settings: &mut Settings) -> Result<Kept, Failure> {
        let failed = |error: softland_agent::JournalError| Failure::usage(error.to_string());
        match self {
            Self::Ended(_) | Self::New => {
                let journal = new_journal(args, settings)?;
                Ok(Kept { conversation: Conversation::new(), ..journal })
            }
            Self::Open { path, was } => {
                let journal = Journal::open(path).map_err(failed)?.root(&was.run);
                for difference in settings.agent.differs_from(&was.start) {
                    settings.warnings.push(format!(
                        "{}: {difference} when {} was begun; the run keeps that",
                        args.agent.as_deref().unwrap_or_else(|| Path::new("?")).display(),
                        was.run
                    ));
                }
                Ok(Kept { journal, conversation: Conversation::new(), file: true })
            }
            Self::Further { was } => {
                settings.agent.policy = policy(args, was, &settings.agent.policy)?;
                let kept = new_journal(args, settings)?;
                let conversation = was.conversation();
                let conversation =
                    conversation.map_err(|unfit| Failure::usage(unfit.to_string()))?;
                Ok(Kept { journal: kept.journal.continuing(&was.run), conversation, ..kept })
            }
        }
    }
}

/// What holds for a further question: what held before, and the flags; a policy that is named
/// stands for all of it.
fn policy(args: &RunArgs, was: &Glance, resolved: &Policy) -> Result<Policy, Failure> {
    if args.policy.is_some() {
        return Ok(resolved.clone());
    }
    let mut policy = was.start.policy.clone();
    for (key, value) in &args.keys {
        policy.set(key, value).map_err(|error| Failure::usage(error.to_string()))?;
    }
    Ok(policy)
}

fn new_journal(args: &RunArgs, settings: &mut Settings) -> Result<Kept, Failure> {
    if settings.agent.crew.is_some() {
        return unkept_tree(args, settings);
    }
    let run = new_id();
    let setup = setup(args);
    let kept = |journal: Journal| Kept {
        journal: journal.root(&run).with_setup(setup),
        conversation: Conversation::new(),
        file: true,
    };
    if let Some(path) = &args.journal {
        let journal = Journal::create(path);
        return Ok(kept(journal.map_err(|error| Failure::usage(error.to_string()))?));
    }
    let made = match folder() {
        None => Err("HOME is not set".to_owned()),
        Some(folder) => state::make(&folder)
            .map_err(|error| format!("{} cannot be made: {error}", folder.display()))
            .and_then(|()| {
                let journal = Journal::create(&state::file(&folder, &run));
                journal.map_err(|error| error.to_string())
            }),
    };
    match made {
        Ok(journal) => {
            settings.warnings.extend(seen_by_tools(args, journal.path()));
            Ok(kept(journal))
        }
        Err(why) => {
            settings.warnings.push(format!(
                "the run is not kept and cannot be gone on with: {why} (--journal FILE names a \
                 place)"
            ));
            let (journal, conversation) = (RunJournal::none(), Conversation::new());
            Ok(Kept { journal, conversation, file: false })
        }
    }
}

/// The run of an agent that calls others is not kept yet.
fn unkept_tree(args: &RunArgs, settings: &mut Settings) -> Result<Kept, Failure> {
    const WHY: &str = "a run with --agents is not kept yet and cannot be gone on with";
    if args.journal.is_some() {
        return Err(Failure::usage(format!("--journal: {WHY}")));
    }
    settings.warnings.push(WHY.to_owned());
    let (journal, conversation) = (RunJournal::none(), Conversation::new());
    Ok(Kept { journal, conversation, file: false })
}

/// A warning where the agent's own tools can read the journal.
fn seen_by_tools(args: &RunArgs, journal: &Path) -> Option<String> {
    let root = absolute(args.root.as_deref().unwrap_or_else(|| Path::new(".")));
    let journal = std::fs::canonicalize(journal).ok()?;
    journal.starts_with(root).then(|| {
        format!(
            "the journal {} lies in --root, where the agent's tools see it; --journal FILE names \
             another place",
            journal.display()
        )
    })
}

/// What the command wants to know when the run is gone on with. A base URL has no credential in
/// it: one that has is refused.
fn setup(args: &RunArgs) -> Value {
    let path = |path: &Path| absolute(path).to_str().map(str::to_owned);
    json!({
        "agent": args.agent.as_deref().and_then(path),
        "root": path(args.root.as_deref().unwrap_or_else(|| Path::new("."))),
        "config": args.config.as_deref().and_then(path),
        "base_url": args.base_url,
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn folder() -> Option<PathBuf> {
    state::folder(&|name| std::env::var(name).ok())
}

/// Says again how a run ended, and with which answer.
pub(super) fn tell_again(finished: &Finished, mut listener: Listener) -> ExitCode {
    let Finished { run, report, seq, turn } = finished;
    let kind = EventKind::Done { report: Box::new(report.clone()) };
    let (seq, turn, run) = (*seq, *turn, run.clone());
    listener.hear(&Event { v: 1, seq, ts: now(), run, turn, replayed: false, kind });
    listener.ended_before(finished);
    ExitCode::from(exit_status(report, listener.lost()))
}
