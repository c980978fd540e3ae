//! A request's history, read into the core's fold, and the lines that the fold asks for, as
//! edits of the original bytes.

use std::borrow::Cow;

use softland_core::{
    Call, Digest, Facts, Finished, Place, Step, Stop, Text, ToolResult, Transcript, User, UserText,
    identity, lines, tables,
};
use softland_wire::anthropic::{
    BlockKind, Content, Request, RequestBlock, RequestMessage, ResultContent, Role, Splice,
    ToolResult as WireResult,
};
use softland_wire::json::Str;

/// Bytes of a result's text that are looked at for exit codes, at each end.
const EDGE: usize = 400;
/// Bytes at the beginning of a result that hold a client's marker for what it has cleared.
const MARKER: usize = 160;
/// Bytes at the end of a result that show whether a line of softland's may be there.
const LAST: usize = 32;

/// What reading a history came to.
pub(crate) struct Read {
    /// The lines, as edits; none of them where the run's policy only observes.
    pub(crate) splice: Splice,
    /// What the newest message led to.
    pub(crate) newest: Step,
}

/// Folds a request's messages. Facts hold for the newest message.
pub(crate) fn read(request: &Request<'_>, transcript: &mut Transcript, facts: &Facts) -> Read {
    let mut splice = Splice::new();
    let mut newest = Step::default();
    let last = request.messages.list.len().saturating_sub(1);
    for (index, message) in request.messages.list.iter().enumerate() {
        let facts = (index == last).then_some(facts);
        match message.role {
            Role::User => {
                newest = user(message, transcript, facts);
                let enforced = transcript.run().is_some_and(|run| !run.policy().observes());
                if enforced {
                    add_lines(&mut splice, message, &newest);
                }
            }
            Role::Assistant => {
                newest = Step::default();
                assistant(request, message, transcript);
            }
            Role::System | Role::Other => {}
        }
    }
    Read { splice, newest }
}

fn add_lines(splice: &mut Splice, message: &RequestMessage<'_>, step: &Step) {
    for addition in &step.additions {
        match addition.place {
            Place::End => splice.append_to_message(message, &addition.text),
            Place::Result(index) => {
                if let Some(block) = results(message).nth(index) {
                    splice.append_to_result(block, &addition.text);
                }
            }
        }
    }
}

/// The tool results of a message, in order.
fn results<'m, 'a>(
    message: &'m RequestMessage<'a>,
) -> impl Iterator<Item = &'m RequestBlock<'a>> + use<'m, 'a> {
    let blocks = match &message.content {
        Content::Text(..) => &[][..],
        Content::Blocks { blocks, .. } => blocks,
    };
    blocks.iter().filter(|block| matches!(block.kind, BlockKind::ToolResult(_)))
}

fn user(message: &RequestMessage<'_>, transcript: &mut Transcript, facts: Option<&Facts>) -> Step {
    let mut ids: Vec<Cow<'_, str>> = Vec::new();
    let mut facts_of: Vec<ToolResult<'static>> = Vec::new();
    let mut texts: Vec<Cow<'_, str>> = Vec::new();
    let mut media = false;
    match &message.content {
        Content::Text(text, _) => texts.push(text.unescape()),
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                match &block.kind {
                    BlockKind::ToolResult(result) => {
                        ids.push(result.tool_use_id.unescape());
                        facts_of.push(result_facts(result));
                    }
                    BlockKind::Text { text, .. } => texts.push(text.unescape()),
                    _ => media = true,
                }
            }
        }
    }
    let results = ids
        .iter()
        .zip(facts_of)
        .map(|(id, result)| ToolResult {
            id,
            digest: result.digest,
            chars: result.chars,
            failed: result.failed,
            unfinished: result.unfinished,
            cleared: result.cleared,
            lined: result.lined,
        })
        .collect();
    let texts = texts.iter().map(|text| UserText { text }).collect();
    transcript.user(&User { results, texts, media }, facts)
}

