//! The storage of a conversation: each run in a journal, like those of `softland run`, and a list
//! of the runs that belong to the notebook. The notebook's file holds none of it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use softland_agent::core::Digest;
use softland_agent::http::Api;
use softland_agent::journal::{JournalSummary, ReplayedJournal, new_run_id};
use softland_agent::{Agent, Conversation, Event, EventKind, Journal, RunJournal};
use tokio_util::sync::CancellationToken;

use super::history::EventHistory;
use super::owner::{self, ListOwner};
use super::{ChatOptions, StoppedBy, is_cancelled, mark_stop, note_event, question_event};
use crate::platform::{make_folder_private, make_private};

/// Bytes of a list that are read.
const LIST: u64 = 64 << 20;
/// The number of runs that are shown again when the notebook is opened.
const TOLD: usize = 50;

/// The storage of the runs of one notebook.
#[derive(Debug)]
pub(super) struct ChatStorage {
    notebook: PathBuf,
    journals: Option<PathBuf>,
    list: Option<PathBuf>,
}

/// The conversation as it was left.
#[derive(Debug, Default)]
pub(super) struct RestoredChat {
    pub(super) tape: EventHistory,
    pub(super) conversation: Conversation,
    pub(super) before: Option<String>,
}

impl ChatStorage {
    pub(super) async fn open(
        notebook: &Path,
        options: ChatOptions,
        agent: &Agent,
        warnings: &mut Vec<String>,
    ) -> (Self, RestoredChat) {
        let made = options.made;
        let notebook = std::fs::canonicalize(notebook).unwrap_or_else(|_| notebook.to_owned());
        let list = options.lists.map(|folder| folder.join(list_name(&notebook)));
        let kept = Self { notebook, journals: options.journals, list };
        if let Err(why) = kept.create_folders() {
            warnings.push(format!("what is said to the assistant is not kept: {why}"));
            return (Self { journals: None, list: None, ..kept }, RestoredChat::default());
        }
        if let Err(error) = kept.settle_list(made) {
            warnings.push(format!("what was said about another notebook may be shown: {error}"));
        }
        kept.remember_notebook();
        let left = kept.restore_chat(agent, warnings).await;
        (kept, left)
    }

    fn create_folders(&self) -> Result<(), String> {
        let lists = self.list.as_deref().and_then(Path::parent);
        for folder in [self.journals.as_deref(), lists] {
            let folder = folder.ok_or("there is no state folder (HOME is not set)")?;
            create_folder(folder)
                .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        }
        Ok(())
    }

    /// Makes sure that the list belongs to this notebook.
    fn settle_list(&self, made: bool) -> std::io::Result<()> {
        let Some(list) = &self.list else { return Ok(()) };
        match owner::find_owner(list, &self.notebook, made) {
            ListOwner::Same => Ok(()),
            ListOwner::Another => owner::put_away(list),
            ListOwner::Moved(from) => {
                owner::put_away(list)?;
                owner::take_over(&from, list)
            }
        }
    }

    /// Records the cells by which the notebook is recognized.
    pub(super) fn remember_notebook(&self) {
        if let Some(list) = &self.list {
            // Without the record, the notebook is taken for the one that was there.
            let _ = owner::remember_cells(list, &self.notebook);
        }
    }

    /// Marks the beginning of another conversation.
    pub(super) fn begin_conversation(&self) -> std::io::Result<()> {
        match self.list.as_deref().is_some_and(Path::exists) {
            true => self.append_line(&json!({"new": true})),
            false => Ok(()),
        }
    }

    /// Records that a run is stopped early.
    pub(super) fn record_stop(&self, run: &str, by: StoppedBy, estimated: bool) {
        // The run's own journal says that it was cancelled: only the cause would be lost.
        let _ =
            self.append_line(&json!({"run": run, "stopped_by": by.word(), "estimated": estimated}));
    }

