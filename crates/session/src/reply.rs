//! A finished response of any protocol: the rules' view of it, and its blocks as they go back.

use std::borrow::Cow;
use std::collections::BTreeMap;

use softland_core::{Call, FinishedTurn, Stop, VisibleText};
use softland_wire::{Api, Tokens, anthropic, chat, responses};

use crate::anthropic::block::block_view;
use crate::block_view::BlockView;
use crate::chat::block::ChatBlock;
use crate::responses::block::ResponsesBlock;
use crate::tags::TaggedTexts;

/// A response of the model.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) id: String,
    pub(crate) model: String,
    /// The content, in the order in which it began.
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: Stop,
    /// True if the response came to its end by itself. A call that stands last is whole then, valid
    /// JSON or not.
    pub(crate) whole: bool,
    /// The tokens that the response reports.
    pub(crate) tokens: Tokens,
    /// The tokens that it is billed for.
    pub(crate) billed: Tokens,
    /// The rest of the response, which only its own protocol needs to end a message with it.
    pub(crate) rest: NativeResponse,
    /// The content of its texts, where calls are written as text.
    pub(crate) tagged: Option<Box<TaggedTexts>>,
}

/// The part of a response beside its content.
#[derive(Clone, Debug)]
pub(crate) enum NativeResponse {
    /// The message without its blocks, its id and its model.
    Anthropic(Box<anthropic::ResponseMessage>),
    /// The message.
    Chat(Box<chat::ResponseMessage>),
    /// The response without its items.
    Responses(Box<responses::Response>),
}

/// One block of a response, in its protocol's own form.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    Anthropic(anthropic::ResponseBlock),
    Chat(ChatBlock),
    Responses(Box<ResponsesBlock>),
}

impl NativeResponse {
    /// Returns the API whose response it is.
    pub(crate) const fn api(&self) -> Api {
        match self {
            Self::Anthropic(_) => Api::Anthropic,
            Self::Chat(_) => Api::Chat,
            Self::Responses(_) => Api::Responses,
        }
    }

    /// Returns the message of the Messages API.
    pub(crate) fn as_anthropic(&self) -> Option<&anthropic::ResponseMessage> {
        match self {
            Self::Anthropic(message) => Some(message),
            Self::Chat(_) | Self::Responses(_) => None,
        }
    }

    /// Returns the message of Chat Completions.
    pub(crate) fn as_chat(&self) -> Option<&chat::ResponseMessage> {
        match self {
            Self::Chat(message) => Some(message),
            Self::Anthropic(_) | Self::Responses(_) => None,
        }
    }

    /// Returns the response of the Responses API.
    pub(crate) fn as_responses(&self) -> Option<&responses::Response> {
        match self {
            Self::Responses(response) => Some(response),
            Self::Anthropic(_) | Self::Chat(_) => None,
        }
    }
}

impl Block {
    /// Returns the API whose block it is.
    pub(crate) const fn api(&self) -> Api {
        match self {
            Self::Anthropic(_) => Api::Anthropic,
            Self::Chat(_) => Api::Chat,
            Self::Responses(_) => Api::Responses,
        }
    }

    /// Returns the block of the Messages API.
    pub(crate) fn as_anthropic(&self) -> Option<&anthropic::ResponseBlock> {
        match self {
            Self::Anthropic(block) => Some(block),
            Self::Chat(_) | Self::Responses(_) => None,
        }
    }

    /// Returns the block of Chat Completions.
    pub(crate) fn as_chat(&self) -> Option<&ChatBlock> {
        match self {
            Self::Chat(block) => Some(block),
            Self::Anthropic(_) | Self::Responses(_) => None,
        }
    }

    /// Returns the block of the Responses API.
    pub(crate) fn as_responses(&self) -> Option<&ResponsesBlock> {
        match self {
            Self::Responses(block) => Some(block),
            Self::Anthropic(_) | Self::Chat(_) => None,
        }
    }

