//! The end of a response for the client: the end as received, with what differs of it.

use std::borrow::Cow;

use softland_wire::json::{Cursor, Error};
use softland_wire::lay_over;
use softland_wire::responses::respond::{self, Changes, Head, ResponseEnd};
use softland_wire::responses::{Response, Status};

use super::ResponsesFraming;
use crate::framing::MessageEnd;

impl ResponsesFraming {
    /// Returns the client's response as an object, with this end: that of the newest response as
    /// received, with what differs of it.
    pub(super) fn response_object(
        &self,
        response: &Response,
        ending: &MessageEnd<'_>,
        output: &[&[u8]],
    ) -> String {
        let (id, model) = ending.head;
        let mut usage = response.usage;
        usage.tokens.output = ending.output;
        usage.reasoning = usage.reasoning.min(ending.output);
        let reason = response.incomplete_reason.as_deref().unwrap_or("max_output_tokens");
        let status = match response.status {
            Some(Status::Incomplete) => ResponseEnd::Incomplete(reason),
            _ => ResponseEnd::Completed,
        };
        let ended = has_status(&response.raw, status.status().name());
        let counted = ended && usage.tokens.output == response.usage.tokens.output;
        let changes = Changes {
            id: Some(id),
            status: Some(status).filter(|_| !ended),
            output: Some(output),
            usage: Some(&usage).filter(|_| !counted),
            ..Changes::default()
        };
        let received = Some(&response.raw).filter(|raw| !raw.is_empty());
        let received = received.map(|raw| self.under_own_head(raw));
        let begun = received.as_deref().or(self.head.as_deref());
        if let Some(Ok(response)) = begun.map(|begun| respond::apply_changes(begun, &changes)) {
            return response;
        }
        let created_at = response.created_at.unwrap_or(0);
        let head = Head { id, model, created_at, previous_response_id: None };
        respond::format_response(&head, status, output, Some(&usage))
    }

    /// Returns a response as received with the members that say which request it answers, as the
    /// head of the client's response has them.
    fn under_own_head<'r>(&self, raw: &'r str) -> Cow<'r, str> {
        let head = self.head.as_deref().filter(|_| !self.under_way.heads);
        let head = head.and_then(|head| respond::request_members(head).ok());
        let laid = head.and_then(|members| lay_over(raw, &members).ok());
        laid.map_or(Cow::Borrowed(raw), Cow::Owned)
    }
}

/// True if a response object says that it has this status.
fn has_status(response: &str, status: &str) -> bool {
    let mut has = false;
    // The object was read before, so there is no error to report.
    let _ = Cursor::new(response).read_members(|cursor, member| {
        if member.key.eq_str("status") {
            has = cursor.read_string_or_skip()?.is_some_and(|(text, _)| text.eq_str(status));
        }
        Ok::<_, Error>(())
    });
    has
}
