//! The differences between protocols, in a response and in the messages behind a history: how
//! events are read, and how softland's own content is written. Nothing is decided here.

use softland_core::Call;
use softland_wire::anthropic::{AssembleError, MessageError};
use softland_wire::json::Str;
use softland_wire::sse::{Decoder, Frame, SseError, write_event};
use softland_wire::{Api, Tokens};

use crate::reply::{Block, Reply};

/// One message of a tail, as JSON.
pub(crate) type JsonBytes = Vec<u8>;

/// The largest response that is taken, in bytes.
pub(crate) const MAX_RESPONSE: usize = 64 << 20;

/// The reason why a response cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    Sse(SseError),
    Assemble(AssembleError),
    Json(MessageError),
    /// The exchange had ended before it came.
    Ended,
    /// It is an error of the provider's, with this message.
    Told(String),
    /// The reason in another protocol, in words.
    Other(String),
}

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamEnd {
    /// The protocol's own end.
    Stop,
    /// The connection was cut before the end.
    Cut,
    /// An error in the middle.
    Error { kind: String, message: String },
}

/// The properties of a client's stream: the reports that it ends with, and its time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamTerms {
    /// True if the client asks for the usage, which Chat Completions reports only on request.
    pub(crate) usage: bool,
    /// True if softland asks for the usage in the client's place.
    pub(crate) hidden_usage: bool,
    /// The time of the request, in seconds since 1970.
    pub(crate) at: u64,
    /// True if events may be written after later ones have been read.
    pub(crate) delays: bool,
}

/// The content of one event of a stream.
#[derive(Debug, Default)]
pub(crate) struct EventView<'f> {
    /// True if the event is one of the protocol's.
    pub(crate) known: bool,
    /// The message's id and model, in the event that begins it.
    pub(crate) head: Option<(Str<'f>, Str<'f>)>,
    /// True if the event is a sign of life and nothing else.
    pub(crate) ping: bool,
    pub(crate) parts: EventParts<'f>,
    /// True if the event's bytes belong to no block and go on in their place.
    pub(crate) aside: bool,
    /// True if the event belongs to the message's end.
    pub(crate) closing: bool,
    /// True if the event is the last one: nothing behind it belongs to the message.
    pub(crate) over: bool,
    /// True if softland alone asked for the event: it is not for the client.
    pub(crate) hidden: bool,
}

/// The parts of blocks that one event carries.
#[derive(Debug, Default)]
pub(crate) enum EventParts<'f> {
    #[default]
    None,
    One(BlockPart<'f>),
    Many(Vec<BlockPart<'f>>),
}

impl<'f> EventParts<'f> {
    pub(crate) fn as_slice(&self) -> &[BlockPart<'f>] {
        match self {
            Self::None => &[],
            Self::One(part) => std::slice::from_ref(part),
            Self::Many(parts) => parts,
        }
    }
}

/// A part of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPart<'f> {
    /// The key of its block in the response.
    pub(crate) key: u32,
    /// The kind of the block, where this may be its first part.
    pub(crate) begins: Option<NewBlock<'f>>,
    /// True if this is the first part even if the key is known. Where the protocol does not mark
    /// beginnings, the first part of a key begins its block.
    pub(crate) anew: bool,
    pub(crate) more: PartContent<'f>,
    /// True if this is the block's last part.
    pub(crate) stops: bool,
    /// True if this part repeats what came in pieces.
    pub(crate) again: bool,
}

impl BlockPart<'_> {
    /// Returns a part of this block without content.
    pub(crate) fn with_key(key: u32) -> Self {
        Self {
            key,
            begins: None,
            anew: false,
            more: PartContent::Nothing,
            stops: false,
            again: false,
        }
    }
}

/// The kind of a block that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewBlock<'f> {
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

/// The content that a part adds to its block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PartContent<'f> {
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
pub(crate) struct PlacedPart<'p, 'f> {
    pub(crate) part: &'p BlockPart<'f>,
    /// The index of its block among all blocks that the client has.
    pub(crate) index: u32,
}

