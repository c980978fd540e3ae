//! Reads many files, several at a time, and joins what belongs together afterwards.

mod join;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::claude_code::Ids;
use crate::input::{GIVEN_UP, Input, open};
use crate::kind::{Form, LOOKED_AT, Table, tell};
use crate::out::Out;
use crate::sqlite::{self, Whose};
use crate::step::Sink;
use crate::walk::{Found, files};
use crate::{Options, Progress, Read, Source, Unreadable};
use crate::{
    claude_code, codex, copilot_cli, gemini_cli, messages, mini_swe, opencode, openrouter_csv,
    softland, swe_agent,
};

/// Lines before a recording that are longer than [`LOOKED_AT`] and may be passed over.
const LONG_LINES: usize = 8;
/// Bytes that are looked at if the first line is long.
const LOOKED_FURTHER: usize = 4 << 20;
const NO_LINE: &str = "no line of a recording that is known: passed over";

/// Reads all files that the paths lead to.
pub(crate) fn read<S: Sink>(
    paths: &[PathBuf],
    options: &Options,
    sink: &(impl Fn(&Path) -> S + Sync),
    progress: &(dyn Fn(Progress) -> bool + Sync),
) -> Read<S> {
    let (found, unreadable) = files(paths);
    let total = found.iter().map(|file| file.bytes).sum();
    let done = AtomicU64::new(0);
    let tell = || progress(Progress { done: done.load(Ordering::Relaxed).min(total), total });
    let _ = tell();
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<File<S>>>> = found.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(file), Some(slot)) = (found.get(at), slots.get(at)) else { return };
            let read = one(file, sink, &done, &tell, &Ids::default());
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
    let mut read: Vec<File<S>> = read.collect();
    once(&found, &mut read, sink);
    join::dumps(&found, &mut read, sink);
    join::storage(&found, &mut read, sink);
    done.store(total, Ordering::Relaxed);
    let _ = tell();
    collect(found, read, unreadable)
}

/// The result of reading one file.
struct File<S> {
    form: Option<Form>,
    sink: Option<S>,
    ids: Option<Ids>,
    /// The ids of a database of opencode's.
    database: Option<Ids>,
    unreadable: Vec<(Option<u64>, String)>,
}

impl<S> Default for File<S> {
    fn default() -> Self {
        Self { form: None, sink: None, ids: None, database: None, unreadable: Vec::new() }
    }
}

/// Reads one file. `known` holds the ids that earlier files share with this one.
fn one<S: Sink>(
    file: &Found,
    sink: &impl Fn(&Path) -> S,
    done: &AtomicU64,
    tell_progress: &(dyn Fn() -> bool + Sync),
    known: &Ids,
) -> File<S> {
    let mut read = File::default();
    let (inner, compressed) = match open(&file.path, done, tell_progress) {
        Ok(opened) => opened,
        Err(error) => {
            read.unreadable.push((None, error.to_string()));
            return read;
        }
    };
    let mut input = Input::new(inner);
    input.skip_mark();
    let form = match first_lines(&mut input, &mut read.unreadable) {
        Ok(form) => form,
        Err(reason) => {
            let reason = input.failed().map_or_else(|| reason.to_owned(), damaged);
            read.unreadable.push((None, reason));
            return read;
        }
    };
    read.form = Some(form);
    if matches!(form, Form::OpenCode(_)) {
        return read;
    }
    let mut taker = sink(&file.path);
    let mut out = Out::new(&mut taker);
    out.unreadable = std::mem::take(&mut read.unreadable);
    let plain = (!compressed).then_some(file.path.as_path());
    match form {
        Form::ClaudeCode => read.ids = Some(claude_code::read(&mut input, &mut out, known)),
        Form::Codex => codex::read(&mut input, &mut out),
        Form::Csv => read.ids = Some(openrouter_csv::read(&mut input, &mut out, plain, known)),
        Form::Messages => messages::read(&mut input, &mut out),
        Form::MessageLines => messages::lines(&mut input, &mut out),
        Form::GeminiCli => gemini_cli::read(&mut input, &mut out),
        Form::CopilotCli => copilot_cli::read(&mut input, &mut out),
        Form::MiniSwe => mini_swe::read(&mut input, &mut out),
        Form::SweAgent => swe_agent::read(&mut input, &mut out),
        Form::Events => softland::read(&mut input, &mut out),
        Form::Journal => softland::journal(&mut input, &mut out),
        Form::OpenCodeExport => opencode::export(&mut input, &mut out),
        Form::Ledger => match database(&file.path, compressed, &mut out, tell_progress) {
            Whose::Softland => {}
            Whose::OpenCode(ids) => {
                read.form = Some(Form::OpenCode(Table::Database));
                read.database = Some(ids);
            }
            Whose::Others => read.form = None,
        },
        Form::OpenCode(_) => {}
    }
    finish(&input, &mut out);
    read.unreadable = out.unreadable;
    read.sink = read.form.is_some().then_some(taker);
    read
}