/// What the rules need of a result; its id is filled in by the caller.
fn result_facts(result: &WireResult<'_>) -> ToolResult<'static> {
    let mut read = ResultRead::default();
    match &result.content {
        ResultContent::Absent(_) => {}
        ResultContent::Text(text, _) => read.text(*text),
        ResultContent::Parts { parts, .. } => {
            for part in parts {
                match part.text {
                    Some((text, _)) => read.text(text),
                    // An image or a document: its bytes are its identity, unread.
                    None => read.digest = Some(read.so_far().then(Digest::of(b"media"))),
                }
            }
        }
    }
    ToolResult {
        id: "",
        digest: read.digest.unwrap_or(Digest::EMPTY),
        chars: read.chars,
        failed: result.is_error || read.failed,
        unfinished: read.unfinished,
        cleared: read.cleared,
        lined: read.lined,
    }
}

#[derive(Default)]
struct ResultRead {
    digest: Option<Digest>,
    chars: u64,
    failed: bool,
    unfinished: bool,
    cleared: bool,
    lined: bool,
}

impl ResultRead {
    fn so_far(&self) -> Digest {
        self.digest.unwrap_or(Digest::EMPTY)
    }

    fn text(&mut self, text: Str<'_>) {
        let digest = if identity::looks_like_json(text.raw()) {
            let (digest, failed) = json_result(&text.unescape());
            self.failed |= failed;
            digest
        } else {
            self.failed |= edges_failed(text);
            Digest::of(text.raw().as_bytes())
        };
        self.digest = Some(self.digest.map_or(digest, |before| before.then(digest)));
        self.chars += text.chars() as u64;
        self.cleared = tables::is_cleared(&text.head(MARKER));
        // Who waits is told so in few words.
        self.unfinished |= text.raw().len() <= 2 * EDGE && tables::is_unfinished(&text.head(EDGE));
        self.lined = lines::may_end_in_line(&text.tail(LAST))
            && lines::ends_in_line(&text.tail(lines::LINE_BYTES));
    }
}

/// The digest of a result that looks like JSON, and whether it says that it failed.
fn json_result(text: &str) -> (Digest, bool) {
    let (mut error, mut flagged) = (false, false);
    let mut seen = |key: &str, value: &str| match key {
        "error" => error = !matches!(identity::unquoted(value), "null" | "" | "false"),
        "isError" => flagged = identity::unquoted(value) == "true",
        _ => {}
    };
    let digest = identity::of_text_with(text, &tables::is_volatile_field, &mut seen);
    (digest, error || flagged)
}

/// Whether the first or the last lines of a text say that a command failed.
fn edges_failed(text: Str<'_>) -> bool {
    let raw = text.raw();
    if raw.len() <= 2 * EDGE {
        return tables::exit_failed(&text.unescape()).unwrap_or(false);
    }
    // Most results say nothing of an exit: they are not read any further.
    let head = raw.get(..raw.floor_char_boundary(EDGE)).unwrap_or(raw);
    let tail = raw.get(raw.ceil_char_boundary(raw.len() - EDGE)..).unwrap_or(raw);
    if !tables::may_tell_exit(head) && !tables::may_tell_exit(tail) {
        return false;
    }
    let edges = [&text.head(EDGE), "\n…\n", &text.tail(EDGE)].concat();
    tables::exit_failed(&edges).unwrap_or(false)
}

fn assistant(request: &Request<'_>, message: &RequestMessage<'_>, transcript: &mut Transcript) {
    let mut texts = TextRead::default();
    let mut named = Vec::new();
    let mut hidden = false;
    match &message.content {
        Content::Text(text, _) => texts.add(*text),
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                match &block.kind {
                    BlockKind::Text { text, .. } => texts.add(*text),
                    BlockKind::ToolUse { id, name, input, server } => {
                        named.push((id.unescape(), name.unescape(), *input, *server));
                    }
                    BlockKind::ToolResult(_)
                    | BlockKind::Thinking
                    | BlockKind::RedactedThinking
                    | BlockKind::Other { .. } => hidden = true,
                }
            }
        }
    }
    let calls = named
        .iter()
        .map(|(id, name, input, server)| Call {
            id,
            name,
            input: input.of(request.text),
            server: *server,
        })
        .collect();
    transcript.model(&Finished {
        text: texts.finish(),
        calls,
        cut_call: false,
        hidden,
        stop: Stop::Unknown,
        output_tokens: None,
    });
}

/// Text facts of several blocks, without unescaping more than the rules look at.
#[derive(Default)]
struct TextRead {
    digest: Option<Digest>,
    seen: String,
}

impl TextRead {
    fn add(&mut self, text: Str<'_>) {
        let digest = Digest::of(text.raw().as_bytes());
        self.digest = Some(self.digest.map_or(digest, |before| before.then(digest)));
        let room = (Text::ENOUGH as usize).saturating_sub(self.seen.trim().len());
        if room > 0 {
            self.seen.extend(text.iter().skip_while(|c| c.is_whitespace()).take(room));
        }
    }

    fn finish(self) -> Text {
        let seen = Text::of(&self.seen);
        Text { digest: self.digest.filter(|_| !seen.is_blank()), ..seen }
    }
}
