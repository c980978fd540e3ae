//! The origin of a run, which is new or was begun before, and the journal that keeps it.

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

/// The origin of a run.
pub(super) enum Begun {
    /// A new run.
    New,
    /// An interrupted run.
    Open { path: PathBuf, was: Box<Glance> },
    /// A run that has ended with an answer: nothing is left to do.
    Ended { finished: Box<Finished>, named: Option<PathBuf> },
    /// A new run in the conversation of an ended run.
    Further { was: Box<Glance> },
}

/// The journal of a run, and the conversation that it continues.
pub(super) struct Kept {
    pub(super) journal: RunJournal,
    pub(super) conversation: Conversation,
    file: bool,
    /// The journal's file, if the run's id does not lead to it.
    named: Option<PathBuf>,
}

impl Kept {
    /// Returns the run's id, if the run is kept.
    pub(super) fn id(&self) -> Option<&str> {
        self.file.then(|| self.journal.run())
    }

    /// Returns the arguments with which `softland show` finds the run's calls, if the run is kept.
    pub(super) fn shown(&self) -> Option<Shown> {
        let id = self.id()?.to_owned();
        let run = self.named.as_ref().map_or(id, |path| path.display().to_string());
        Some(Shown { run, within: String::new() })
    }

    /// Returns the command that resumes the run, or continues it with a prompt.
    pub(super) fn command(&self, resume: bool) -> Option<String> {
        Some(command(self.id()?, self.named.as_deref(), resume))
    }
}

/// Returns the command that resumes a run, or continues it with a prompt. A run that is not kept in
/// the state folder is named by its file.
pub(super) fn command(run: &str, named: Option<&Path>, resume: bool) -> String {
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
fn named(path: &Path, run: &str) -> Option<PathBuf> {
    let usual = folder().map(|folder| state::file(&folder, run));
    (usual.as_deref() != Some(path)).then(|| path.to_owned())
}

impl Begun {
    /// Looks up the run that the arguments name.
    ///
    /// # Errors
    /// Returns a failure if the run does not exist, or cannot be resumed or continued with these
    /// arguments.
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
                let Some(finished) = was.finished.as_ref().filter(done) else {
                    return Ok(Self::Open { path, was });
                };
                if let Some(flag) = another(args, &was) {
                    return Err(Failure::usage(format!(
                        "{flag} is not what {run} was begun with, and that has ended: nothing of \
                         it is run again (softland run --continue {run} PROMPT asks it more)"
                    )));
                }
                let finished = Box::new(finished.clone());
                Ok(Self::Ended { finished, named: named(&path, &was.run) })
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
            Self::New | Self::Ended { .. } => None,
            Self::Open { was, .. } | Self::Further { was } => Some(was),
        }
    }

    /// Completes the arguments with those that the run was begun with.
    pub(super) fn recall(&self, args: RunArgs) -> RunArgs {
        let Some(was) = self.was() else { return args };
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
    pub(super) fn keep(&self, args: &RunArgs, settings: &mut Settings) -> Result<Kept, Failure> {
        let failed = |error: softland_agent::JournalError| Failure::usage(error.to_string());
        match self {
            Self::Ended { .. } | Self::New => {
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
                let named = named(path, &was.run);
                Ok(Kept { journal, conversation: Conversation::new(), file: true, named })
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

/// Returns the first argument that differs from the one with which the run was begun. Equal
/// arguments may be repeated, since a user who resumes a run need not know whether it has ended.
fn another(args: &RunArgs, was: &Glance) -> Option<&'static str> {
    let setup = was.setup();
    let then = |key: &str| setup[key].as_str();
    let path = |key: &str, given: &Option<PathBuf>| {
        given.as_ref().is_some_and(|given| then(key).map(Path::new) != Some(&*absolute(given)))
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
    let run = new_id();
    let setup = setup(args);
    let kept = |journal: Journal| Kept {
        journal: journal.root(&run).with_setup(setup),
        conversation: Conversation::new(),
        file: true,
        named: args.journal.clone(),
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
            Ok(Kept { journal, conversation, file: false, named: None })
        }
    }
}

/// Returns a warning if the agent's own tools can read the journal.
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

/// Returns the arguments that the command needs in order to resume the run. A base URL contains no
/// credential: one that does is rejected.
fn setup(args: &RunArgs) -> Value {
    let path = |path: &Path| absolute(path).to_str().map(str::to_owned);
    json!({
        "agent": args.agent.as_deref().and_then(path),
        "agents": args.agents.as_deref().and_then(path),
        "root": path(args.root.as_deref().unwrap_or_else(|| Path::new("."))),
        "config": args.config.as_deref().and_then(path),
        "mcp": args.mcp.as_deref().and_then(path),
        "base_url": args.base_url,
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn folder() -> Option<PathBuf> {
    state::folder(&|name| std::env::var(name).ok())
}

/// Prints the outcome and the answer of an ended run again.
pub(super) fn tell_again(
    finished: &Finished,
    named: Option<&Path>,
    mut listener: Listener,
) -> ExitCode {
    let Finished { run, report, seq, turn } = finished;
    let kind = EventKind::Done { report: Box::new(report.clone()) };
    let (seq, turn, run) = (*seq, *turn, run.clone());
    listener.hear(&Event { v: 1, seq, ts: now(), run, turn, replayed: false, kind });
    listener.ended_before(finished, named);
    ExitCode::from(exit_status(report, listener.lost()))
}
