//! Reads many files, several at a time, and joins what belongs together afterwards.

mod folders;
mod join;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::claude_code::RecordIds;
use crate::input::{GIVEN_UP, Input, open_file};
use crate::kind::{Form, LOOKED_AT, Place, Table, Task, recognize_file};
use crate::sqlite::{self, DatabaseOwner};
use crate::step::Sink;
use crate::step_output::StepOutput;
use crate::walk::{FoundFile, find_files};
use crate::{Progress, ReadOptions, Recordings, Source, Unreadable};
use crate::{
    atif, claude_code, cline, codex, copilot_cli, gemini_cli, inspect, litellm, messages, mini_swe,
    opencode, openhands, openrouter_csv, otlp, pi, qwen_code, softland, swe_agent,
};

/// Lines before a recording that are longer than [`LOOKED_AT`] and may be passed over.
const LONG_LINES: usize = 8;
/// Bytes that are looked at if the first line is long.
const LOOKED_FURTHER: usize = 4 << 20;
const NO_LINE: &str = "not a line of a known kind of recording: skipped";

/// Reads all files that the paths lead to.
pub(crate) fn read_paths<S: Sink>(
    paths: &[PathBuf],
    options: &ReadOptions,
    sink: &(impl Fn(&Path) -> S + Sync),
    progress: &(dyn Fn(Progress) -> bool + Sync),
) -> Recordings<S> {
    let (found, unreadable) = find_files(paths);
    let total = found.iter().map(|file| file.bytes).sum();
    let done = AtomicU64::new(0);
    let tell = || progress(Progress { done: done.load(Ordering::Relaxed).min(total), total });
    let _ = tell();
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<FileResult<S>>>> = found.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(file), Some(slot)) = (found.get(at), slots.get(at)) else { return };
            let read = read_file(file, sink, &done, &tell, &RecordIds::default());
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(read);
            }
        }
    };
    let threads = options.threads.clamp(1, found.len().max(1));
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let read = slots.into_iter().map(|slot| slot.into_inner().ok().flatten().unwrap_or_default());
    let mut read: Vec<FileResult<S>> = read.collect();
    reread_duplicates(&found, &mut read, sink);
    join::join_dumps(&found, &mut read, sink);
    join::join_storage(&found, &mut read, sink);
    folders::join_tasks(&found, &mut read, sink);
    folders::join_conversations(&found, &mut read, sink);
    done.store(total, Ordering::Relaxed);
    let _ = tell();
    collect_results(found, read, unreadable)
}

/// The result of reading one file.
struct FileResult<S> {
    form: Option<Form>,
    sink: Option<S>,
    ids: Option<RecordIds>,
    /// The ids of a database of opencode's.
    database: Option<RecordIds>,
    unreadable: Vec<(Option<u64>, String)>,
    /// The reason why there are no runs, for a file of which that is no mistake.
    no_runs: Option<String>,
}

impl<S> Default for FileResult<S> {
    fn default() -> Self {
        Self {
            form: None,
            sink: None,
            ids: None,
            database: None,
            unreadable: Vec::new(),
            no_runs: None,
        }
    }
}

