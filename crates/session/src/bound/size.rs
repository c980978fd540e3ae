//! The size of a request's input: bytes of text, and media by a table.
//!
//! No image is decoded. The pages of a PDF are counted where the file shows them.
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

use crate::price::vendor_of;
use memchr::memmem;
use softland_core::models::billing::{self, ToolRunner};
use softland_wire::Api;
use softland_wire::json::{Cursor, Error, Kind, Span};
use softland_wire::request::{
    Block as RequestBlock, BlockKind, Content, Request, ResultContent, Tool, ToolResult,
};

use super::CacheWrites;

/// The most tokens of an image.
const IMAGE: u64 = 4_784;
/// The most tokens of an image with any of OpenAI's models.
const IMAGE_OPENAI: u64 = 2_833 + 8 * 5_667;
/// The most tokens of a page of a PDF, if it has no more text than is typical.
const PAGE: u64 = IMAGE + 3_000;
const PAGE_OPENAI: u64 = IMAGE_OPENAI + 3_000;
/// Tokens that a provider adds to a request that has tools. The most that Anthropic has published
/// is 530 for the instructions (Claude 3 Opus), and 735 for a tool of its own (computer use). Newer
/// tables were not at hand, so each is taken twice.
const TOOLS: u64 = 2 * 530;
const OWN_TOOL: u64 = 2 * 735;

/// The size of a request's input. Sizes compare only within one conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSize {
    /// Bytes of the body without its media.
    pub text: u64,
    /// Tokens of media, by the table.
    pub media: u64,
    /// The number of parts whose size does not show: files, URLs, and what the provider keeps.
    pub unseen: u64,
    /// Tokens that the provider adds without a byte in the body.
    pub unwritten: u64,
}

impl InputSize {
    /// Measures a request.
    pub fn from_request(request: &Request<'_>) -> Self {
        let mut size = Self { text: request.text.len() as u64, ..Self::default() };
        // A history or a prompt that the provider keeps shows no size.
        let elsewhere =
            [request.previous.is_some(), request.elsewhere, request.terms.stored_prompt];
        size.unseen += elsewhere.into_iter().filter(|elsewhere| *elsewhere).count() as u64;
        if let Some(tools) = &request.tools {
            size.add_tools(request.api, &tools.list);
        }
        for message in &request.messages.list {
            if let Content::Blocks { blocks, .. } = &message.content {
                for block in blocks {
                    size.add_block(block, request.text);
                }
            }
        }
        size
    }

    /// Adds a known history of `kept_bytes` bytes before the request; nothing for 0 bytes.
    pub fn with_history(self, kept_bytes: u64) -> Self {
        let (text, unseen) = (self.text.saturating_add(kept_bytes), self.unseen.saturating_sub(1));
        if kept_bytes == 0 { self } else { Self { text, unseen, ..self } }
    }

    fn add_tools(&mut self, api: Api, tools: &[Tool<'_>]) {
        if !tools.is_empty() {
            self.unwritten += TOOLS;
        }
        for kind in tools.iter().filter_map(|tool| tool.kind) {
            let kind = kind.unescape();
            // Results of the provider's tools are bounded elsewhere, for every request anew.
            if billing::find_tool_runner(vendor_of(api), &kind) == ToolRunner::Client
                && kind != "custom"
            {
                self.unwritten += OWN_TOOL;
            }
        }
    }

    fn add_block(&mut self, block: &RequestBlock<'_>, body: &str) {
        match &block.kind {
            // A reference stands for an item that the provider keeps.
            BlockKind::Other { kind } if kind.eq_str("item_reference") => self.unseen += 1,
            BlockKind::Other { .. } => self.add_media_in(block.span, body),
            BlockKind::ToolResult(ToolResult {
                content: ResultContent::Parts { parts, .. },
                ..
            }) => {
                for part in parts.iter().filter(|part| part.text.is_none()) {
                    self.add_media_in(part.span, body);
                }
            }
            BlockKind::ToolResult(ToolResult { content: ResultContent::Opaque(span), .. }) => {
                self.add_media_in(*span, body);
            }
            BlockKind::Text { .. }
            | BlockKind::ToolUse { .. }
            | BlockKind::ToolResult(_)
            | BlockKind::Thinking
            | BlockKind::RedactedThinking => {}
        }
    }

    /// Counts every `source` within a value, at any depth.
    fn add_media_in(&mut self, span: Span, body: &str) {
        if self.scan_value(&mut Cursor::new(span.slice_of(body))).is_err() {
            // The scan has read the value before. A part that it could not read shows no size.
            self.unseen += 1;
        }
    }

    fn scan_value(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        match cursor.peek()? {
            Kind::Object => self.scan_object(cursor),
            Kind::Array => cursor.read_elements(|cursor| self.scan_value(cursor)).map(drop),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.skip_value().map(drop),
        }
    }

    fn scan_object(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let mut source = MediaSource::default();
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => source.kind = read_text(cursor)?,
                "media_type" => source.media = read_text(cursor)?,
                "data" if cursor.peek()? == Kind::String => {
                    let (data, _) = cursor.read_string()?;
                    source.data = Some(data.raw());
                }
                "image_url" => self.add_image(cursor)?,
                "file_id" | "input_audio" | "video" | "audio" => {
                    source.file |= cursor.peek()? != Kind::Null;
                    cursor.skip_value()?;
                }
                // A file, a film or a recording by its address, whatever a provider calls it.
                key if key.ends_with("_url") => {
                    source.file |= cursor.peek()? != Kind::Null;
                    cursor.skip_value()?;
                }
                "file_data" => {
                    let data = cursor.read_string_or_skip()?;
                    data.into_iter().for_each(|(data, _)| self.add_file(data.raw()));
                }
                _ => self.scan_value(cursor)?,
            }
            Ok::<_, Error>(())
        })?;
        self.add_source(&source);
        Ok(())
    }

    /// Counts an image by its URL, which may hold the image itself.
    fn add_image(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? == Kind::Object {
            return cursor
                .read_members(|cursor, member| match &*member.key.unescape() {
                    "url" => self.add_image(cursor),
                    _ => cursor.skip_value().map(drop),
                })
                .map(drop);
        }
        if let Some((url, _)) = cursor.read_string_or_skip()? {
            if url.raw().starts_with("data:") {
                self.text = self.text.saturating_sub(url.raw().len() as u64);
            }
            self.media = self.media.saturating_add(IMAGE_OPENAI);
        }
        Ok(())
    }

    /// Counts a file in base64, with or without the `data:` before it.
    fn add_file(&mut self, data: &str) {
        let (kind, inner) = data.split_once(";base64,").unwrap_or(("", data));
        match pdf::count_pages(inner)
            .filter(|_| kind.is_empty() || kind.ends_with("application/pdf"))
        {
            Some(pages) => {
                self.text = self.text.saturating_sub(data.len() as u64);
                self.media = self.media.saturating_add(pages.saturating_mul(PAGE_OPENAI));
            }
            None => self.unseen += 1,
        }
    }

    fn add_source(&mut self, source: &MediaSource<'_>) {
        if source.file || source.kind == "url" {
            self.unseen += 1;
        }
        let Some(data) = source.data.filter(|_| source.kind == "base64") else { return };
        self.text = self.text.saturating_sub(data.len() as u64);
        if source.media.starts_with("image/") {
            self.media += IMAGE;
        } else if let Some(pages) =
            pdf::count_pages(data).filter(|_| source.media == "application/pdf")
        {
            self.media = self.media.saturating_add(pages.saturating_mul(PAGE));
        } else {
            self.unseen += 1;
        }
    }
}