    pub(crate) fn as_view(&self) -> BlockView<'_> {
        match self {
            Self::Anthropic(block) => block_view(block),
            Self::Chat(block) => block.as_view(),
            Self::Responses(block) => block.as_view(),
        }
    }

    /// Gives a call the id that `own` returns for it, if there is one.
    pub(crate) fn set_call_id(&mut self, own: impl FnOnce(&str) -> Option<String>) {
        let id = match self {
            Self::Anthropic(anthropic::ResponseBlock::ToolUse { id, .. }) => id,
            Self::Chat(ChatBlock::Call(call)) => &mut call.id,
            Self::Responses(block) => return block.set_call_id(own),
            Self::Anthropic(_) | Self::Chat(_) => return,
        };
        if let Some(own) = own(id) {
            *id = own;
        }
    }

    /// Replaces the words of a text.
    pub(crate) fn set_text(&mut self, new: &str) {
        match self {
            Self::Anthropic(anthropic::ResponseBlock::Text { text, .. })
            | Self::Chat(ChatBlock::Text(text) | ChatBlock::Refusal(text)) => {
                new.clone_into(text);
            }
            Self::Responses(block) => block.set_text(new),
            Self::Anthropic(_) | Self::Chat(_) => {}
        }
    }

    /// True if the client gets something with the block that is neither text nor a call of its own:
    /// an image, sound, or the result of a provider's tool.
    pub(crate) fn has_other_content(&self) -> bool {
        match self {
            Self::Anthropic(_) => false,
            Self::Chat(block) => block.has_other_content(),
            Self::Responses(block) => block.has_other_content(),
        }
    }

    /// True if the API takes the block in a history.
    fn may_go_back(&self) -> bool {
        match self.as_view() {
            BlockView::Text(text) => !VisibleText::is_invisible_text(text),
            BlockView::Thinking { signed, .. } => signed,
            _ => true,
        }
    }

    /// True if the block belongs to what is said, and is shown wherever text is.
    pub(crate) fn is_said(&self) -> bool {
        matches!(self, Self::Chat(ChatBlock::Members(_))) || self.has_other_content()
    }

    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self.as_view(), BlockView::Thinking { .. })
    }

    pub(crate) fn is_result(&self) -> bool {
        matches!(self.as_view(), BlockView::Result)
    }

    /// True if the block is a call that the provider runs, and whose result is a block of its own.
    pub(crate) fn is_server_call(&self) -> bool {
        !matches!(self, Self::Responses(_))
            && matches!(self.as_view(), BlockView::Call(Call { server: true, .. }, _))
    }

    /// Returns the letter of its kind in [`StoredTail::shown`](crate::StoredTail).
    pub(crate) fn kind_letter(&self) -> char {
        match self.as_view() {
            BlockView::Text(_) => 't',
            BlockView::Thinking { .. } => 'k',
            BlockView::Call(..) => 'c',
            BlockView::Result | BlockView::Other => 'o',
        }
    }
}

