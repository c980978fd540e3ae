//! Joins files of opencode that are read together: tables dumped into one folder, its storage
//! folder.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::atomic::AtomicU64;

use super::{FileResult, finish_file};
use crate::fields::Fields;
use crate::input::{Input, open_file};
use crate::kind::{Form, Table};
use crate::opencode::{KnownMessages, Storage};
use crate::step::Sink;
use crate::step_output::StepOutput;
use crate::walk::FoundFile;

/// Joins the tables of opencode in each folder.
pub(super) fn join_dumps<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    sink: &impl Fn(&Path) -> S,
) {
    let mut folders: BTreeMap<&Path, Vec<(usize, Table)>> = BTreeMap::new();
    for (at, (file, slot)) in found.iter().zip(read.iter()).enumerate() {
        if let Some(Form::OpenCode(table)) = slot.form
            && matches!(table, Table::Sessions | Table::Messages | Table::Parts | Table::Other)
        {
            let folder = file.path.parent().unwrap_or_else(|| Path::new(""));
            folders.entry(folder).or_default().push((at, table));
        }
    }
    for tables in folders.into_values() {
        join_tables(found, read, sink, &tables);
    }
}

fn join_tables<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    sink: &impl Fn(&Path) -> S,
    tables: &[(usize, Table)],
) {
    let of = |wanted: Table| tables.iter().find(|(_, table)| *table == wanted).map(|(at, _)| *at);
    let (messages, parts) = (of(Table::Messages), of(Table::Parts));
    let mut known = KnownMessages::default();
    for (at, table) in [(of(Table::Sessions), Table::Sessions), (messages, Table::Messages)] {
        let Some(at) = at else { continue };
        reopen_table(found, read, at, None::<&mut S>, &mut |input, out| match table {
            Table::Sessions => known.read_sessions(input, out),
            _ => known.read_messages(input, out),
        });
    }
    let Some(holder) = parts.or(messages) else { return };
    if known.is_empty() {
        if let Some(slot) = read.get_mut(holder) {
            slot.unreadable.push((None, "no messages of opencode beside it".to_owned()));
        }
        return;
    }
    let Some(file) = found.get(holder) else { return };
    let mut taker = sink(&file.path);
    reopen_table(found, read, holder, Some(&mut taker), &mut |input, out| {
        known.read_parts(parts.map(|_| input), out);
    });
    if let Some(slot) = read.get_mut(holder) {
        slot.sink = Some(taker);
    }
}

/// Opens a table again and hands it to `take`.
pub(super) fn reopen_table<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    at: usize,
    sink: Option<&mut S>,
    take: &mut dyn FnMut(&mut Input<'_>, &mut StepOutput<'_>),
) {
    let (Some(file), Some(slot)) = (found.get(at), read.get_mut(at)) else { return };
    let (count, tell) = (AtomicU64::new(0), || true);
    match open_file(&file.path, &count, &tell) {
        Err(error) => slot.unreadable.push((None, error.to_string())),
        Ok((inner, _)) => {
            let mut input = Input::new(inner);
            input.skip_mark();
            let mut nobody = NullSink;
            let mut out = match sink {
                Some(sink) => StepOutput::new(sink),
                None => StepOutput::new(&mut nobody),
            };
            take(&mut input, &mut out);
            finish_file(&input, &mut out);
            slot.unreadable.extend(out.unreadable);
        }
    }
}

/// A sink that discards everything.
struct NullSink;

impl Sink for NullSink {
    fn begin_conversation(&mut self, _: crate::ConversationId, _: &crate::ConversationStart<'_>) {}
    fn take_user_step(&mut self, _: crate::ConversationId, _: &crate::UserStep<'_>) {}
    fn take_turn(&mut self, _: crate::ConversationId, _: &crate::TurnStep<'_>) {}
    fn end_conversation(&mut self, _: crate::ConversationId) {}
}

/// Joins the files of opencode's storage folder, without the messages that a database held as well.
pub(super) fn join_storage<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    sink: &impl Fn(&Path) -> S,
) {
    let mut elsewhere = HashSet::new();
    let (mut sessions, mut messages, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for (at, slot) in read.iter_mut().enumerate() {
        elsewhere.extend(slot.database.take().map(|ids| ids.messages).unwrap_or_default());
        match slot.form {
            Some(Form::OpenCode(Table::SessionFile)) => sessions.push(at),
            Some(Form::OpenCode(Table::MessageFile)) => messages.push(at),
            Some(Form::OpenCode(Table::PartFile)) => parts.push(at),
            _ => {}
        }
    }
    let mut storage = Storage::new(elsewhere);
    for at in parts {
        if let Some(file) = found.get(at) {
            storage.add_part(at, &file.path);
        }
    }
    storage.read_files(&sessions, &messages, &mut |at, take| read_json(found, read, at, take));
    for (holder, order) in storage.sessions() {
        let Some(file) = found.get(holder) else { continue };
        let mut taker = sink(&file.path);
        let mut out = StepOutput::new(&mut taker);
        storage.emit_session(&mut out, &order, &mut |at, take| read_json(found, read, at, take));
        out.end_all();
        let unreadable = out.unreadable;
        if let Some(slot) = read.get_mut(holder) {
            slot.unreadable.extend(unreadable);
            slot.sink = Some(taker);
        }
    }
    for at in storage.orphan_parts() {
        if let Some(slot) = read.get_mut(at) {
            slot.unreadable.push((None, "a part of no message that is here".to_owned()));
        }
    }
}

/// Hands the JSON of a file to `take`; lists the file if it cannot be read.
pub(super) fn read_json<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    at: usize,
    take: &mut dyn FnMut(&Fields<'_>) -> Result<(), String>,
) {
    reopen_table(found, read, at, None::<&mut S>, &mut |input, out| match input.take_value() {
        Ok(Some(piece)) => {
            out.list_mended(&piece);
            if let Err(reason) = Fields::from_json(&piece.text).and_then(|fields| take(&fields)) {
                out.list_unreadable(None, reason);
            }
        }
        Ok(None) => out.list_unreadable(None, "longer than 64 MiB"),
        Err(broken) => out.list_broken(input, &broken),
    });
}
