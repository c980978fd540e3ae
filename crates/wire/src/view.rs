//! A request of any protocol, seen as the one kind of request that a governor reads.
//!
//! The view is [`Request`]: messages of blocks, results among them, every span into the bytes as
//! they came. What a protocol spreads over several messages or items stands in one message here,
//! as its one turn is: the calls of a turn, or their results. What the view does not know it shows
//! as a block of another kind.

mod chat;
mod responses;
#[cfg(test)]
mod tests;

use crate::{
    Api,
    anthropic::{
        Content, Request, RequestBlock as Block, RequestError, RequestMessage as Message, Role,
    },
    json::Span,
};

impl<'a> Request<'a> {
    /// Reads a request body of one of the APIs.
    ///
    /// # Errors
    /// When it is not JSON, or has not what that API's every request must have.
    pub fn of(api: Api, body: &'a [u8]) -> Result<Self, RequestError> {
        match api {
            Api::Anthropic => Self::scan(body),
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
    list.push(Message { role, span, content: Content::Blocks { span, blocks: vec![block] } });
}