impl Reply {
    /// Returns the response in the core's words.
    pub(crate) fn as_finished_turn(&self) -> FinishedTurn<'_> {
        let hidden = self.blocks.iter().any(|block| {
            matches!(
                block.as_view(),
                BlockView::Thinking { .. } | BlockView::Result | BlockView::Other
            )
        });
        FinishedTurn {
            text: VisibleText::from_text(&self.visible_text()),
            cut_call: self.has_cut_call(),
            calls: self.all_calls(),
            hidden,
            gives: self.blocks.iter().any(Block::has_other_content),
            stop: self.stop,
            output_tokens: Some(self.tokens.output),
        }
    }

    /// True if the last call was cut by the end of the output. A call of a turn that ended by
    /// itself is whole, valid JSON or not: the loop answers it.
    pub(crate) fn has_cut_call(&self) -> bool {
        let last = self.blocks.last().map(Block::as_view);
        !self.whole
            && (matches!(last, Some(BlockView::Call(Call { server: false, .. }, _)))
                || self.tagged.as_ref().is_some_and(|tagged| tagged.open_block().is_some()))
    }

    /// Returns the text beside calls that are written as text.
    pub(crate) fn visible_text(&self) -> Cow<'_, str> {
        self.visible_text_of(&self.blocks)
    }

    /// Returns the same text for some of its blocks.
    pub(crate) fn visible_text_of<'r>(&self, blocks: &'r [Block]) -> Cow<'r, str> {
        match &self.tagged {
            Some(tagged) if !tagged.is_plain() => Cow::Owned(tagged.plain_text()),
            _ => joined_text(blocks),
        }
    }

    /// Returns the same text for the blocks that may go back.
    pub(crate) fn kept_text(&self) -> String {
        self.visible_text_of(&self.kept_blocks(false)).into_owned()
    }

    /// Returns the calls in order: those in texts before the others, and at last a call that was
    /// cut.
    fn all_calls(&self) -> Vec<Call<'_>> {
        let mut all: Vec<_> = self.calls_in(&self.blocks).map(|(call, _)| call).collect();
        let open = self.tagged.as_ref().and_then(|tagged| tagged.open_block());
        if open.is_some() && self.has_cut_call() {
            all.push(Call { id: "", name: "", input: "{}", server: false });
        }
        all
    }

    /// Returns the calls of these blocks, each with true if its input is whole. A call in a text
    /// that was cut is left out.
    pub(crate) fn calls_in<'r>(
        &'r self,
        blocks: &'r [Block],
    ) -> impl Iterator<Item = (Call<'r>, bool)> {
        let written = self.tagged.iter().flat_map(|tagged| tagged.calls.iter());
        written.map(|call| (call.as_call(), call.unfit.is_none())).chain(block_calls(blocks))
    }

    /// Returns the number of calls that are written as text: the first ones.
    pub(crate) fn text_call_count(&self) -> usize {
        self.tagged.as_ref().map_or(0, |tagged| tagged.calls.len())
    }

    /// Replaces the words of its texts, by the positions of their blocks.
    pub(crate) fn set_texts(&mut self, texts: &BTreeMap<usize, String>) {
        set_texts(&mut self.blocks, texts);
    }

    /// Ends the response where its text was ended: nothing is missing of it.
    pub(crate) fn end_here(&mut self) {
        self.stop = Stop::Natural;
        self.whole = true;
        match &mut self.rest {
            NativeResponse::Anthropic(message) => {
                message.stop = Some(anthropic::Stop::EndTurn);
                message.stop_sequence = None;
            }
            NativeResponse::Chat(message) => message.finish = Some(chat::Finish::Stop),
            NativeResponse::Responses(response) => {
                response.status = Some(responses::Status::Completed);
                response.incomplete_reason = None;
            }
        }
    }

    /// True if the response goes on with the result of a call that was left open.
    pub(crate) fn resolves_call(&self) -> bool {
        self.blocks.iter().find(|block| !block.is_thinking()).is_some_and(Block::is_result)
    }

    /// Returns the blocks that may go back. Blocks that the API refuses, or that were cut, are left
    /// out.
    pub(crate) fn kept_blocks(&self, cut_call: bool) -> Cow<'_, [Block]> {
        if !cut_call && self.blocks.iter().all(Block::may_go_back) {
            return Cow::Borrowed(&self.blocks);
        }
        let mut blocks = self.blocks.clone();
        match self.tagged.as_ref().filter(|tagged| tagged.open_block().is_some()) {
            Some(tagged) if cut_call => {
                set_texts(&mut blocks, &tagged.block_texts(false, |_| true))
            }
            _ if cut_call => {
                blocks.pop();
            }
            _ => {}
        }
        blocks.retain(Block::may_go_back);
        Cow::Owned(blocks)
    }
}

/// Replaces the words of the texts among blocks, by their positions. A text without new words
/// becomes empty.
fn set_texts(blocks: &mut [Block], texts: &BTreeMap<usize, String>) {
    for (at, block) in blocks.iter_mut().enumerate() {
        if matches!(block.as_view(), BlockView::Text(_)) {
            block.set_text(texts.get(&at).map_or("", String::as_str));
        }
    }
}

/// Returns the visible text of a response, its blocks joined in order.
pub(crate) fn joined_text(blocks: &[Block]) -> Cow<'_, str> {
    let mut texts = blocks.iter().filter_map(|block| match block.as_view() {
        BlockView::Text(text) => Some(text),
        _ => None,
    });
    let first = texts.next().unwrap_or_default();
    match texts.next() {
        None => Cow::Borrowed(first),
        Some(second) => Cow::Owned([first, second].into_iter().chain(texts).collect()),
    }
}

/// Returns the calls of a response, in order, each with true if its input is whole.
pub(crate) fn block_calls(blocks: &[Block]) -> impl Iterator<Item = (Call<'_>, bool)> {
    blocks.iter().filter_map(|block| match block.as_view() {
        BlockView::Call(call, complete) => Some((call, complete)),
        _ => None,
    })
}

/// Returns the blocks without calls of the provider's tools that have no result. Behind such a call
/// only the turn itself may go on, no text.
pub(crate) fn without_open_calls(blocks: Cow<'_, [Block]>) -> Cow<'_, [Block]> {
    if !blocks.iter().any(Block::is_server_call) {
        return blocks;
    }
    let mut blocks = blocks.into_owned();
    let mut results = blocks.iter().filter(|block| block.is_result()).count();
    blocks.retain(|block| {
        if !block.is_server_call() {
            return true;
        }
        let answered = results > 0;
        results = results.saturating_sub(1);
        answered
    });
    Cow::Owned(blocks)
}
