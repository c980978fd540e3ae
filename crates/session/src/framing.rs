//! What differs between protocols in a response and in the messages behind a history: how events
//! are read, and how what softland shows or adds is written. Nothing is decided here.

use softland_core::Call;
use softland_wire::anthropic::{AssembleError, MessageError};
use softland_wire::json::Str;
use softland_wire::sse::SseError;
use softland_wire::{Api, Tokens};

use crate::reply::{Block, Reply};

/// One message of a tail, as JSON.
pub(crate) type Json = Vec<u8>;

/// The largest response that is taken, in bytes.
pub(crate) const MAX_RESPONSE: usize = 64 << 20;

/// Why a response cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Sse(SseError),
    Assemble(AssembleError),
    Json(MessageError),
    /// In another protocol: why its stream or its answer cannot be read.
    Other(String),
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As the protocol ends it.
    Stop,
    /// The connection was cut before.
    Cut,
    /// With an error in the middle.
    Error { kind: String, message: String },
}

/// What the client of a stream asks to be told at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    /// The usage, which Chat Completions tells only if asked.
    pub(crate) usage: bool,
    /// softland asks for it in its place.
    pub(crate) hidden_usage: bool,
    /// When, in seconds since 1970.
    pub(crate) at: u64,
}

/// The framing of an API.
pub(crate) fn of(api: Api, asks: Asks) -> Box<dyn Framing> {
    match api {
        Api::Anthropic => Box::new(crate::anthropic::Anthropic::new()),
        Api::Chat => Box::new(crate::chat::Chat::new(asks)),
        Api::Responses => Box::new(crate::responses::Responses::new(asks)),
    }
}

/// What one event of a stream says.
#[derive(Debug, Default)]
pub(crate) struct Read<'f> {
    /// Whether it is an event of the protocol's.
    pub(crate) known: bool,
    /// The message's id and model, where it begins.
    pub(crate) head: Option<(Str<'f>, Str<'f>)>,
    /// A sign of life and nothing else.
    pub(crate) ping: bool,
    pub(crate) parts: Parts<'f>,
    /// Bytes of no block that go on in their place.
    pub(crate) aside: bool,
    /// It belongs to the message's end.
    pub(crate) closing: bool,
    /// It is the last one: behind it nothing is of the message.
    pub(crate) over: bool,
    /// It was asked for by softland alone, and is not for the client.
    pub(crate) hidden: bool,
}

/// The parts of blocks that one event carries.
#[derive(Debug, Default)]
pub(crate) enum Parts<'f> {
    #[default]
    None,
    One(Part<'f>),
    Many(Vec<Part<'f>>),
}

impl<'f> Parts<'f> {
    pub(crate) fn as_slice(&self) -> &[Part<'f>] {
        match self {
            Self::None => &[],
            Self::One(part) => std::slice::from_ref(part),
            Self::Many(parts) => parts,
        }
    }
}

/// A part of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'f> {
    /// Which block of the response it belongs to.
    pub(crate) key: u32,
    /// What the block is, where this may be its first part.
    pub(crate) begins: Option<Begins<'f>>,
    /// Whether it is the first one, even if the key is known. Where the protocol does not mark
    /// beginnings, the first part of a key is.
    pub(crate) anew: bool,
    pub(crate) more: More<'f>,
    /// Whether it is the block's last.
    pub(crate) stops: bool,
    /// Whether it says again what came in pieces.
    pub(crate) again: bool,
}

impl Part<'_> {
    /// A part of this block, whatever it says.
    pub(crate) fn bare(key: u32) -> Self {
        Self { key, begins: None, anew: false, more: More::Nothing, stops: false, again: false }
    }
}

/// What a block is that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Begins<'f> {
    Text,
    /// Thinking that can be read.
    Thinking,
    Call {
        id: Str<'f>,
        name: Str<'f>,
        server: bool,
    },
    Other,
}

