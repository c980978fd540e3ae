//! Response objects: softland's own, and received ones with some members changed.

use crate::{
    Splice,
    json::{Cursor, Error, Span, write_str},
    lay_over,
    responses::{
        response::{Failure, Status},
        usage::Usage,
    },
    splice::quote_text,
};

/// The head of a response that softland writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// The response's id.
    pub id: &'a str,
    /// The model named as the author of the response.
    pub model: &'a str,
    /// The creation time, in seconds since the epoch.
    pub created_at: u64,
    /// The response that the request continued from.
    pub previous_response_id: Option<&'a str>,
}

/// The edits of a response object. `None` leaves a member as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    /// The new id.
    pub id: Option<&'a str>,
    /// The new `previous_response_id`.
    pub previous_response_id: Option<&'a str>,
    /// The new status, which also sets the details: `incomplete_details` of an incomplete response
    /// is the given reason, otherwise `null`; `error` of a failed response is the given failure,
    /// otherwise `null`.
    pub status: Option<ResponseEnd<'a>>,
    /// The new output: items as JSON, in order.
    pub output: Option<&'a [&'a [u8]]>,
    /// The new usage. Of a usage as received only the output and the total change.
    pub usage: Option<&'a Usage>,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEnd<'a> {
    /// `completed`
    Completed,
    /// `incomplete`, with its reason: `max_output_tokens` or `content_filter`.
    Incomplete(&'a str),
    /// `failed`, with the failure.
    Failed(&'a Failure),
    /// `in_progress`: the response has not ended.
    InProgress,
}

impl ResponseEnd<'_> {
    /// Returns the corresponding status.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Completed => Status::Completed,
            Self::Incomplete(_) => Status::Incomplete,
            Self::Failed(_) => Status::Failed,
            Self::InProgress => Status::InProgress,
        }
    }
}

