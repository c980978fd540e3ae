//! The blocks of a response: its output items.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use softland_core::{Call, Digest, Stop};
use softland_wire::json::{Cursor, Error, write_str};
use softland_wire::responses::{OutputItem, OutputKind, Response, Status, native_input, respond};

use super::items::holds_result;
use crate::block_view::BlockView;

/// One item of a response.
#[derive(Clone, Debug)]
pub(crate) struct ResponsesBlock {
    pub(super) item: OutputItem,
    /// The id of the reasoning before it, without which its own id may not go back.
    pub(super) tied: Option<Arc<str>>,
    /// True if the item is reasoning that may go back.
    returns: bool,
    /// What the model asks for in the item, if that is a call of a tool of the API's own.
    native: String,
}

/// The form in which a call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AnswerForm {
    Function,
    Custom,
    Approval,
    /// A tool that the provider defines and the client runs: the item's type.
    Tool(String),
}

impl ResponsesBlock {
    fn new(item: OutputItem, tied: Option<Arc<str>>, returns: bool) -> Self {
        let native = match &item.kind {
            OutputKind::Other { kind, call_id } if runs_on_server(kind, call_id).is_some() => {
                native_input(&item.raw).into_owned()
            }
            _ => String::new(),
        };
        Self { item, tied, returns, native }
    }

    pub(super) fn from_text(text: &str) -> Self {
        let kind = OutputKind::Message { text: text.to_owned(), refusal: None, phase: None };
        // The item gets its id where it is shown.
        let raw = String::from_utf8(respond::text_item("", text)).unwrap_or_default();
        let item = OutputItem { kind, id: String::new(), raw, done: true, completed: true };
        Self::new(item, None, false)
    }

    /// Returns the item.
    pub(crate) fn item(&self) -> &OutputItem {
        &self.item
    }

    pub(crate) fn as_view(&self) -> BlockView<'_> {
        let id = self.item.id.as_str();
        match &self.item.kind {
            OutputKind::Message { text, refusal, .. } => {
                BlockView::Text(refusal.as_deref().filter(|_| text.is_empty()).unwrap_or(text))
            }
            OutputKind::Call { call_id, name, arguments, complete, .. } => {
                let call = Call { id: call_id, name, input: arguments, server: false };
                BlockView::Call(call, *complete)
            }
            OutputKind::Reasoning { summary, text, .. } => {
                let text = if text.is_empty() { summary } else { text };
                BlockView::Thinking { text: Some(text), signed: self.returns }
            }
            OutputKind::Other { kind, call_id } => match runs_on_server(kind, call_id) {
                Some(server) => {
                    let id = if call_id.is_empty() { id } else { call_id };
                    let call = Call { id, name: kind, input: &self.native, server };
                    BlockView::Call(call, self.item.done)
                }
                None => BlockView::Other,
            },
        }
    }

    /// True if the block gives the client something. An item that only the model reads, or a call
    /// that came to nothing, does not.
    pub(crate) fn has_other_content(&self) -> bool {
        matches!(self.item.kind, OutputKind::Other { .. })
            && self.item.done
            && holds_result(&self.item.raw)
    }

    /// Gives a call another id.
    pub(crate) fn set_call_id(&mut self, own: impl FnOnce(&str) -> Option<String>) {
        let BlockView::Call(call, _) = self.as_view() else { return };
        let new = own(call.id).unwrap_or_else(|| call.id.to_owned());
        let call_id = match &mut self.item.kind {
            OutputKind::Call { call_id, .. } => call_id,
            // A call without one is known by the item's id.
            OutputKind::Other { call_id, .. } if !call_id.is_empty() => call_id,
            _ => return,
        };
        if *call_id != new {
            self.item.raw = with_text(&self.item.raw, "call_id", Some(&new));
            *call_id = new;
        }
    }

    /// Gives a message another text.
    pub(crate) fn set_text(&mut self, new: &str) {
        if let OutputKind::Message { text, refusal, .. } = &mut self.item.kind {
            new.clone_into(text);
            *refusal = None;
            let raw = respond::text_item(&self.item.id, new);
            self.item.raw = String::from_utf8(raw).unwrap_or_default();
        }
    }

    /// Returns the item under another id, or without any.
    pub(super) fn with_id(&self, id: Option<&str>) -> String {
        with_text(&self.item.raw, "id", id)
    }

    pub(super) fn answer_form(&self) -> Option<(&str, AnswerForm)> {
        let BlockView::Call(Call { id, server: false, .. }, _) = self.as_view() else {
            return None;
        };
        let how = match &self.item.kind {
            OutputKind::Call { custom: true, .. } => AnswerForm::Custom,
            OutputKind::Other { kind, .. } if kind == APPROVAL => AnswerForm::Approval,
            OutputKind::Other { kind, .. } => AnswerForm::Tool(kind.clone()),
            _ => AnswerForm::Function,
        };
        Some((id, how))
    }
}