    /// Creates the journal of a new run. Also returns the reason if it is not kept.
    pub(super) fn begin_run(
        &self,
        before: Option<&str>,
        question: &str,
    ) -> (RunJournal, Option<String>) {
        let Some(folder) = &self.journals else { return (RunJournal::without_journal(), None) };
        let run = new_run_id();
        let journal = match Journal::create(&journal_path(folder, &run)) {
            Ok(journal) => journal.root_run(&run),
            Err(error) => {
                return (RunJournal::without_journal(), Some(format!("not kept: {error}")));
            }
        };
        let journal = journal.with_setup(json!({"notebook": self.notebook.to_str()}));
        let journal = match before {
            Some(before) => journal.with_continued_run(before),
            None => journal,
        };
        let wrote = self.append_line(&json!({"run": run, "question": question}));
        (journal, wrote.err().map(|error| format!("not kept: {error}")))
    }

    /// Records a message that was sent to a run behind its event `seq`.
    pub(super) fn record_message(&self, run: &str, seq: u64, text: &str) {
        // The run's own journal keeps the message once the run has received it: only its position
        // would be lost.
        let _ = self.append_line(&json!({"run": run, "said": text, "seq": seq}));
    }

    fn append_line(&self, line: &Value) -> std::io::Result<()> {
        let Some(list) = &self.list else { return Ok(()) };
        open_list(list)?.write_all(format!("{line}\n").as_bytes())
    }

    /// Reads the stored conversation.
    async fn restore_chat(&self, agent: &Agent, warnings: &mut Vec<String>) -> RestoredChat {
        let mut left = RestoredChat::default();
        let Some(list) = &self.list else { return left };
        let lines = match read_list(list) {
            Ok(lines) => lines,
            Err(error) => {
                warnings.push(format!("{} cannot be read: {error}", list.display()));
                return left;
            }
        };
        let before = lines.iter().rposition(|line| line.get("new").is_some());
        let lines = lines.get(before.map_or(0, |at| at + 1)..).unwrap_or_default();
        let text =
            |line: &Value, key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        let begun: Vec<&Value> =
            lines.iter().filter(|line| line.get("question").is_some()).collect();
        for line in begun.iter().skip(begun.len().saturating_sub(TOLD)) {
            let Some(run) = text(line, "run").filter(|run| is_id(run)) else { continue };
            let about = lines.iter().filter(|said| said.get("run") == line.get("run"));
            let said: Vec<(u64, String)> = about
                .filter_map(|said| Some((said.get("seq")?.as_u64()?, text(said, "said")?)))
                .collect();
            let asked = text(line, "question").unwrap_or_default();
            let mut stop = lines.iter().filter(|line| text(line, "run").as_ref() == Some(&run));
            let stop = stop.find_map(|line| {
                let estimated = line.get("estimated").and_then(Value::as_bool).unwrap_or_default();
                Some((StoppedBy::from_word(line.get("stopped_by")?.as_str()?)?, estimated))
            });
            let known = ListedRun { asked: &asked, said, stop };
            match self.replay_run(&run, agent, known, &mut left.tape).await {
                Ok(conversation) => {
                    left.conversation = conversation;
                    left.before = Some(run);
                }
                // A run that failed before its first event has left an empty file, or none.
                Err(why) => {
                    left.tape.add_event(&note_event(&run, &format!("a run cannot be shown: {why}")))
                }
            }
        }
        if left.conversation.api().is_some_and(|api| api != agent.options.api) {
            let text = "The model is asked through another API than before: it is not shown what was \
                        said so far.";
            left.tape.add_event(&note_event("", text));
            left.conversation = Conversation::new();
            left.before = None;
        }
        left
    }