/// Reads one file. `known` holds the ids that earlier files share with this one.
fn read_file<S: Sink>(
    file: &FoundFile,
    sink: &impl Fn(&Path) -> S,
    done: &AtomicU64,
    tell_progress: &(dyn Fn() -> bool + Sync),
    known: &RecordIds,
) -> FileResult<S> {
    let mut read = FileResult::default();
    let (inner, compressed) = match open_file(&file.path, done, tell_progress) {
        Ok(opened) => opened,
        Err(error) => {
            read.unreadable.push((None, error.to_string()));
            return read;
        }
    };
    let mut input = Input::new(inner);
    input.skip_mark();
    let form = match recognize_lines(&mut input, &mut read.unreadable) {
        Ok(form) => form,
        Err(reason) => {
            let reason = input.read_error().map_or_else(|| reason.to_owned(), damage_reason);
            read.unreadable.push((None, reason));
            return read;
        }
    };
    read.form = Some(form);
    if is_joined(form) {
        return read;
    }
    let mut taker = sink(&file.path);
    let mut out = StepOutput::new(&mut taker);
    out.unreadable = std::mem::take(&mut read.unreadable);
    let plain = (!compressed).then_some(file.path.as_path());
    match form {
        Form::ClaudeCode => {
            read.ids = Some(claude_code::read_recording(&mut input, &mut out, known))
        }
        Form::Codex => codex::read_recording(&mut input, &mut out),
        Form::Csv => {
            read.ids = Some(openrouter_csv::read_recording(&mut input, &mut out, plain, known))
        }
        Form::Messages => messages::read_recording(&mut input, &mut out),
        Form::MessageLines => messages::read_lines(&mut input, &mut out),
        Form::GeminiCli => gemini_cli::read_recording(&mut input, &mut out),
        Form::GeminiCliLines => gemini_cli::read_lines(&mut input, &mut out),
        Form::CopilotCli => copilot_cli::read_recording(&mut input, &mut out),
        Form::MiniSwe => mini_swe::read_recording(&mut input, &mut out),
        Form::SweAgent => swe_agent::read_recording(&mut input, &mut out),
        Form::Archive => {
            if !inspect::read_archive(&file.path, &mut out) {
                read.form = None;
            }
        }
        Form::Events => softland::read_events(&mut input, &mut out),
        Form::Journal => softland::journal(&mut input, &mut out),
        Form::OpenCodeExport => opencode::read_export(&mut input, &mut out),
        Form::Ledger => match read_database(&file.path, compressed, &mut out, tell_progress) {
            DatabaseOwner::Softland => {}
            DatabaseOwner::OpenCode(ids) => {
                read.form = Some(Form::OpenCode(Table::Database));
                read.database = Some(ids);
            }
            DatabaseOwner::Goose => read.form = Some(Form::Goose),
            DatabaseOwner::Others => read.form = None,
        },
        form => read_other(form, &mut input, &mut out),
    }
    finish_file(&input, &mut out);
    read.no_runs = list_turnless(form, &mut out);
    read.unreadable = out.unreadable;
    read.sink = read.form.is_some().then_some(taker);
    read
}

/// Reads a recording that is one file, of a kind that needs nothing else.
fn read_other(form: Form, input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    match form {
        Form::Atif => atif::read_recording(input, out),
        Form::Pi(_) => pi::read_recording(input, out),
        Form::Otlp => otlp::read_recording(input, out),
        Form::Inspect => inspect::read_recording(input, out),
        Form::Cline(Task::Shown) => cline::read_recording(input, out),
        Form::QwenCode => qwen_code::read_recording(input, out),
        Form::OpenHands(Place::Trajectory) => openhands::read_recording(input, out),
        Form::LiteLlm => litellm::read_recording(input, out),
        _ => {}
    }
}

/// Lists a file of a known kind that holds no turn of a model. Returns the reason if such a file is
/// normal beside others.
fn list_turnless(form: Form, out: &mut StepOutput<'_>) -> Option<String> {
    if !out.has_no_turn() || !out.unreadable.is_empty() {
        return None;
    }
    let reason = format!("read as {}, and no turn of a model was found", form.kind().name());
    // A file of Claude Code may hold nothing but the summary of another one.
    if form == Form::ClaudeCode {
        return Some(reason);
    }
    // These files hold whole sessions. The others may be parts of something else.
    let whole = matches!(
        form,
        Form::Codex
            | Form::GeminiCli
            | Form::GeminiCliLines
            | Form::CopilotCli
            | Form::MiniSwe
            | Form::SweAgent
            | Form::Messages
            | Form::MessageLines
            | Form::Atif
            | Form::Pi(_)
            | Form::Otlp
            | Form::Inspect
            | Form::Cline(Task::Shown)
            | Form::QwenCode
            | Form::OpenHands(Place::Trajectory)
            | Form::LiteLlm
    );
    if whole {
        out.list_unreadable(None, reason);
    }
    None
}

/// Returns true if a file is read together with others of its folder.
fn is_joined(form: Form) -> bool {
    match form {
        Form::OpenCode(_) => true,
        Form::Cline(task) => task != Task::Shown,
        Form::OpenHands(place) => place != Place::Trajectory,
        _ => false,
    }
}

/// Reads a database. A compressed database is unpacked into a temporary file first.
fn read_database(
    path: &Path,
    compressed: bool,
    out: &mut StepOutput<'_>,
    on: &(dyn Fn() -> bool + Sync),
) -> DatabaseOwner {
    if !compressed {
        return sqlite::read_database(path, out, on);
    }
    match sqlite::unpack_database(path, on) {
        Ok(file) => sqlite::read_database(file.path(), out, on),
        Err(error) => {
            out.list_unreadable(None, damage_reason(&error.to_string()));
            DatabaseOwner::Others
        }
    }
}