/// Returns one of softland's own response objects, for a body or for an event. Members that the
/// request sets have the API's defaults: clients require them to be present, but read other
/// members.
#[must_use]
pub fn format_response(
    head: &Head<'_>,
    end: ResponseEnd<'_>,
    output: &[&[u8]],
    usage: Option<&Usage>,
) -> String {
    let mut out = br#"{"id":"#.to_vec();
    write_str(&mut out, head.id);
    out.extend_from_slice(br#","object":"response","created_at":"#);
    out.extend_from_slice(head.created_at.to_string().as_bytes());
    let status = end.status();
    for (name, value) in [
        ("status", quote_text(status.name())),
        ("background", b"false".to_vec()),
        ("error", format_failure(end)),
        ("incomplete_details", format_details(end)),
        ("instructions", b"null".to_vec()),
        ("max_output_tokens", b"null".to_vec()),
        ("model", quote_text(head.model)),
        ("output", format_list(output)),
        ("parallel_tool_calls", b"true".to_vec()),
        ("previous_response_id", head.previous_response_id.map_or_else(format_null, quote_text)),
        ("reasoning", br#"{"effort":null,"summary":null}"#.to_vec()),
        ("store", b"false".to_vec()),
        ("temperature", b"1.0".to_vec()),
        ("text", br#"{"format":{"type":"text"}}"#.to_vec()),
        ("tool_choice", br#""auto""#.to_vec()),
        ("tools", b"[]".to_vec()),
        ("top_p", b"1.0".to_vec()),
        ("truncation", br#""disabled""#.to_vec()),
        ("usage", usage.map_or_else(format_null, format_usage)),
        ("user", format_null()),
        ("metadata", b"{}".to_vec()),
    ] {
        out.push(b',');
        write_str(&mut out, name);
        out.push(b':');
        out.extend_from_slice(&value);
    }
    out.push(b'}');
    // Only text goes into it, so the check fails only if the caller's own bytes are not text.
    String::from_utf8(out).unwrap_or_default()
}

/// Returns a received response object with some members changed. All others stay byte for byte.
/// Missing members are added.
///
/// # Errors
/// Fails if `response_json` is not a JSON object.
pub fn apply_changes(response_json: &str, changes: &Changes<'_>) -> Result<String, Error> {
    let mut cursor = Cursor::new(response_json);
    let mut members: Vec<(String, Span)> = Vec::new();
    let span = cursor.read_members(|cursor, member| {
        members.push((member.key.unescape().into_owned(), cursor.skip_value()?));
        Ok::<_, Error>(())
    })?;
    cursor.expect_end()?;
    let mut splice = Splice::new();
    let mut first = members.is_empty();
    for (name, value) in changes.to_members() {
        let at = members.iter().rev().find(|(key, _)| key == name);
        match at {
            Some((_, span)) if name == "usage" && is_object(*span, response_json) => {
                let Some(usage) = changes.usage else { continue };
                let received = span.slice_of(response_json);
                splice.replace(*span, lay_over(received, &usage.output_members())?);
            }
            Some((_, span)) => splice.replace(*span, value),
            None => splice.append_member_to(span, std::mem::take(&mut first), name, &value),
        }
    }
    // The spans lie within this text and do not overlap, so there is no error to report.
    let bytes = splice.apply(response_json.as_bytes()).unwrap_or_default();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// Returns the members of a response object by which a client knows its own request: those that
/// softland's further requests for the same response may have otherwise. The result is a JSON
/// object.
///
/// # Errors
/// Fails if `response_json` is not a JSON object.
pub fn request_members(response_json: &str) -> Result<String, Error> {
    const NAMES: [&str; 6] = [
        "created_at",
        "model",
        "previous_response_id",
        "tool_choice",
        "max_output_tokens",
        "max_tool_calls",
    ];
    let mut members: Vec<String> = Vec::new();
    Cursor::new(response_json).read_members(|cursor, member| {
        if NAMES.iter().any(|name| member.key == *name) {
            let key = member.span.slice_of(response_json);
            let value = cursor.skip_value()?.slice_of(response_json);
            members.push(format!("{key}:{value}"));
        }
        Ok::<_, Error>(())
    })?;
    Ok(format!("{{{}}}", members.join(",")))
}

fn is_object(span: Span, text: &str) -> bool {
    span.slice_of(text).starts_with('{')
}

impl Changes<'_> {
    fn to_members(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut members = Vec::new();
        members.extend(self.id.map(|id| ("id", quote_text(id))));
        let previous = self.previous_response_id.map(quote_text);
        members.extend(previous.map(|id| ("previous_response_id", id)));
        if let Some(end) = self.status {
            members.push(("status", quote_text(end.status().name())));
            members.push(("incomplete_details", format_details(end)));
            members.push(("error", format_failure(end)));
        }
        members.extend(self.output.map(|output| ("output", format_list(output))));
        members.extend(self.usage.map(|usage| ("usage", format_usage(usage))));
        members
    }
}

/// Returns an error body for a response with an HTTP error status. `param` and `code` are `null` if
/// they are empty.
#[must_use]
pub fn error_body(kind: &str, code: &str, param: &str, message: &str) -> Vec<u8> {
    let mut out = br#"{"error":{"message":"#.to_vec();
    write_str(&mut out, message);
    out.extend_from_slice(br#","type":"#);
    write_str(&mut out, kind);
    for (name, value) in [("param", param), ("code", code)] {
        out.push(b',');
        write_str(&mut out, name);
        out.push(b':');
        out.extend_from_slice(&if value.is_empty() { format_null() } else { quote_text(value) });
    }
    out.extend_from_slice(b"}}");
    out
}

fn format_details(end: ResponseEnd<'_>) -> Vec<u8> {
    match end {
        ResponseEnd::Incomplete(reason) => {
            [br#"{"reason":"#.to_vec(), quote_text(reason), b"}".to_vec()].concat()
        }
        ResponseEnd::Completed | ResponseEnd::Failed(_) | ResponseEnd::InProgress => format_null(),
    }
}

fn format_failure(end: ResponseEnd<'_>) -> Vec<u8> {
    let ResponseEnd::Failed(failure) = end else { return format_null() };
    let code = if failure.code.is_empty() { &failure.kind } else { &failure.code };
    let code = if code.is_empty() { "server_error" } else { code };
    let mut out = br#"{"code":"#.to_vec();
    write_str(&mut out, code);
    out.extend_from_slice(br#","message":"#);
    write_str(&mut out, &failure.message);
    out.push(b'}');
    out
}

fn format_list(items: &[&[u8]]) -> Vec<u8> {
    [b"[".as_slice(), &items.join(b",".as_slice()), b"]"].concat()
}

fn format_usage(usage: &Usage) -> Vec<u8> {
    let mut out = Vec::new();
    usage.write_json(&mut out);
    out
}

fn format_null() -> Vec<u8> {
    b"null".to_vec()
}
