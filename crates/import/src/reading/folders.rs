//! Joins files that belong together by their folder: a task of Cline's, a conversation of OpenHands.

use std::collections::BTreeMap;
use std::path::Path;

use super::FileResult;
use super::join::{read_json, reopen_table};
use crate::kind::{Form, Place, Task};
use crate::messages;
use crate::openhands::{BaseState, EventConversation};
use crate::step::Sink;
use crate::step_output::StepOutput;
use crate::walk::FoundFile;

/// Reads the messages of tasks whose usage is not there. Beside it they would count twice.
pub(super) fn join_tasks<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    sink: &impl Fn(&Path) -> S,
) {
    let mut tasks: BTreeMap<&Path, (bool, Vec<usize>)> = BTreeMap::new();
    for (at, (file, slot)) in found.iter().zip(read.iter()).enumerate() {
        let Some(Form::Cline(task)) = slot.form else { continue };
        let folder = tasks.entry(folder_of(file)).or_default();
        match task {
            Task::Shown => folder.0 = true,
            Task::History => folder.1.push(at),
            Task::Item => {}
        }
    }
    let alone = tasks.into_values().filter(|(shown, _)| !shown);
    for at in alone.flat_map(|(_, histories)| histories).collect::<Vec<_>>() {
        let Some(file) = found.get(at) else { continue };
        let mut taker = sink(&file.path);
        reopen_table(found, read, at, Some(&mut taker), &mut |input, out| {
            messages::read_recording(input, out);
        });
        if let Some(slot) = read.get_mut(at) {
            slot.sink = Some(taker);
        }
    }
}

/// Reads the events of conversations in the order of their files' names. The conversation's runs are
/// given to its first event.
pub(super) fn join_conversations<S: Sink>(
    found: &[FoundFile],
    read: &mut [FileResult<S>],
    sink: &impl Fn(&Path) -> S,
) {
    let mut talks: BTreeMap<&Path, (Option<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, (file, slot)) in found.iter().zip(read.iter()).enumerate() {
        match slot.form {
            Some(Form::OpenHands(Place::Event)) => {
                let events = folder_of(file);
                talks.entry(events.parent().unwrap_or(events)).or_default().1.push(at);
            }
            Some(Form::OpenHands(Place::State)) => {
                talks.entry(folder_of(file)).or_default().0 = Some(at);
            }
            _ => {}
        }
    }
    for (state, mut events) in talks.into_values() {
        let Some(file) = events.first().and_then(|first| found.get(*first)) else { continue };
        events.sort_by_key(|at| found.get(*at).map(|file| &file.path));
        let mut base = BaseState::default();
        if let Some(state) = state {
            read_json(found, read, state, &mut |fields| {
                base = BaseState::from_fields(fields);
                Ok(())
            });
        }
        let mut taker = sink(&file.path);
        let mut out = StepOutput::new(&mut taker);
        let mut talk = EventConversation::begin(&mut out, Some(base));
        for at in &events {
            read_json(found, read, *at, &mut |fields| talk.take_event(&mut out, fields, None));
        }
        talk.end(&mut out);
        let unreadable = std::mem::take(&mut out.unreadable);
        if let Some(slot) = events.first().and_then(|first| read.get_mut(*first)) {
            slot.unreadable.extend(unreadable);
            slot.sink = Some(taker);
        }
    }
}

fn folder_of(file: &FoundFile) -> &Path {
    file.path.parent().unwrap_or_else(|| Path::new(""))
}