/// The end of a message for the client.
#[derive(Debug)]
pub(crate) struct MessageEnd<'a> {
    /// The id and the model that the message began with.
    pub(crate) head: &'a (String, String),
    /// The blocks that the client was shown, in order.
    pub(crate) blocks: &'a [Block],
    /// The number of these blocks that are calls for the client to run.
    pub(crate) calls: u32,
    /// Output tokens of the shown blocks.
    pub(crate) output: u64,
    /// The billed tokens of each upstream response.
    pub(crate) billed: &'a [Tokens],
    /// The end of the newest response as received: the closing events of a stream, or a whole body.
    /// Empty for an answer of softland's.
    pub(crate) received: &'a [u8],
}

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    Assistant,
    User,
    System,
}

impl Speaker {
    /// Returns the role's name.
    pub(crate) const fn role_name(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::User => "user",
            Self::System => "system",
        }
    }
}

/// The end of a text that was shaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShapedEnd<'e> {
    /// The end as received, if it came.
    pub(crate) raw: Option<&'e [u8]>,
    /// The text that passed.
    pub(crate) text: &'e str,
}

/// The kind and the message of the error in place of content of another API.
const FOREIGN: (&str, &str) = ("api_error", "softland: the response has content of another API");

/// The fixed properties of a protocol.
#[derive(Debug)]
pub(crate) struct ProtocolForm {
    /// The API.
    pub(crate) api: Api,
    /// Returns a text block that softland writes itself.
    pub(crate) text_block: fn(&str) -> Block,
    /// Writes a sign of life.
    pub(crate) write_ping: fn(&mut Vec<u8>),
    /// True if the stream says where a block ends.
    pub(crate) marks_ends: bool,
    /// True if thinking may go back only with what followed it.
    pub(crate) ties_thinking: bool,
    /// True if the keys of blocks are numbers that the client sees.
    pub(crate) numbers_blocks: bool,
    /// True if the end of a stream repeats the content of the stream.
    pub(crate) ends_with_content: bool,
}

impl ProtocolForm {
    /// Checks that a response and its blocks are this API's: nothing else can be written.
    ///
    /// # Errors
    /// Returns an error for content of another API.
    pub(crate) fn check_reply(&self, reply: &Reply) -> Result<(), ResponseError> {
        let mut apis = reply.blocks.iter().map(Block::api).chain([reply.rest.api()]);
        match apis.all(|api| api == self.api) {
            true => Ok(()),
            false => Err(ResponseError::Other(FOREIGN.1.to_owned())),
        }
    }
}

/// Writes a comment as a sign of life. Readers skip it wherever it stands.
pub(crate) fn write_comment(out: &mut Vec<u8>) {
    out.extend_from_slice(b": softland wait\n\n");
}

