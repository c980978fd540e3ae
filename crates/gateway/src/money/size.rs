//! How much input a request shows: bytes of text, and media by a table.
//!
//! It decodes no image. Of a PDF it counts the pages, where the file shows them.
//!
//! Sources of the table (all read 2026-11-22): Anthropic's page on vision, by which an image
//! costs a token for each 28 × 28 pixels and is scaled down to what the model takes in, and its
//! page on PDF support, by which each page is given both as an image and as its text, the latter
//! typically 1,500 to 3,000 tokens. 4,784 tokens as the most of an image (2,576 pixels at its long
//! edge; 1,568 with models before Opus 4.7) are third parties' reading of the first page; a
//! public measurement of 12 megapixels on Opus 5.5 came to 4,005. OpenAI scales an
//! image to fit 2,048 pixels, its short side to 768, and counts tiles of 512 or patches: at most eight
//! tiles. Its dearest tiles are gpt-4o-mini's: measured publicly, 5,667 tokens each beside 2,833
//! (community.openai.com/t/1262691); models that count patches stay far below.

mod pdf;

use std::sync::LazyLock;

use memchr::memmem::Finder;
use softland_session::wire::Api;
use softland_session::wire::json::{Cursor, Error, Kind, Span};
use softland_session::wire::request::{
    Block as RequestBlock, BlockKind, Content, Request, ResultContent, Tool, ToolResult,
};

use super::Writes;

/// The most tokens of an image.
const IMAGE: u64 = 4_784;
/// The same of OpenAI's, of any of its models.
const IMAGE_OPENAI: u64 = 2_833 + 8 * 5_667;
/// The most tokens of a page of a PDF, if it has no more text than is typical.
const PAGE: u64 = IMAGE + 3_000;
const PAGE_OPENAI: u64 = IMAGE_OPENAI + 3_000;
/// What a provider adds to a request that has tools: the most that Anthropic has published is
/// 530 for the instructions (Claude 3 Opus), and 735 for a tool of its own (computer use);
/// newer tables were not at hand, so each is taken twice.
const TOOLS: u64 = 2 * 530;
const OWN_TOOL: u64 = 2 * 735;

/// Anthropic's own tools whose results the client sends; whatever any other brings (a search, a
/// page, a program's output) is input that no request shows.
const RUN_BY_CLIENT: [&str; 6] =
    ["custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_"];

/// The same of OpenAI's.
const RUN_BY_CLIENT_OPENAI: [&str; 4] = ["local_shell", "apply_patch", "computer", "tool_search"];

/// Members by which a request of OpenAI's form asks for what no request shows: OpenRouter's
/// plugins and OpenAI's search.
static MORE_INPUT: LazyLock<[Words; 2]> =
    LazyLock::new(|| [Words::new("\"web_search_options\""), Words::new("\"plugins\"")]);

static CACHE_CONTROL: LazyLock<Words> = LazyLock::new(|| Words::new("cache_control"));
static AN_HOUR: LazyLock<Words> = LazyLock::new(|| Words::new("\"1h\""));
static COMPACTION: LazyLock<Words> = LazyLock::new(|| Words::new("\"compact"));

/// How much input a request shows. Sizes compare only within one conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes of the body that are no media.
    pub(crate) text: u64,
    /// Tokens of media, by the table.
    pub(crate) media: u64,
    /// Things whose size does not show: files, URLs, tools that the provider runs.
    pub(crate) unseen: u64,
    /// Tokens that the provider adds without a byte in the body.
    pub(crate) unwritten: u64,
}

