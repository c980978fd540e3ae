//! Sessions of opencode: the files of its storage folder, its database, dumps of the database's
//! tables in files of one folder, and the output of `opencode export`.

mod database;
mod session;
mod storage;

use std::collections::{BTreeMap, HashMap};

use crate::fields::{Fields, array_elements};
use crate::input::{Input, JsonError};
use crate::step_output::StepOutput;
pub(crate) use database::{is_opencode, read_database as database};
use session::{MessageInfo, Session};
pub(crate) use storage::Storage;

/// The sessions and messages that are known before their parts are read.
#[derive(Debug, Default)]
pub(crate) struct KnownMessages {
    /// The parent of each session that has one.
    parents: HashMap<String, String>,
    /// The folder of each session.
    folders: HashMap<String, String>,
    messages: Vec<MessageInfo>,
    by_id: HashMap<String, usize>,
}

/// Calls `each` with the rows of a table.
fn each_row(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    each: &mut dyn FnMut(&mut StepOutput<'_>, &Fields<'_>, u64) -> Result<(), String>,
) {
    let read: Result<(), JsonError> = input.take_array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take_value()? else {
            out.list_unreadable(Some(line), "a row is longer than 64 MiB");
            return Ok(());
        };
        out.list_mended(&piece);
        let line = piece.line;
        let taken = Fields::from_json(&piece.text).and_then(|fields| each(out, &fields, line));
        if let Err(reason) = taken {
            out.list_unreadable(Some(line), reason);
        }
        Ok(())
    });
    if let Err(broken) = read {
        out.list_broken(input, &broken);
    }
}

impl KnownMessages {
    pub(crate) fn read_sessions(&mut self, input: &mut Input<'_>, out: &mut StepOutput<'_>) {
        each_row(input, out, &mut |_, row, _| {
            let Some(id) = row.owned_text("id") else { return Ok(()) };
            if let Some(folder) = row.owned_text("directory") {
                self.folders.insert(id.clone(), folder);
            }
            if let Some(parent) = row.owned_text("parent_id") {
                self.parents.insert(id, parent);
            }
            Ok(())
        });
    }

    pub(crate) fn read_messages(&mut self, input: &mut Input<'_>, out: &mut StepOutput<'_>) {
        let mut list = Vec::new();
        each_row(input, out, &mut |_, row, _| {
            let data = row.text("data").ok_or("no `data`")?;
            let session = row.owned_text("session_id").unwrap_or_default();
            let message = MessageInfo::from_fields(
                session,
                row.uint("time_created"),
                &Fields::from_json(&data)?,
            );
            list.push((row.owned_text("id").ok_or("no `id`")?, message));
            Ok(())
        });
        self.add_messages(list);
    }

    /// Adds messages, in the order of their times.
    fn add_messages(&mut self, mut list: Vec<(String, MessageInfo)>) {
        list.sort_by_key(|(_, message)| message.time);
        for (id, message) in list {
            self.by_id.insert(id, self.messages.len());
            self.messages.push(message);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the messages of each session, in order.
    fn by_session(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut by_session: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, message) in self.messages.iter().enumerate() {
            by_session.entry(&message.session).or_default().push(at);
        }
        by_session
    }

    fn begin_session(&self, out: &mut StepOutput<'_>, first: &MessageInfo) -> Session {
        Session::begin_conversation(
            out,
            self.parents.get(&first.session).map(String::as_str),
            self.folders.get(&first.session).map(String::as_str),
            first,
        )
    }

    /// Reads the parts, and hands on every session.
    pub(crate) fn read_parts(&self, input: Option<&mut Input<'_>>, out: &mut StepOutput<'_>) {
        let mut by_session = self.by_session();
        let mut open: HashMap<&str, OpenSession> = HashMap::new();
        // In the order of the first messages.
        for message in &self.messages {
            let name = message.session.as_str();
            open.entry(name).or_insert_with(|| OpenSession {
                session: self.begin_session(out, message),
                order: by_session.remove(name).unwrap_or_default(),
                next: 0,
            });
        }
        if let Some(input) = input {
            each_row(input, out, &mut |out, row, _| {
                let id = row.text("message_id").ok_or("no `message_id`")?;
                let at = *self.by_id.get(&*id).ok_or("a part of no message")?;
                let message = self.messages.get(at).ok_or("a part of no message")?;
                let open = open.get_mut(&*message.session).ok_or("a part of no session")?;
                let data = row.text("data").ok_or("no `data`")?;
                // Parts must come in the order of the messages.
                if open.order.get(open.next..).unwrap_or_default().binary_search(&at).is_err() {
                    return Err("a part that comes after its message's end".to_owned());
                }
                open.advance_to(self, out, at);
                open.session.take_part(message.assistant, &Fields::from_json(&data)?);
                Ok(())
            });
        }
        let mut rest: Vec<_> = open.into_values().collect();
        rest.sort_by_key(|open| open.session.talk);
        for mut open in rest {
            open.advance_to(self, out, usize::MAX);
            out.end_conversation(open.session.talk);
        }
    }
}

/// A session of a dump, whose parts may come between those of other sessions.
struct OpenSession {
    session: Session,
    order: Vec<usize>,
    /// The position in `order`.
    next: usize,
}

impl OpenSession {
    /// Hands on the messages before `until`.
    fn advance_to(&mut self, known: &KnownMessages, out: &mut StepOutput<'_>, until: usize) {
        while let Some(&at) = self.order.get(self.next) {
            if at == until {
                return;
            }
            self.next += 1;
            if let Some(message) = known.messages.get(at) {
                self.session.finish_message(out, message);
            }
        }
    }
}

/// Reads the output of `opencode export`: one session, its messages with their parts.
pub(crate) fn read_export(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let (mut parent, mut folder) = (None, None);
    let mut session: Option<Session> = None;
    let read = input.take_object(&mut |input, key| {
        match key {
            "info" => {
                let info = input.take_value()?;
                let info = info.as_ref().and_then(|piece| Fields::from_json(&piece.text).ok());
                parent = info.as_ref().and_then(|info| info.owned_text("parentID"));
                folder = info.and_then(|info| info.owned_text("directory"));
            }
            "messages" if input.peek() == Some(b'[') => each_row(input, out, &mut |out, row, _| {
                let info = row.object("info").ok_or("no message: it has no `info`")?;
                let message = MessageInfo::from_fields(
                    info.owned_text("sessionID").unwrap_or_default(),
                    None,
                    &info,
                );
                let (parent, folder) = (parent.as_deref(), folder.as_deref());
                let begin = || Session::begin_conversation(out, parent, folder, &message);
                let session = session.get_or_insert_with(begin);
                for part in array_elements(row.raw("parts").unwrap_or_default()) {
                    session.take_part(message.assistant, &Fields::from_json(part)?);
                }
                session.finish_message(out, &message);
                Ok(())
            }),
            _ => {}
        }
        Ok(())
    });
    if let Err(broken) = read {
        out.list_broken(input, &broken);
    }
}