/// What a part adds to its block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum More<'f> {
    Nothing,
    Text(Str<'f>),
    Thinking(Str<'f>),
    /// A piece of a call's input.
    Input(Str<'f>),
    /// A member of a message that only its protocol knows, and its value as received.
    Member(Str<'f>, &'f str),
}

/// A part to be shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'p, 'f> {
    pub(crate) part: &'p Part<'f>,
    /// The index of its block among all that the client has.
    pub(crate) index: u32,
}

/// How a message ends for the client.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    /// The id and the model that it was begun with.
    pub(crate) head: &'a (String, String),
    /// What it was shown, in order.
    pub(crate) blocks: &'a [Block],
    /// How many of them are calls that the client runs.
    pub(crate) calls: u32,
    /// Output tokens of what it was shown.
    pub(crate) output: u64,
    /// Of each upstream response.
    pub(crate) billed: &'a [Tokens],
}

/// Who says something in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Assistant,
    User,
    System,
}

impl Who {
    /// The role's name.
    pub(crate) const fn role(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::User => "user",
            Self::System => "system",
        }
    }
}

/// One protocol's responses and messages.
pub(crate) trait Framing: std::fmt::Debug + Send + Sync {
    /// Makes ready for the next upstream response.
    fn begin(&mut self);

    /// Reads an event. With `fold`, it is taken into the response. `None`: no event at all.
    fn read<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<Read<'f>>, Broken>;

    /// What the response under way has cost so far.
    fn so_far(&self) -> Tokens;

    /// The response as far as it came, at the end of its stream.
    fn finish(&mut self) -> (Reply, End);

    /// A whole response, not streamed.
    fn whole(&mut self, body: &[u8]) -> Result<Reply, Broken>;

    /// A response that softland gives itself, its blocks still to come.
    fn own(&self, tokens: Tokens) -> Reply;

    /// A text that softland says itself.
    fn text(&self, text: &str) -> Block;

    /// The beginning of a message that nothing was shown of yet.
    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>);

    /// Whether the stream says where a block ends.
    fn marks_ends(&self) -> bool {
        true
    }

    /// Whether thinking may go back only with what followed it.
    fn ties_thinking(&self) -> bool {
        false
    }

    /// A block of a response that has ended is shown as it came, under this index.
    fn shown_late(&mut self, _: u32, _: &Block) {}

    /// Whether the keys of blocks are numbers that the client sees.
    fn numbers_blocks(&self) -> bool {
        true
    }

    /// Whether the end of a stream says once more what was in it.
    fn ends_with_content(&self) -> bool {
        false
    }

    /// Received events of no block.
    fn write_aside(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(raw);
    }

    /// A received event, each of its parts under the index that the client knows its block by.
    fn write_event(&mut self, raw: &[u8], parts: &[Placed<'_, '_>], out: &mut Vec<u8>);

    /// A part of a received event of several, as an event of its own.
    fn alone(&self, part: &Part<'_>) -> Vec<u8>;

    /// What was read without being folded will be read again.
    fn rewind(&mut self) {}

    /// A sign of life. Readers skip a comment wherever it stands.
    fn write_ping(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": softland wait\n\n");
    }

    /// An error behind which nothing comes.
    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>);

    /// A whole block.
    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>);

    /// The end of a block that was cut.
    fn write_stop(&mut self, index: u32, out: &mut Vec<u8>);

    /// From now on events may be written when others have been read behind them.
    fn delay(&mut self) {}

    /// The end of a text that was shaped, where it cannot end as received: `raw`, if its end came.
    fn write_text_end(&mut self, index: u32, _: Option<&[u8]>, _: &str, out: &mut Vec<u8>) {
        self.write_stop(index, out);
    }

    /// The end of a streamed message.
    fn write_end(&mut self, reply: &Reply, ending: &Ending<'_>, out: &mut Vec<u8>);

    /// A message that is not streamed.
    fn write_whole(&mut self, reply: &Reply, ending: &Ending<'_>, out: &mut Vec<u8>);

    /// A turn of the model's as it goes back.
    fn assistant(&self, blocks: &[Block]) -> Json;

    /// A message of one text.
    fn said(&self, who: Who, text: &str) -> Json;

    /// What answers calls, each as failed, in order.
    fn results(&self, answers: &[(Call<'_>, String)]) -> Json;
}