/// Reads a database. A compressed database is unpacked into a temporary file first.
fn database(
    path: &Path,
    compressed: bool,
    out: &mut Out<'_>,
    on: &(dyn Fn() -> bool + Sync),
) -> Whose {
    if !compressed {
        return sqlite::read(path, out, on);
    }
    match sqlite::unpacked(path, on) {
        Ok(file) => sqlite::read(file.path(), out, on),
        Err(error) => {
            out.unreadable(None, damaged(&error.to_string()));
            Whose::Others
        }
    }
}

/// Recognizes a file. Lines before the first one that is recognized are left out, and listed.
fn first_lines(
    input: &mut Input<'_>,
    unreadable: &mut Vec<(Option<u64>, String)>,
) -> Result<Form, &'static str> {
    for _ in 0..LONG_LINES {
        let mut told = tell(input.ahead(LOOKED_AT));
        let is_long = |head: &[u8]| !head.contains(&b'\n') && !head.contains(&0);
        if told.is_err() && is_long(input.ahead(LOOKED_AT)) {
            told = tell(input.ahead(LOOKED_FURTHER));
        }
        let (form, left_out) = match told {
            Ok(told) => told,
            Err(_)
                if is_long(input.ahead(LOOKED_FURTHER))
                    && input.ahead(LOOKED_FURTHER).len() >= LOOKED_FURTHER =>
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
            if let Some(Ok(piece)) = input.line()
                && !piece.text.trim().is_empty()
            {
                unreadable.push((Some(piece.line), NO_LINE.to_owned()));
            }
        }
        return Ok(form);
    }
    Err("no kind of recording that is known")
}

/// Ends all open conversations, and lists the file if it could not be read to its end.
fn finish(input: &Input<'_>, out: &mut Out<'_>) {
    out.end_all();
    if let Some(reason) = input.failed() {
        out.unreadable(Some(input.line_number()), damaged(reason));
    }
}

fn damaged(reason: &str) -> String {
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
fn once<S: Sink>(found: &[Found], read: &mut [File<S>], sink: &impl Fn(&Path) -> S) {
    let agent = |file: &File<S>| {
        file.ids.as_ref().map(|ids| (!ids.agent, std::cmp::Reverse(ids.messages.len())))
    };
    let mut order: Vec<usize> = (0..read.len()).collect();
    order.retain(|at| read.get(*at).is_some_and(|file| file.ids.is_some()));
    order.sort_by_key(|at| read.get(*at).and_then(agent));
    if order.len() < 2 {
        return;
    }
    let mut known = Ids::default();
    for at in order {
        let (Some(file), Some(slot)) = (found.get(at), read.get_mut(at)) else { continue };
        let Some(ids) = slot.ids.take() else { continue };
        let again =
            !known.messages.is_disjoint(&ids.messages) || !known.lines.is_disjoint(&ids.lines);
        if again {
            *slot = one(file, sink, &AtomicU64::new(0), &|| true, &known);
        }
        known.messages.extend(ids.messages);
        known.lines.extend(ids.lines);
    }
}

fn collect<S>(found: Vec<Found>, read: Vec<File<S>>, mut unreadable: Vec<Unreadable>) -> Read<S> {
    let mut sources = Vec::with_capacity(found.len());
    for (Found { path, bytes }, file) in found.into_iter().zip(read) {
        for (line, reason) in file.unreadable {
            unreadable.push(Unreadable { path: path.clone(), line, reason });
        }
        let kind = file.form.map(Form::kind);
        sources.push(Source { path, kind, bytes, sink: file.sink });
    }
    Read { sources, unreadable }
}
