//! Reads one line of a session, in one pass.

use softland_session::wire::json::{Cursor, Error, Kind, Str};

use crate::message::Message;

/// The members of a line that are read.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    pub(super) message: Option<Message<'a>>,
    /// A sub-agent's message within a line of progress.
    pub(super) inner: Option<Message<'a>>,
    pub(super) inner_uuid: Option<Str<'a>>,
    pub(super) agent: Option<Str<'a>>,
    pub(super) session: Option<Str<'a>>,
    pub(super) uuid: Option<Str<'a>>,
    pub(super) parent: Option<Str<'a>>,
    pub(super) request: Option<Str<'a>>,
    pub(super) time: Option<Str<'a>>,
    /// The folder that the agent works in.
    pub(super) folder: Option<Str<'a>>,
    pub(super) sidechain: bool,
    /// True if a program wrote the line in the user's name.
    pub(super) machine: bool,
}

impl<'a> Line<'a> {
    pub(super) fn from_json(text: &'a str) -> Result<Self, String> {
        let mut line = Self::default();
        let mut cursor = Cursor::new(text);
        let read =
            cursor.read_members(|cursor, member| line.read_member(&member.key.unescape(), cursor));
        let read = read.and_then(|_| cursor.expect_end());
        read.map_err(|error| error.to_string())?;
        Ok(line)
    }

    fn read_member(&mut self, key: &str, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        let target = match key {
            "message" => {
                self.message = Some(Message::from_cursor(cursor)?);
                return Ok(());
            }
            "data" => return self.read_progress(cursor),
            "isSidechain" => {
                self.sidechain = cursor.read_bool_or_skip()? == Some(true);
                return Ok(());
            }
            "isMeta" | "isCompactSummary" | "isVisibleInTranscriptOnly" => {
                self.machine |= cursor.read_bool_or_skip()? == Some(true);
                return Ok(());
            }
            "agentId" => &mut self.agent,
            "sessionId" => &mut self.session,
            "uuid" => &mut self.uuid,
            "parentUuid" => &mut self.parent,
            "requestId" => &mut self.request,
            "timestamp" => &mut self.time,
            "cwd" => &mut self.folder,
            _ => return Ok(()),
        };
        *target = cursor.read_string_or_skip()?.map(|(text, _)| text);
        Ok(())
    }

    /// Reads the `data` of a line of progress: `{type, message: {message, uuid}, agentId}`.
    fn read_progress(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "agentId" => self.agent = cursor.read_string_or_skip()?.map(|(text, _)| text),
                "message" if cursor.peek()? == Kind::Object => {
                    cursor.read_members(|cursor, member| {
                        match &*member.key.unescape() {
                            "message" => self.inner = Some(Message::from_cursor(cursor)?),
                            "uuid" => {
                                self.inner_uuid =
                                    cursor.read_string_or_skip()?.map(|(text, _)| text);
                            }
                            _ => {}
                        }
                        Ok::<_, Error>(())
                    })?;
                }
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}
