//! opencode's storage folder: one file for each session, message and part. Only their ids are held
//! until a session is handed on, message by message, part by part.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

use softland_session::core::Digest;

use super::KnownMessages;
use super::session::{MessageInfo, Session};
use crate::fields::Fields;
use crate::step_output::StepOutput;

/// Calls the given function with a file's JSON, and lists the file if it cannot be read.
pub(crate) type ReadJson<'t> =
    dyn FnMut(usize, &mut dyn FnMut(&Fields<'_>) -> Result<(), String>) + 't;

/// The known files of a storage folder.
#[derive(Default)]
pub(crate) struct Storage<'f> {
    known: KnownMessages,
    /// Ids of the messages, in order.
    ids: Vec<String>,
    /// The file under which a session is reported: its own, else that of its first message.
    holders: HashMap<String, usize>,
    /// The parts, with their names, by the name of their folder, which is their message's id.
    parts: HashMap<&'f OsStr, Vec<(&'f OsStr, usize)>>,
    /// Ids of messages that a database holds as well.
    elsewhere: HashSet<Digest>,
}

impl<'f> Storage<'f> {
    pub(crate) fn new(elsewhere: HashSet<Digest>) -> Self {
        Self { elsewhere, ..Self::default() }
    }

    /// Adds the file of a part.
    pub(crate) fn add_part(&mut self, at: usize, path: &'f Path) {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let name = path.file_name().unwrap_or_default();
        self.parts.entry(folder).or_default().push((name, at));
    }

    /// Reads the files of sessions, then those of messages.
    pub(crate) fn read_files(
        &mut self,
        sessions: &[usize],
        messages: &[usize],
        text: &mut ReadJson<'_>,
    ) {
        for &at in sessions {
            text(at, &mut |data| {
                let id = data.owned_text("id").ok_or("no `id`")?;
                if let Some(folder) = data.owned_text("directory") {
                    self.known.folders.insert(id.clone(), folder);
                }
                if let Some(parent) = data.owned_text("parentID") {
                    self.known.parents.insert(id.clone(), parent);
                }
                self.holders.entry(id).or_insert(at);
                Ok(())
            });
        }
        let mut list = Vec::new();
        for &at in messages {
            text(at, &mut |data| {
                let id = data.owned_text("id").ok_or("no `id`")?;
                let session = data.owned_text("sessionID").unwrap_or_default();
                // A message that was copied, by a newer version or by hand, counts once.
                if !self.elsewhere.insert(Digest::from_bytes(id.as_bytes())) {
                    self.parts.remove(OsStr::new(&id));
                    return Ok(());
                }
                let message = MessageInfo::from_fields(session, None, data);
                list.push((id, message, at));
                Ok(())
            });
        }
        // Ids grow with time.
        list.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for (_, message, at) in &list {
            self.holders.entry(message.session.clone()).or_insert(*at);
        }
        self.known.add_messages(list.into_iter().map(|(id, message, _)| (id, message)).collect());
        self.ids = vec![String::new(); self.known.messages.len()];
        for (id, at) in &self.known.by_id {
            if let Some(place) = self.ids.get_mut(*at) {
                place.clone_from(id);
            }
        }
    }

    /// Returns the sessions in the order of their first messages, each with the file that holds it.
    pub(crate) fn sessions(&self) -> Vec<(usize, Vec<usize>)> {
        let mut by_session = self.known.by_session();
        let order = self.known.messages.iter().filter_map(|message| {
            let order = by_session.remove(message.session.as_str())?;
            Some((*self.holders.get(&message.session)?, order))
        });
        order.collect()
    }

    /// Hands on one session.
    pub(crate) fn emit_session(
        &mut self,
        out: &mut StepOutput<'_>,
        order: &[usize],
        text: &mut ReadJson<'_>,
    ) {
        let mut session: Option<Session> = None;
        for at in order {
            let Some(message) = self.known.messages.get(*at) else { continue };
            let session = session.get_or_insert_with(|| self.known.begin_session(out, message));
            let id = self.ids.get(*at).map_or("", String::as_str);
            let mut parts = self.parts.remove(OsStr::new(id)).unwrap_or_default();
            parts.sort_unstable();
            parts.dedup_by_key(|(name, _)| *name);
            for (_, part) in parts {
                text(part, &mut |data| {
                    session.take_part(message.assistant, data);
                    Ok(())
                });
            }
            session.finish_message(out, message);
        }
        if let Some(session) = session {
            out.end_conversation(session.talk);
        }
    }

    /// Returns the parts that belong to no known message.
    pub(crate) fn orphan_parts(&self) -> impl Iterator<Item = usize> {
        self.parts.values().flatten().map(|(_, at)| *at)
    }
}