impl Size {
    /// The size of a request.
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let mut size = Self { text: request.text.len() as u64, ..Self::default() };
        // A history that is elsewhere shows nothing of itself.
        size.unseen += u64::from(request.previous.is_some()) + u64::from(request.elsewhere);
        if request.api != Api::Anthropic {
            size.unseen += MORE_INPUT.iter().filter(|words| words.are_in(request)).count() as u64;
        }
        if let Some(tools) = &request.tools {
            size.tools(request.api, &tools.list);
        }
        for message in &request.messages.list {
            if let Content::Blocks { blocks, .. } = &message.content {
                for block in blocks {
                    size.block(block, request.text);
                }
            }
        }
        size
    }

    /// The same with a known history before it, if it names one.
    pub(crate) fn behind(self, kept_bytes: u64) -> Self {
        let (text, unseen) = (self.text.saturating_add(kept_bytes), self.unseen.saturating_sub(1));
        if kept_bytes == 0 { self } else { Self { text, unseen, ..self } }
    }

    fn tools(&mut self, api: Api, tools: &[Tool<'_>]) {
        if !tools.is_empty() {
            self.unwritten += TOOLS;
        }
        let by_client: &[&str] = match api {
            Api::Anthropic => &RUN_BY_CLIENT,
            Api::Chat | Api::Responses => &RUN_BY_CLIENT_OPENAI,
        };
        for kind in tools.iter().filter_map(|tool| tool.kind) {
            let kind = kind.unescape();
            if !by_client.iter().any(|known| kind.starts_with(known)) {
                self.unseen += 1;
            } else if kind != "custom" {
                self.unwritten += OWN_TOOL;
            }
        }
    }

    fn block(&mut self, block: &RequestBlock<'_>, body: &str) {
        match &block.kind {
            // It stands for something that the provider keeps.
            BlockKind::Other { kind } if kind.eq_str("item_reference") => self.unseen += 1,
            BlockKind::Other { .. } => self.media_in(block.span, body),
            BlockKind::ToolResult(ToolResult {
                content: ResultContent::Parts { parts, .. },
                ..
            }) => {
                for part in parts.iter().filter(|part| part.text.is_none()) {
                    self.media_in(part.span, body);
                }
            }
            BlockKind::Text { .. }
            | BlockKind::ToolUse { .. }
            | BlockKind::ToolResult(_)
            | BlockKind::Thinking
            | BlockKind::RedactedThinking => {}
        }
    }

    /// Every `source` within a value, however deep.
    fn media_in(&mut self, span: Span, body: &str) {
        if self.value(&mut Cursor::new(span.of(body))).is_err() {
            // The scan has read it before; what it could not read shows no size.
            self.unseen += 1;
        }
    }

    fn value(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        match cursor.peek()? {
            Kind::Object => self.object(cursor),
            Kind::Array => cursor.elements(|cursor| self.value(cursor)).map(drop),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.skip_value().map(drop),
        }
    }

    fn object(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let mut source = Source::default();
        cursor.members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => source.kind = text(cursor)?,
                "media_type" => source.media = text(cursor)?,
                "data" if cursor.peek()? == Kind::String => {
                    let (data, _) = cursor.string()?;
                    source.data = Some(data.raw());
                }
                "file_id" | "file_url" | "input_audio" => {
                    source.file = cursor.peek()? != Kind::Null;
                    cursor.skip_value()?;
                }
                "image_url" => self.image(cursor)?,
                "file_data" => {
                    let data = cursor.string_or_skip()?;
                    data.into_iter().for_each(|(data, _)| self.file(data.raw()));
                }
                _ => self.value(cursor)?,
            }
            Ok::<_, Error>(())
        })?;
        self.source(&source);
        Ok(())
    }

    /// An image by its URL, which may hold it.
    fn image(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? == Kind::Object {
            return cursor
                .members(|cursor, member| match &*member.key.unescape() {
                    "url" => self.image(cursor),
                    _ => cursor.skip_value().map(drop),
                })
                .map(drop);
        }
        if let Some((url, _)) = cursor.string_or_skip()? {
            if url.raw().starts_with("data:") {
                self.text = self.text.saturating_sub(url.raw().len() as u64);
            }
            self.media = self.media.saturating_add(IMAGE_OPENAI);
        }
        Ok(())
    }

    /// A file in base64, with or without the `data:` before it.
    fn file(&mut self, data: &str) {
        let (kind, inner) = data.split_once(";base64,").unwrap_or(("", data));
        match pdf::pages(inner).filter(|_| kind.is_empty() || kind.ends_with("application/pdf")) {
            Some(pages) => {
                self.text = self.text.saturating_sub(data.len() as u64);
                self.media = self.media.saturating_add(pages.saturating_mul(PAGE_OPENAI));
            }
            None => self.unseen += 1,
        }
    }

    fn source(&mut self, source: &Source<'_>) {
        if source.file || source.kind == "url" {
            self.unseen += 1;
        }
        let Some(data) = source.data.filter(|_| source.kind == "base64") else { return };
        self.text = self.text.saturating_sub(data.len() as u64);
        if source.media.starts_with("image/") {
            self.media += IMAGE;
        } else if let Some(pages) = pdf::pages(data).filter(|_| source.media == "application/pdf") {
            self.media = self.media.saturating_add(pages.saturating_mul(PAGE));
        } else {
            self.unseen += 1;
        }
    }
}

/// What an object says that may be the source of a medium.
#[derive(Default)]
struct Source<'a> {
    kind: String,
    media: String,
    data: Option<&'a str>,
    file: bool,
}

fn text(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    let text = cursor.string_or_skip()?;
    Ok(text.map(|(text, _)| text.unescape().into_owned()).unwrap_or_default())
}

/// What a request may write to the cache. It is read off the whole body, so that a tool's
/// argument of `"1h"` makes a request look dearer, and no mark is missed.
pub(crate) fn writes(request: &Request<'_>) -> Writes {
    if !CACHE_CONTROL.are_in(request) {
        // OpenAI caches without being asked; of most of its models writing costs nothing more.
        if request.api == Api::Anthropic { Writes::Nothing } else { Writes::Minutes }
    } else if AN_HOUR.are_in(request) {
        Writes::Hour
    } else {
        Writes::Minutes
    }
}

/// Whether a request may be billed for a compaction of its history.
pub(crate) fn may_compact(request: &Request<'_>) -> bool {
    COMPACTION.are_in(request)
}

/// Words that are looked for in whole requests. How is worked out once.
struct Words(Finder<'static>);

impl Words {
    fn new(words: &'static str) -> Self {
        Self(Finder::new(words))
    }

    /// Whether they are anywhere. The whole of a long history is looked through.
    fn are_in(&self, request: &Request<'_>) -> bool {
        self.0.find(request.text.as_bytes()).is_some()
    }
}
