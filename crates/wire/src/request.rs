//! A request of any protocol, as a view of spans into its original bytes, in the one form that a
//! governor reads.
//!
//! [`Request::from_body`] reads the whole body once and records the spans of what a governor needs.
//! Everything else is skipped untouched. It checks the JSON and the shape of the members it knows,
//! and nothing more: the API decides whether it accepts the request. Of a repeated key the last
//! value wins, as in the providers' parsers.
//!
//! The view has the form of Anthropic Messages: messages of blocks, results among them. Other
//! protocols spread a turn's calls, or their results, over several messages or items; here they are
//! joined in one message. What the view does not know becomes a block of kind [`BlockKind::Other`].
//! [`Splice`](crate::Splice) edits a body by its view, in place.

mod anthropic;
mod blocks;
mod chat;
mod edit;
mod error;
mod members;
mod owned;
mod responses;
mod room;
mod terms;
#[cfg(test)]
mod tests;

pub use blocks::{
    Block, BlockKind, BlockKindOf, BlockOf, CallInput, CallInputOf, Content, ContentOf, Message,
    MessageOf, Messages, MessagesOf, Part, PartOf, ResultContent, ResultContentOf, Role, TextRoom,
    ToolResult, ToolResultOf,
};
pub use error::RequestError;
pub use members::{
    OutputLimit, Thinking, ThinkingMode, Thread, ThreadOf, Tool, ToolChoice, ToolChoiceKind,
    ToolChoiceKindOf, ToolChoiceOf, ToolOf, Tools, ToolsOf,
};
pub use owned::OwnedRequest;

pub use terms::PricingTerms;

use crate::{
    Api,
    chat::StreamOptions,
    json::{Span, Str},
};

/// A borrowed view of a request.
pub type Request<'a> = RequestOf<Str<'a>, &'a str>;

/// The members of a request, with strings of a kind `S` and the body's text `T`.
#[derive(Clone, Debug)]
pub struct RequestOf<S, T> {
    /// The API the request was written for.
    pub api: Api,
    /// The whole body; every span points into it.
    pub text: T,
    /// The body's object.
    pub span: Span,
    /// `model`
    pub model: S,
    /// `stream`, false where absent.
    pub stream: bool,
    /// `max_tokens`, if it is a whole number.
    pub max_tokens: Option<OutputLimit>,
    /// The value of `system`, string or list.
    pub system: Option<Span>,
    /// `tools`
    pub tools: Option<ToolsOf<S>>,
    /// `tool_choice`
    pub tool_choice: Option<ToolChoiceOf<S>>,
    /// `thinking`
    pub thinking: Thinking,
    /// True if there is a top-level `cache_control` (automatic caching).
    pub cache_control: bool,
    /// `metadata.user_id`, or `user` of OpenAI's APIs.
    pub user_id: Option<S>,
    /// `prompt_cache_key` of OpenAI's APIs.
    pub cache_key: Option<S>,
    /// The value of `metadata` of OpenAI's APIs.
    pub metadata: Option<Span>,
    /// `thread`: the provider keeps the history or a part of it.
    pub thread: Option<ThreadOf<S>>,
    /// The name of the member that limits the output if the request has none yet.
    pub limit_member: &'static str,
    /// `stream_options` of Chat Completions.
    pub stream_options: Option<StreamOptions>,
    /// `previous_response_id` of the Responses API, and its value's span.
    pub previous: Option<(S, Span)>,
    /// True if the provider keeps the history or a part of it under another name than `previous`:
    /// `conversation` of the Responses API.
    pub elsewhere: bool,
    /// The id of that conversation, if it is given in the form the API specifies.
    pub conversation: Option<S>,
    /// True if the provider stores the response, so that a later request may continue from it:
    /// `store` of the Responses API, which is on by default.
    pub stored: bool,
    /// The member that asks for something other than a single answer: a `background` response,
    /// several choices (`n`), or calls in the deprecated form (`functions`).
    pub apart: Option<&'static str>,
    /// The members that affect the price.
    pub terms: PricingTerms,
    /// `messages`
    pub messages: MessagesOf<S>,
}

impl<'a> RequestOf<Str<'a>, &'a str> {
    /// Reads a request body of the given API.
    ///
    /// # Errors
    /// Fails if the body is not JSON, or lacks what every request of that API must have: a `model`
    /// string, and messages that each have a role, or an input, of a shape that the API knows.
    pub fn from_body(api: Api, body: &'a [u8]) -> Result<Self, RequestError> {
        let mut request = match api {
            Api::Anthropic => anthropic::scan_body(body),
            Api::Chat => chat::scan_body(body),
            Api::Responses => responses::scan_body(body),
        }?;
        room::mark_results_of_code(&mut request.messages.list);
        Ok(request)
    }
}

/// Appends a block to the last message if that message may hold it, otherwise as a new message.
fn append_block<'a>(list: &mut Vec<Message<'a>>, role: Role, joins: bool, block: Block<'a>) {
    if let Some(last) = list.last_mut().filter(|last| joins && last.role == role)
        && let Content::Blocks { span, blocks } = &mut last.content
    {
        last.span = Span::new(last.span.start, block.span.end);
        *span = last.span;
        blocks.push(block);
        return;
    }
    let span = block.span;
    let content = Content::Blocks { span, blocks: vec![block] };
    list.push(Message { role, name: None, span, content });
}

/// Returns true if a message ends in a result. Other blocks may precede it.
fn ends_in_result(message: &Message<'_>) -> bool {
    matches!(&message.content, Content::Blocks { blocks, .. }
        if matches!(blocks.last(), Some(Block { kind: BlockKind::ToolResult(_), .. })))
}

fn known_name(name: &'static str) -> Str<'static> {
    Str::from_plain(name).unwrap_or_default()
}