const APPROVAL: &str = "mcp_approval_request";

/// Returns true if an item of another kind is a call that the provider runs, false if it is a call
/// for the client, and `None` if it is no call.
pub(super) fn runs_on_server(kind: &str, call_id: &str) -> Option<bool> {
    match kind {
        // The client has to say something before the model goes on.
        APPROVAL => Some(false),
        _ if kind.ends_with("_call") => Some(call_id.is_empty()),
        _ => None,
    }
}

/// Returns the items of a response as blocks. Reasoning may go back where the provider has kept it,
/// or where all of its parts came along.
pub(super) fn read_response_blocks(response: &mut Response) -> Vec<ResponsesBlock> {
    let stored = is_stored(&response.raw);
    let mut tied: Option<Arc<str>> = None;
    let items = std::mem::take(&mut response.items).into_iter();
    let blocks = items.map(|item| {
        let mut returns = false;
        if let OutputKind::Reasoning { encrypted, text, .. } = &item.kind {
            returns = item.done && (*encrypted || stored || !text.is_empty());
            tied = Some(Arc::from(item.id.as_str()));
            return ResponsesBlock::new(item, None, returns);
        }
        let tied = tied.clone();
        ResponsesBlock::new(item, tied, returns)
    });
    blocks.collect()
}

/// Returns the reason why a response ended.
pub(super) fn stop_reason_of(response: &Response) -> Stop {
    match (&response.status, response.incomplete_reason.as_deref()) {
        (Some(Status::Completed), _) => Stop::Natural,
        (Some(Status::Incomplete), Some("content_filter")) => Stop::Refusal,
        (Some(Status::Incomplete), _) => Stop::Length,
        (Some(_), _) => Stop::Other,
        (None, _) => Stop::Unknown,
    }
}

/// Returns `store` of a response, which is true where nothing is said of it.
fn is_stored(response: &str) -> bool {
    let mut stored = true;
    // Without a response there is nothing to store, and nothing to read.
    let _ = Cursor::new(response).read_members(|cursor, member| {
        if member.key.eq_str("store") {
            stored = cursor.read_bool_or_skip()? != Some(false);
        }
        Ok::<_, Error>(())
    });
    stored
}

/// Returns the items of these blocks, without ids that may not go back, and without reasoning that
/// nothing follows.
pub(super) fn history_items(mut blocks: Vec<&ResponsesBlock>) -> Vec<String> {
    while blocks.last().is_some_and(|last| matches!(last.as_view(), BlockView::Thinking { .. })) {
        blocks.pop();
    }
    let there: BTreeSet<&str> = blocks.iter().map(|block| block.item.id.as_str()).collect();
    let items = blocks.iter().map(|block| match &block.tied {
        _ if block.item.id.is_empty() => block.with_id(None),
        Some(tied) if !there.contains(&**tied) => block.with_id(None),
        _ => block.item.raw.clone(),
    });
    items.collect()
}

/// Returns the form in which each call among blocks is answered, by the call's id.
pub(super) fn answer_forms(blocks: &[ResponsesBlock]) -> BTreeMap<String, AnswerForm> {
    let answers = blocks.iter().filter_map(ResponsesBlock::answer_form);
    answers.map(|(id, how)| (id.to_owned(), how)).collect()
}

/// Returns an item id of softland's own.
pub(super) fn own_id(response: &str, index: u32) -> String {
    let key = Digest::from_bytes(response.as_bytes())
        .followed_by(Digest::from_bytes(&index.to_be_bytes()));
    format!("msg_softland_{key}")
}

/// Returns an item without its id.
pub(crate) fn without_id(item: &str) -> String {
    with_text(item, "id", None)
}

/// Returns an object with a text member changed, or without the member.
fn with_text(object: &str, name: &str, value: Option<&str>) -> String {
    let mut out = vec![b'{'];
    let mut there = false;
    // The object was scanned before, so there is no error to report.
    let _ = Cursor::new(object).read_members(|cursor, member| {
        let old = cursor.skip_value()?.slice_of(object);
        let key = member.key.unescape();
        if key == name && (there || value.is_none()) {
            return Ok(());
        }
        if out.len() > 1 {
            out.push(b',');
        }
        write_str(&mut out, &key);
        out.push(b':');
        match value.filter(|_| key == name) {
            Some(value) => {
                there = true;
                write_str(&mut out, value);
            }
            None => out.extend_from_slice(old.as_bytes()),
        }
        Ok::<_, Error>(())
    });
    if let Some(value) = value.filter(|_| !there) {
        if out.len() > 1 {
            out.push(b',');
        }
        write_str(&mut out, name);
        out.push(b':');
        write_str(&mut out, value);
    }
    out.push(b'}');
    // Only text went into it.
    String::from_utf8(out).unwrap_or_else(|_| object.to_owned())
}
