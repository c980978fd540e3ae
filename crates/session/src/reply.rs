//! A finished response, whatever protocol it came in: what the rules see of it, and its blocks as
//! they go back.

use softland_core::{Call, Finished, Stop, Text};
use softland_wire::{Tokens, anthropic, chat, responses};

use crate::chat::ChatBlock;
use crate::responses::ResponsesBlock;

/// A response of the model.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) id: String,
    pub(crate) model: String,
    /// The content, in the order in which it began.
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: Stop,
    /// Whether it came to its end by itself: a call that stands last is whole then, valid JSON or
    /// not.
    pub(crate) whole: bool,
    /// What the response reports of itself.
    pub(crate) tokens: Tokens,
    /// What it is billed for.
    pub(crate) billed: Tokens,
    /// What only its own protocol needs to end a message with it.
    pub(crate) rest: Rest,
}

/// What stands in a response beside its content.
#[derive(Clone, Debug)]
pub(crate) enum Rest {
    /// The message without its blocks.
    Anthropic(Box<anthropic::Message>),
    /// The message.
    Chat(Box<chat::Message>),
    /// The response without its items.
    Responses(Box<responses::Response>),
}

/// One block of a response, in its protocol's own form.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Anthropic(anthropic::Block),
    Chat(ChatBlock),
    Responses(Box<ResponsesBlock>),
}

/// What the rules see of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<'a> {
    Text(&'a str),
    /// Thinking; without a text where it is encrypted, `signed` where it may go back.
    Thinking {
        text: Option<&'a str>,
        signed: bool,
    },
    /// A call, and whether its input is whole.
    Call(Call<'a>, bool),
    /// The result of a tool that the provider runs.
    Result,
    Other,
}

impl Block {
    pub(crate) fn seen(&self) -> Seen<'_> {
        match self {
            Self::Anthropic(block) => crate::anthropic::seen(block),
            Self::Chat(block) => block.seen(),
            Self::Responses(block) => block.seen(),
        }
    }

    /// Gives a call another id.
    pub(crate) fn set_call_id(&mut self, own: impl FnOnce(&str) -> String) {
        match self {
            Self::Anthropic(anthropic::Block::ToolUse { id, .. }) => *id = own(id),
            Self::Chat(ChatBlock::Call(call)) => call.id = own(&call.id),
            Self::Responses(block) => block.set_call_id(own),
            Self::Anthropic(_) | Self::Chat(_) => {}
        }
    }

    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self.seen(), Seen::Thinking { .. })
    }

    pub(crate) fn is_result(&self) -> bool {
        matches!(self.seen(), Seen::Result)
    }

    /// Whether it is a call that the provider runs, and whose result is a block of its own.
    pub(crate) fn is_server_call(&self) -> bool {
        !matches!(self, Self::Responses(_))
            && matches!(self.seen(), Seen::Call(Call { server: true, .. }, _))
    }

    /// The letter of its kind in [`KeptTail::shown`](crate::KeptTail).
    pub(crate) fn letter(&self) -> char {
        match self.seen() {
            Seen::Text(_) => 't',
            Seen::Thinking { .. } => 'k',
            Seen::Call(..) => 'c',
            Seen::Result | Seen::Other => 'o',
        }
    }
}

impl Reply {
    /// The response in the core's words.
    pub(crate) fn finished(&self) -> Finished<'_> {
        let hidden = self.blocks.iter().any(|block| {
            matches!(block.seen(), Seen::Thinking { .. } | Seen::Result | Seen::Other)
        });
        Finished {
            text: Text::of(&text(&self.blocks)),
            cut_call: self.cut_call(),
            calls: calls(&self.blocks).map(|(call, _)| call).collect(),
            hidden,
            stop: self.stop,
            output_tokens: Some(self.tokens.output),
        }
    }

    /// Whether the last call was cut by the end of the output. A call of a turn that ended by itself
    /// is whole, valid JSON or not: the loop answers it.
    pub(crate) fn cut_call(&self) -> bool {
        let last = self.blocks.last().map(Block::seen);
        !self.whole && matches!(last, Some(Seen::Call(Call { server: false, .. }, _)))
    }

    /// Whether the response goes on with the result of a call that was left open.
    pub(crate) fn resolves(&self) -> bool {
        self.blocks.iter().find(|block| !block.is_thinking()).is_some_and(Block::is_result)
    }

    /// The blocks that may go back: what the API refuses, or what was cut, is left out.
    pub(crate) fn kept(&self, cut_call: bool) -> Vec<Block> {
        let mut blocks = self.blocks.clone();
        if cut_call {
            blocks.pop();
        }
        blocks.retain(|block| match block.seen() {
            Seen::Text(text) => !Text::of(text).is_blank(),
            Seen::Thinking { signed, .. } => signed,
            _ => true,
        });
        blocks
    }
}

/// The visible text of a response, its blocks joined in order.
pub(crate) fn text(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match block.seen() {
        Seen::Text(text) => Some(text),
        _ => None,
    });
    texts.collect()
}

/// The calls of a response, in order, with whether their input is whole.
pub(crate) fn calls(blocks: &[Block]) -> impl Iterator<Item = (Call<'_>, bool)> {
    blocks.iter().filter_map(|block| match block.seen() {
        Seen::Call(call, complete) => Some((call, complete)),
        _ => None,
    })
}

/// The blocks without the calls of the provider's tools that have no result: only the turn itself
/// may go on behind such a call, no text.
pub(crate) fn closed(mut blocks: Vec<Block>) -> Vec<Block> {
    let mut results = blocks.iter().filter(|block| block.is_result()).count();
    blocks.retain(|block| {
        if !block.is_server_call() {
            return true;
        }
        let answered = results > 0;
        results = results.saturating_sub(1);
        answered
    });
    blocks
}