/// Calls `each` for the frames of a part of a stream. A frame that was cut is given whole.
pub(crate) fn for_each_frame(raw: &[u8], mut each: impl FnMut(&Frame<'_>)) {
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    while let Some(Ok(frame)) = decoder.next() {
        if !frame.cut {
            each(&frame);
        } else if !frame.data.is_empty() {
            let mut whole = Vec::new();
            write_event(&mut whole, frame.event, &frame.data);
            each(&Frame { raw: &whole, cut: false, ..frame });
        }
    }
}

/// One protocol's messages in a history.
pub(crate) trait MessageWriter {
    /// Returns the protocol's fixed properties.
    fn form(&self) -> &'static ProtocolForm;

    /// Returns a turn of the model's as it goes back.
    fn assistant_message(&self, blocks: &[Block]) -> JsonBytes;

    /// Returns a message of one text.
    fn text_message(&self, who: Speaker, text: &str) -> JsonBytes;

    /// Returns the answers to calls, each as failed, in order.
    fn result_messages(&self, answers: &[(Call<'_>, String)]) -> JsonBytes;
}

/// One protocol's responses and messages.
pub(crate) trait Framing: MessageWriter + std::fmt::Debug + Send + Sync {
    /// Prepares for the next upstream response.
    fn begin_response(&mut self);

    /// Reads an event. With `fold`, adds it to the response. Returns `None` for data that is no
    /// event.
    fn read_event<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<EventView<'f>>, ResponseError>;

    /// Returns the tokens of the response under way so far.
    fn tokens_so_far(&self) -> Tokens;

    /// Ends the stream. Returns the response as far as it came.
    fn finish_response(&mut self) -> (Reply, UpstreamEnd);

    /// Reads a whole response that was not streamed.
    fn read_whole(&mut self, body: &[u8]) -> Result<Reply, ResponseError>;

    /// Returns a response that softland gives itself, still without blocks.
    fn own_reply(&self, tokens: Tokens) -> Reply;

    /// Writes the beginning of a message of which nothing was shown yet.
    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>);

    /// Notes that a block of an ended response is shown as it came, under this index.
    fn note_shown_late(&mut self, _: u32, _: &Block) {}

    /// Writes received events of no block.
    fn write_aside(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(raw);
    }

    /// Writes a received event, each of its parts under the index by which the client knows its
    /// block.
    fn write_event(&mut self, raw: &[u8], parts: &[PlacedPart<'_, '_>], out: &mut Vec<u8>);

    /// Returns one of several parts of a received event, as an event of its own.
    fn split_part(&self, part: &BlockPart<'_>, raw: &[u8]) -> Vec<u8>;

    /// Prepares to read again, without `fold`, what was read of the response under way.
    fn rewind_reading(&mut self) {}

    /// Writes an error behind which nothing comes.
    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>);

    /// Writes the error in place of content of another API.
    fn write_foreign(&mut self, out: &mut Vec<u8>) {
        self.write_error(FOREIGN.0, FOREIGN.1, out);
    }

    /// Writes a whole block.
    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>);

    /// Writes the end of a block that was cut, or of a text that was shaped and cannot end as
    /// received.
    fn write_stop(&mut self, index: u32, shaped: Option<ShapedEnd<'_>>, out: &mut Vec<u8>);

    /// Writes the end of a streamed message.
    fn write_end(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>);

    /// Writes a message that is not streamed.
    fn write_whole(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anthropic::AnthropicFraming;
    use crate::chat::ChatFraming;
    use crate::responses::ResponsesFraming;

    fn framings() -> [Box<dyn Framing>; 3] {
        let terms = StreamTerms::default();
        [
            Box::new(AnthropicFraming::new()),
            Box::new(ChatFraming::new(terms)),
            Box::new(ResponsesFraming::new(terms)),
        ]
    }

    #[test]
    fn content_of_another_api_is_an_error_and_never_nothing() {
        for mut framing in framings() {
            for other in framings() {
                let own = framing.form().api == other.form().api;
                let reply = other.own_reply(Tokens::default());
                assert_eq!(framing.form().check_reply(&reply).is_ok(), own);
                let block = (other.form().text_block)("words");
                let mixed =
                    Reply { blocks: vec![block.clone()], ..framing.own_reply(Tokens::default()) };
                assert_eq!(framing.form().check_reply(&mixed).is_ok(), own);
                let names = ("id".to_owned(), "m".to_owned());
                let ending = MessageEnd {
                    head: &names,
                    blocks: &[],
                    calls: 0,
                    output: 0,
                    billed: &[],
                    received: b"",
                };
                let (mut shown, mut ended) = (Vec::new(), Vec::new());
                framing.write_block(0, &block, &mut shown);
                framing.write_end(&reply, &ending, &mut ended);
                for written in [shown, ended] {
                    let text = String::from_utf8(written).expect("UTF-8");
                    assert!(!text.is_empty());
                    assert_eq!(text.contains(FOREIGN.1), !own, "{text}");
                }
            }
        }
    }
}
