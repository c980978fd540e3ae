//! Sessions of opencode: the files of its storage folder, its database, dumps of the database's
//! tables in files of one folder, and the output of `opencode export`.

mod database;
mod session;
mod storage;

use std::collections::{BTreeMap, HashMap};

use crate::fields::{Fields, elements};
use crate::input::{Broken, Input};
use crate::out::Out;
pub(crate) use database::{is_its, read as database};
use session::{Message, Session};
pub(crate) use storage::Storage;

/// The sessions and messages that are known before their parts are read.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The parent of each session that has one.
    parents: HashMap<String, String>,
    messages: Vec<Message>,
    by_id: HashMap<String, usize>,
}

/// Calls `each` with the rows of a table.
fn rows(
    input: &mut Input<'_>,
    out: &mut Out<'_>,
    each: &mut dyn FnMut(&mut Out<'_>, &Fields<'_>, u64) -> Result<(), String>,
) {
    let read: Result<(), Broken> = input.array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take()? else {
            out.unreadable(Some(line), "a row is longer than 64 MiB");
            return Ok(());
        };
        out.mended(&piece);
        let line = piece.line;
        let taken = Fields::of(&piece.text).and_then(|fields| each(out, &fields, line));
        if let Err(reason) = taken {
            out.unreadable(Some(line), reason);
        }
        Ok(())
    });
    if let Err(broken) = read {
        out.broken(input, &broken);
    }
}

impl Known {
    pub(crate) fn sessions(&mut self, input: &mut Input<'_>, out: &mut Out<'_>) {
        rows(input, out, &mut |_, row, _| {
            if let (Some(id), Some(parent)) = (row.owned("id"), row.owned("parent_id")) {
                self.parents.insert(id, parent);
            }
            Ok(())
        });
    }

    pub(crate) fn messages(&mut self, input: &mut Input<'_>, out: &mut Out<'_>) {
        let mut list = Vec::new();
        rows(input, out, &mut |_, row, _| {
            let data = row.text("data").ok_or("no `data`")?;
            let session = row.owned("session_id").unwrap_or_default();
            let message = Message::of(session, row.uint("time_created"), &Fields::of(&data)?);
            list.push((row.owned("id").ok_or("no `id`")?, message));
            Ok(())
        });
        self.take(list);
    }

    /// Adds messages, in the order of their times.
    fn take(&mut self, mut list: Vec<(String, Message)>) {
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

    fn begin(&self, out: &mut Out<'_>, first: &Message) -> Session {
        Session::begin(out, self.parents.get(&first.session).map(String::as_str), first)
    }

    /// Reads the parts, and hands on every session.
    pub(crate) fn parts(&self, input: Option<&mut Input<'_>>, out: &mut Out<'_>) {
        let mut by_session = self.by_session();
        let mut open: HashMap<&str, Open> = HashMap::new();
        // In the order of the first messages.
        for message in &self.messages {
            let name = message.session.as_str();
            open.entry(name).or_insert_with(|| Open {
                session: self.begin(out, message),
                order: by_session.remove(name).unwrap_or_default(),
                next: 0,
            });
        }
        if let Some(input) = input {
            rows(input, out, &mut |out, row, _| {
                let id = row.text("message_id").ok_or("no `message_id`")?;
                let at = *self.by_id.get(&*id).ok_or("a part of no message")?;
                let message = self.messages.get(at).ok_or("a part of no message")?;
                let open = open.get_mut(&*message.session).ok_or("a part of no session")?;
                let data = row.text("data").ok_or("no `data`")?;
                // Parts must come in the order of the messages.
                if open.order.get(open.next..).unwrap_or_default().binary_search(&at).is_err() {
                    return Err("a part that comes behind its message's end".to_owned());
                }
                open.advance(self, out, at);
                open.session.part(message.assistant, &Fields::of(&data)?);
                Ok(())
            });
        }
        let mut rest: Vec<_> = open.into_values().collect();
        rest.sort_by_key(|open| open.session.talk);
        for mut open in rest {
            open.advance(self, out, usize::MAX);
            out.end(open.session.talk);
        }
    }
}

/// A session of a dump, whose parts may come between those of other sessions.
struct Open {
    session: Session,
    order: Vec<usize>,
    /// The position in `order`.
    next: usize,
}

impl Open {
    /// Hands on the messages before `until`.
    fn advance(&mut self, known: &Known, out: &mut Out<'_>, until: usize) {
        while let Some(&at) = self.order.get(self.next) {
            if at == until {
                return;
            }
            self.next += 1;
            if let Some(message) = known.messages.get(at) {
                self.session.over(out, message);
            }
        }
    }
}

/// Reads the output of `opencode export`: one session, its messages with their parts.
pub(crate) fn export(input: &mut Input<'_>, out: &mut Out<'_>) {
    let mut parent = None;
    let mut session: Option<Session> = None;
    let read = input.object(&mut |input, key| {
        match key {
            "info" => {
                let info = input.take()?;
                let info = info.as_ref().and_then(|piece| Fields::of(&piece.text).ok());
                parent = info.and_then(|info| info.owned("parentID"));
            }
            "messages" if input.peek() == Some(b'[') => rows(input, out, &mut |out, row, _| {
                let info = row.object("info").ok_or("no message: it has no `info`")?;
                let message = Message::of(info.owned("sessionID").unwrap_or_default(), None, &info);
                let begin = || Session::begin(out, parent.as_deref(), &message);
                let session = session.get_or_insert_with(begin);
                for part in elements(row.raw("parts").unwrap_or_default()) {
                    session.part(message.assistant, &Fields::of(part)?);
                }
                session.over(out, &message);
                Ok(())
            }),
            _ => {}
        }
        Ok(())
    });
    if let Err(broken) = read {
        out.broken(input, &broken);
    }
}