/// The members of an object that may be the source of a medium.
#[derive(Default)]
struct MediaSource<'a> {
    kind: String,
    media: String,
    data: Option<&'a str>,
    file: bool,
}

fn read_text(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    let text = cursor.read_string_or_skip()?;
    Ok(text.map(|(text, _)| text.unescape().into_owned()).unwrap_or_default())
}

/// Returns the longest lifetime of the cache entries that a request may write. Every member named
/// `cache_control` counts, wherever it stands: a tool's argument of that name makes a request look
/// dearer, but no mark is missed.
pub fn cache_writes(request: &Request<'_>) -> CacheWrites {
    // OpenAI caches without being asked.
    let unasked = match (request.api, request.terms.keeps_cache) {
        (Api::Anthropic, _) => CacheWrites::Nothing,
        (_, false) => CacheWrites::Minutes,
        (_, true) => CacheWrites::Hour,
    };
    if !may_name(request.text.as_bytes(), b"cache_control") {
        return unasked;
    }
    let mut marks = CacheMarks(unasked);
    match marks.scan_value(&mut Cursor::new(request.text)) {
        Ok(()) => marks.0,
        // The body was scanned before. A body that cannot be read again is taken for the dearest.
        Err(_) => CacheWrites::Hour,
    }
}

/// True if a member of this name may be in a body. The name is searched as it is, and by the
/// escapes that may spell its letters. A body with neither has no such member, and need not be
/// parsed.
fn may_name(body: &[u8], name: &[u8]) -> bool {
    // The ASCII letters of a name have the numbers 0030 to 007a.
    let escaped = |at: usize| body.get(at + 4).is_some_and(|digit| (b'3'..=b'7').contains(digit));
    memmem::find(body, name).is_some() || memmem::find_iter(body, b"\\u00").any(escaped)
}

/// The dearest mark of a cached prefix that was found in a value.
struct CacheMarks(CacheWrites);

impl CacheMarks {
    fn scan_value(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        match cursor.peek()? {
            Kind::Object => cursor
                .read_members(|cursor, member| {
                    if member.key.eq_str("cache_control") {
                        return self.scan_mark(cursor);
                    }
                    self.scan_value(cursor)
                })
                .map(drop),
            Kind::Array => cursor.read_elements(|cursor| self.scan_value(cursor)).map(drop),
            Kind::String | Kind::Number | Kind::Bool | Kind::Null => cursor.skip_value().map(drop),
        }
    }

    fn scan_mark(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let mut writes = match cursor.peek()? {
            Kind::Null => CacheWrites::Nothing,
            _ => CacheWrites::Minutes,
        };
        if cursor.peek()? == Kind::Object {
            cursor.read_members(|cursor, member| {
                // Any lifetime but the short one is taken for the long one.
                if member.key.eq_str("ttl")
                    && cursor.read_string_or_skip()?.is_some_and(|(ttl, _)| !ttl.eq_str("5m"))
                {
                    writes = CacheWrites::Hour;
                }
                Ok::<_, Error>(())
            })?;
        } else {
            cursor.skip_value()?;
        }
        self.0 = self.0.max(writes);
        Ok(())
    }
}
