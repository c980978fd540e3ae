//! A request of any protocol, seen through spans into its original bytes as the one kind of request
//! that a governor reads.
//!
//! [`Request::of`] reads the whole body once and notes where the things are that a governor needs;
//! everything else is skipped untouched. It checks JSON and the shape of the members it knows,
//! nothing more: whether the API would take the request is the API's business. Where a key stands
//! twice, the last one wins, as in the providers' parsers.
//!
//! The view is that of Anthropic Messages: messages of blocks, results among them. What another
//! protocol spreads over several messages or items stands in one message here, as its one turn is:
//! the calls of a turn, or their results. What the view does not know it shows as a block of
//! another kind. [`Splice`](crate::Splice) edits a body by its view, in place.

mod anthropic;
mod blocks;
mod chat;
mod edit;
mod error;
mod members;
mod responses;
mod terms;
#[cfg(test)]
mod tests;

pub use blocks::{
    Block, BlockKind, Content, Input, Message, Messages, Part, ResultContent, Role, ToolResult,
};
pub use error::RequestError;
pub use members::{
    MaxTokens, Thinking, ThinkingMode, Thread, Tool, ToolChoice, ToolChoiceKind, Tools,
};

pub use terms::Terms;

use crate::{
    Api,
    chat::StreamOptions,
    json::{Span, Str},
};

/// A borrowed view of a request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The API it was written for.
    pub api: Api,
    /// The whole body; every span points into it.
    pub text: &'a str,
    /// The body's object.
    pub span: Span,
    /// `model`
    pub model: Str<'a>,
    /// `stream`, false where absent.
    pub stream: bool,
    /// `max_tokens`, where it is a whole number.
    pub max_tokens: Option<MaxTokens>,
    /// The value of `system`, string or list.
    pub system: Option<Span>,
    /// `tools`
    pub tools: Option<Tools<'a>>,
    /// `tool_choice`
    pub tool_choice: Option<ToolChoice<'a>>,
    /// `thinking`
    pub thinking: Thinking,
    /// Whether there is a top-level `cache_control` (automatic caching).
    pub cache_control: bool,
    /// `metadata.user_id`, or `user` of OpenAI's APIs.
    pub user_id: Option<Str<'a>>,
    /// `prompt_cache_key` of OpenAI's APIs.
    pub cache_key: Option<Str<'a>>,
    /// The value of `metadata` of OpenAI's APIs.
    pub metadata: Option<Span>,
    /// `thread`: the history, or a part of it, is the provider's.
    pub thread: Option<Thread<'a>>,
    /// The name of the member that limits the output, where there is none yet.
    pub limit_member: &'static str,
    /// `stream_options` of Chat Completions.
    pub stream_options: Option<StreamOptions>,
    /// `previous_response_id` of the Responses API, and its value's span.
    pub previous: Option<(Str<'a>, Span)>,
    /// The history, or a part of it, is the provider's and is found under another name than
    /// `previous`: `conversation` of the Responses API.
    pub elsewhere: bool,
    /// That name, where it is given as the API has it: the id of a conversation.
    pub conversation: Option<Str<'a>>,
    /// Whether the provider keeps the response, so that a later request may go on from it: `store`
    /// of the Responses API, which is on where it is absent.
    pub stored: bool,
    /// The member by which it asks for what is no single answer to this request: a `background`
    /// response, more choices than one (`n`), calls in the deprecated form (`functions`).
    pub apart: Option<&'static str>,
    /// What it says of its price.
    pub terms: Terms,
    /// `messages`
    pub messages: Messages<'a>,
}

impl<'a> Request<'a> {
    /// Reads a request body of one of the APIs.
    ///
    /// # Errors
    /// When it is not JSON, or has not what that API's every request must have: a `model` string,
    /// and messages each with a role, or an input, of a shape that the API knows.
    pub fn of(api: Api, body: &'a [u8]) -> Result<Self, RequestError> {
        match api {
            Api::Anthropic => anthropic::scan(body),
            Api::Chat => chat::scan(body),
            Api::Responses => responses::scan(body),
        }
    }
}

/// Adds a block to the last message where that may hold it, else as a message of its own.
fn join<'a>(list: &mut Vec<Message<'a>>, role: Role, joins: bool, block: Block<'a>) {
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

/// Whether a message ends in a result: others may stand in it, too.
fn is_results(message: &Message<'_>) -> bool {
    matches!(&message.content, Content::Blocks { blocks, .. }
        if matches!(blocks.last(), Some(Block { kind: BlockKind::ToolResult(_), .. })))
}

fn known(name: &'static str) -> Str<'static> {
    Str::plain(name).unwrap_or_default()
}