    /// Replays a run, and ends it first if it was interrupted.
    async fn replay_run(
        &self,
        run: &str,
        agent: &Agent,
        known: ListedRun<'_>,
        tape: &mut EventHistory,
    ) -> Result<Conversation, String> {
        let ListedRun { asked, mut said, mut stop } = known;
        let path = journal_path(self.journals.as_deref().unwrap_or_else(|| Path::new("")), run);
        if !asked.is_empty() {
            tape.add_event(&question_event(run, 0, asked, false));
        }
        let glance = JournalSummary::from_path(&path).map_err(|error| error.to_string())?;
        if glance.finished.is_none() {
            let estimated = cancel_interrupted(&path, &glance, agent).await?;
            self.record_stop(run, StoppedBy::Killed, estimated);
            stop = Some((StoppedBy::Killed, estimated));
        }
        let recalled =
            Box::pin(ReplayedJournal::from_path(&path)).await.map_err(|unfit| unfit.to_string())?;
        let is_usage = |event: &&Event| matches!(event.kind, EventKind::Usage { .. });
        let last = recalled.events.iter().filter(is_usage).map(|event| event.seq).next_back();
        for event in &recalled.events {
            while said.first().is_some_and(|(seq, _)| *seq < event.seq) {
                let (_, text) = said.remove(0);
                tape.add_event(&question_event(run, event.turn, &text, true));
            }
            let Ok(mut value) = serde_json::to_value(event) else { continue };
            match (&event.kind, stop) {
                (EventKind::Usage { .. }, Some((StoppedBy::Killed, true))) => {
                    value["estimated"] = (last == Some(event.seq)).into();
                }
                (EventKind::Error { report, .. }, Some((by, estimated)))
                    if is_cancelled(report) =>
                {
                    mark_stop(&mut value, by, estimated);
                }
                _ => {}
            }
            tape.add_event(&value);
        }
        let glance = JournalSummary::from_path(&path).map_err(|error| error.to_string())?;
        glance.rebuild_conversation().map_err(|unfit| unfit.to_string())
    }
}

/// The facts that the list holds about a run.
struct ListedRun<'a> {
    asked: &'a str,
    /// The messages sent to the run, each with the number of the event before it.
    said: Vec<(u64, String)>,
    /// The cause that stopped the run, and true if its cost is estimated.
    stop: Option<(StoppedBy, bool)>,
}

/// Brings a run whose process was killed to a cancelled end: its open calls get results that say
/// so. Nothing is sent and nothing is run.
///
/// Returns true if a request was active, which counts with the most that it can have cost.
async fn cancel_interrupted(
    path: &Path,
    glance: &JournalSummary,
    agent: &Agent,
) -> Result<bool, String> {
    let mut agent = agent.clone();
    agent.model.clone_from(&glance.start.model);
    let api = Api::from_name(&glance.start.api);
    agent.options.api = api.ok_or_else(|| format!("it asks the API {}", glance.start.api))?;
    let journal = Journal::open(path).map_err(|error| error.to_string())?.root_run(&glance.run);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut conversation = Conversation::new();
    let mut estimated = false;
    let mut hear = |event: &Event| {
        estimated |= !event.replayed && matches!(event.kind, EventKind::Usage { .. });
    };
    let kept = agent.run_in_journal(&journal, &mut conversation, "", &mut hear, &cancel);
    Box::pin(kept).await.map_err(|unfit| unfit.to_string())?;
    Ok(estimated)
}

/// Opens a list for appending.
fn open_list(list: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    make_private(options.append(true).create(true)).open(list)
}

fn read_list(list: &Path) -> std::io::Result<Vec<Value>> {
    use std::io::Read as _;
    let file = match std::fs::File::open(list) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(LIST).read_to_end(&mut bytes)?;
    // A line that was cut off when the process ended is skipped.
    Ok(bytes.split(|byte| *byte == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect())
}

/// Returns true if an id names a file in the folder and no other.
fn is_id(run: &str) -> bool {
    !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn journal_path(folder: &Path, run: &str) -> PathBuf {
    folder.join(format!("{run}.ndjson"))
}

/// Returns the file name of a notebook's list: its name for people, and a digest of its path.
fn list_name(notebook: &Path) -> String {
    let digest = Digest::from_bytes(notebook.as_os_str().as_encoded_bytes()).to_string();
    let name = notebook.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric()).take(40).collect();
    format!("{name}-{}.ndjson", digest.get(..16).unwrap_or(&digest))
}

/// Creates a folder, for its owner only.
fn create_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    make_folder_private(builder.recursive(true)).create(folder)
}