/// Recognizes a file. Lines before the first one that is recognized are left out, and listed.
fn recognize_lines(
    input: &mut Input<'_>,
    unreadable: &mut Vec<(Option<u64>, String)>,
) -> Result<Form, &'static str> {
    for _ in 0..LONG_LINES {
        let mut told = recognize_file(input.peek_bytes(LOOKED_AT));
        let is_long = |head: &[u8]| !head.contains(&b'\n') && !head.contains(&0);
        if told.is_err() && is_long(input.peek_bytes(LOOKED_AT)) {
            told = recognize_file(input.peek_bytes(LOOKED_FURTHER));
        }
        let (form, left_out) = match told {
            Ok(told) => told,
            Err(_)
                if is_long(input.peek_bytes(LOOKED_FURTHER))
                    && input.peek_bytes(LOOKED_FURTHER).len() >= LOOKED_FURTHER =>
            {
                let line = input.pass_line();
                if input.peek().is_none() {
                    return told.map(|(form, _)| form);
                }
                unreadable.push((Some(line), NO_LINE.to_owned()));
                continue;
            }
            Err(reason) => return Err(reason),
        };
        for _ in 0..left_out {
            if let Some(Ok(piece)) = input.take_line()
                && !piece.text.trim().is_empty()
            {
                unreadable.push((Some(piece.line), NO_LINE.to_owned()));
            }
        }
        return Ok(form);
    }
    Err("not a known kind of recording")
}

/// Ends all open conversations, and lists the file if it could not be read to its end.
fn finish_file(input: &Input<'_>, out: &mut StepOutput<'_>) {
    out.end_all();
    if let Some(reason) = input.read_error() {
        out.list_unreadable(Some(input.line_number()), damage_reason(reason));
    }
}

fn damage_reason(reason: &str) -> String {
    if reason == GIVEN_UP {
        return reason.to_owned();
    }
    format!("damaged or cut: {reason}")
}

/// Reads again the files that repeat what other files hold, so that everything is counted once.
///
/// Sessions of Claude Code repeat the session that they were resumed or forked from, and sub-agents
/// may have files of their own. A message counts in the agent's own file, else in the file that
/// holds most messages, so that a resumed run stays whole. Activities that were exported twice are
/// counted once as well.
fn reread_duplicates<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    sink: &impl Fn(&Path) -> S,
) {
    let agent = |file: &FileResult<S>| {
        file.ids.as_ref().map(|ids| (!ids.agent, std::cmp::Reverse(ids.messages.len())))
    };
    let mut order: Vec<usize> = (0..read.len()).collect();
    order.retain(|at| read.get(*at).is_some_and(|file| file.ids.is_some()));
    order.sort_by_key(|at| read.get(*at).and_then(agent));
    if order.len() < 2 {
        return;
    }
    let mut known = RecordIds::default();
    for at in order {
        let (Some(file), Some(slot)) = (found.get(at), read.get_mut(at)) else { continue };
        let Some(ids) = slot.ids.take() else { continue };
        let again =
            !known.messages.is_disjoint(&ids.messages) || !known.lines.is_disjoint(&ids.lines);
        if again {
            // A file whose turns count elsewhere has turns.
            let no_runs = slot.no_runs.take();
            *slot = read_file(file, sink, &AtomicU64::new(0), &|| true, &known);
            slot.no_runs = no_runs;
        }
        known.messages.extend(ids.messages);
        known.lines.extend(ids.lines);
    }
}

fn collect_results<S>(
    found: Vec<FoundFile>,
    read: Vec<FileResult<S>>,
    mut unreadable: Vec<Unreadable>,
) -> Recordings<S> {
    let mut sources = Vec::with_capacity(found.len());
    // They stand behind what could not be read, which matters more.
    let mut no_runs = Vec::new();
    for (FoundFile { path, bytes }, file) in found.into_iter().zip(read) {
        for (line, reason) in file.unreadable {
            unreadable.push(Unreadable { path: path.clone(), line, reason });
        }
        if let Some(reason) = file.no_runs {
            no_runs.push(Unreadable { path: path.clone(), line: None, reason });
        }
        let kind = file.form.map(Form::kind);
        sources.push(Source { path, kind, bytes, sink: file.sink });
    }
    unreadable.append(&mut no_runs);
    Recordings { sources, unreadable }
}
