//! The scanner for the start and end of blocks in a text, and for lines that look like results.
//!
//! A state machine over absolute offsets that can stop at any byte and continue when more text has
//! arrived. Every byte is examined a bounded number of times: what is given up (a tag or a code
//! fence that turns out not to be one) is bounded and overlaps nothing of its kind. The scanner
//! forwards nothing and knows no policy.

use memchr::{memchr, memchr2};

use super::{
    TagBlock, Tags,
    body::{BlockBody, BodyPart},
    marks::{MAX_MARK, MarkVerdict, judge_line},
    markup::{TagProgress, TagReader, View, count_examined},
};

/// The number of bytes of an opening fence's line that are examined to tell it from inline code. A
/// longer line opens no fence.
const MAX_INFO: usize = 1024;

/// Tags for thinking that models write as text: DeepSeek R1, Qwen and many later models; Claude if
/// a prompt asks for it.
const THINKING: &[(&str, &str)] = &[("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// A token found by the scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A block begins.
    Opened { start: usize },
    /// The block is complete.
    Closed(BlockPosition),
    /// A line begins like a result.
    Mark {
        at: usize,
        /// The number of bytes that identify it.
        length: usize,
    },
}

/// The position of a complete block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockPosition {
    pub(super) start: usize,
    /// The end of the opening tag.
    opened: usize,
    /// The start of the closing tag.
    closing: usize,
    pub(super) end: usize,
    stray: bool,
}

impl BlockPosition {
    pub(super) fn slice_block<'w>(&self, view: View<'w>) -> TagBlock<'w> {
        TagBlock {
            raw: view.get(self.start, self.end),
            opening: self.opened - self.start,
            closing: self.closing - self.start,
            stray: self.stray,
        }
    }
}

/// The scanner.
#[derive(Clone, Debug)]
pub(super) struct Scanner {
    /// Offset of the next byte to examine.
    pos: usize,
    state: ScanState,
    /// True if lines that begin like results are reported.
    pub(super) marks: bool,
    /// A token that was found together with the last one.
    queued: Option<Token>,
}

#[derive(Clone, Copy, Debug)]
enum ScanState {
    /// At the beginning of a line, after `indent` spaces; or after a block, where no fence can open
    /// (`fresh` is false).
    Line {
        indent: u8,
        fresh: bool,
    },
    /// In a run of backticks or tildes that began a line.
    Ticks {
        byte: u8,
        start: usize,
    },
    /// In the rest of the line of an opening fence of backticks.
    Info {
        run: usize,
        from: usize,
    },
    Fence {
        byte: u8,
        run: usize,
        at: FenceState,
    },
    Think {
        kind: usize,
    },
    /// At a line that may begin like a result.
    Mark {
        from: usize,
    },
    Text,
    Tag(TagReader),
    Body {
        start: usize,
        opened: usize,
        name: (usize, usize),
        body: BlockBody,
    },
}

#[derive(Clone, Copy, Debug)]
enum FenceState {
    /// At the beginning of a line, after this number of spaces.
    Start(u8),
    /// In a run of the fence's character that began a line, with its length.
    Run(usize),
    /// After a run that is long enough: only whitespace may follow.
    Tail,
    /// In a line that does not close the fence.
    Rest,
}

impl Scanner {
    pub(super) const fn new() -> Self {
        Self {
            pos: 0,
            state: ScanState::Line { indent: 0, fresh: true },
            marks: false,
            queued: None,
        }
    }

    /// Returns the offset up to which everything is known to be text, unless a block is open.
    pub(super) const fn safe_end(&self) -> usize {
        match &self.state {
            ScanState::Info { from, .. } | ScanState::Mark { from } => *from,
            ScanState::Tag(tag) => tag.start,
            ScanState::Body { start, .. } => *start,
            _ => self.pos,
        }
    }

    /// Returns the start of the open block and the end of its opening tag.
    pub(super) const fn open_block(&self) -> Option<(usize, usize)> {
        match &self.state {
            ScanState::Body { start, opened, .. } => Some((*start, *opened)),
            _ => None,
        }
    }

    /// Returns the next token, or `None` if more text is needed. `end` is true if no more will
    /// come.
    pub(super) fn next_token(&mut self, view: View<'_>, tags: &Tags, end: bool) -> Option<Token> {
        if let Some(token) = self.queued.take() {
            return Some(token);
        }
        loop {
            let before = self.pos;
            let step = self.step_state(view, tags, end);
            count_examined(1 + self.pos.abs_diff(before));
            match step {
                ScanStep::Go => {}
                ScanStep::More => return None,
                ScanStep::Found(token) => return Some(token),
            }
        }
    }

    fn step_state(&mut self, view: View<'_>, tags: &Tags, end: bool) -> ScanStep {
        match self.state {
            ScanState::Text => self.scan_text(view, tags),
            ScanState::Line { indent, fresh } => self.scan_line(view, indent, fresh, end),
            ScanState::Ticks { byte, start } => self.scan_ticks(view, byte, start),
            ScanState::Info { run, from } => self.scan_info(view, run, from),
            ScanState::Fence { byte, run, at } => self.scan_fence(view, byte, run, at),
            ScanState::Think { kind } => self.scan_think(view, kind, end),
            ScanState::Mark { from } => self.scan_mark(view, from, tags, end),
            ScanState::Tag(tag) => self.scan_tag(view, tag, tags, end),
            ScanState::Body { .. } => self.scan_body(view, tags),
        }
    }

    const fn go_to(&mut self, state: ScanState) -> ScanStep {
        self.state = state;
        ScanStep::Go
    }

    fn scan_text(&mut self, view: View<'_>, tags: &Tags) -> ScanStep {
        let rest = view.bytes(self.pos);
        let mut from = 0;
        while let Some(found) = memchr2(b'\n', b'<', rest.get(from..).unwrap_or_default()) {
            // Of several equal bytes in a row, only the last has anything else after it.
            let run = rest.get(from + found..).unwrap_or_default();
            let many = run.iter().take_while(|byte| run.first() == Some(byte)).count();
            let last = from + found + many - 1;
            if run.first() == Some(&b'\n') {
                self.pos += last + 1;
                return self.go_to(ScanState::Line { indent: 0, fresh: true });
            }
            from = last + 1;
            if rest.get(from).is_none_or(|byte| tags.any_starts_with_byte(*byte)) {
                self.pos += from;
                return self.go_to(ScanState::Tag(TagReader::new(self.pos - 1)));
            }
        }
        self.pos = view.end();
        ScanStep::More
    }

    fn scan_line(&mut self, view: View<'_>, indent: u8, fresh: bool, end: bool) -> ScanStep {
        let Some(byte) = view.byte(self.pos) else { return ScanStep::More };
        match byte {
            b' ' if indent < 3 => {
                self.pos += 1;
                return self.go_to(ScanState::Line { indent: indent + 1, fresh });
            }
            b'`' | b'~' if fresh => return self.go_to(ScanState::Ticks { byte, start: self.pos }),
            b'<' => {
                let rest = view.bytes(self.pos);
                for (kind, (open, _)) in THINKING.iter().enumerate() {
                    match may_start_with(rest, open.as_bytes()) {
                        Some(true) => {
                            self.pos += open.len();
                            return self.go_to(ScanState::Think { kind });
                        }
                        None if !end => return ScanStep::More,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        self.go_to(if self.marks && byte != b'\n' {
            ScanState::Mark { from: self.pos }
        } else {
            ScanState::Text
        })
    }

    fn scan_ticks(&mut self, view: View<'_>, byte: u8, start: usize) -> ScanStep {
        let rest = view.bytes(self.pos);
        let run = rest.iter().take_while(|b| **b == byte).count();
        self.pos += run;
        if run == rest.len() {
            return ScanStep::More;
        }
        let run = self.pos - start;
        self.go_to(match byte {
            _ if run < 3 => ScanState::Text,
            b'`' => ScanState::Info { run, from: self.pos },
            _ => ScanState::Fence { byte, run, at: FenceState::Rest },
        })
    }

    fn scan_info(&mut self, view: View<'_>, run: usize, from: usize) -> ScanStep {
        let rest = view.bytes(self.pos);
        let room = (from + MAX_INFO).saturating_sub(self.pos);
        let near = rest.get(..room).unwrap_or(rest);
        match memchr2(b'\n', b'`', near) {
            Some(found) if near.get(found) == Some(&b'\n') => {
                self.pos += found + 1;
                self.go_to(ScanState::Fence { byte: b'`', run, at: FenceState::Start(0) })
            }
            None if near.len() < room => {
                self.pos = view.end();
                ScanStep::More
            }
            // A backtick in the line: inline code. Or the line is too long.
            _ => {
                self.pos = from;
                self.go_to(ScanState::Text)
            }
        }
    }

    fn scan_fence(&mut self, view: View<'_>, byte: u8, run: usize, at: FenceState) -> ScanStep {
        if matches!(at, FenceState::Rest) {
            let rest = view.bytes(self.pos);
            let Some(found) = memchr(b'\n', rest) else {
                self.pos = view.end();
                return ScanStep::More;
            };
            self.pos += found + 1;
            return self.go_to(ScanState::Fence { byte, run, at: FenceState::Start(0) });
        }
        let Some(found) = view.byte(self.pos) else { return ScanStep::More };
        let at = match (at, found) {
            (FenceState::Start(indent), b' ') if indent < 3 => FenceState::Start(indent + 1),
            (FenceState::Start(_), _) if found == byte => FenceState::Run(1),
            (FenceState::Run(length), _) if found == byte => FenceState::Run(length + 1),
            (FenceState::Run(length), b'\n') if length >= run => return self.leave_fence(),
            (FenceState::Tail, b'\n') => return self.leave_fence(),
            (FenceState::Run(length), b' ' | b'\t' | b'\r') if length >= run => FenceState::Tail,
            (FenceState::Tail, b' ' | b'\t' | b'\r') => FenceState::Tail,
            // The byte is examined again in that state: it may end the line.
            _ => return self.go_to(ScanState::Fence { byte, run, at: FenceState::Rest }),
        };
        self.pos += 1;
        self.go_to(ScanState::Fence { byte, run, at })
    }

    /// Moves after the line that closed a fence.
    const fn leave_fence(&mut self) -> ScanStep {
        self.pos += 1;
        self.go_to(ScanState::Line { indent: 0, fresh: true })
    }

    fn scan_think(&mut self, view: View<'_>, kind: usize, end: bool) -> ScanStep {
        let rest = view.bytes(self.pos);
        let Some(found) = memchr(b'<', rest) else {
            self.pos = view.end();
            return ScanStep::More;
        };
        self.pos += found;
        let close = THINKING.get(kind).map_or("", |(_, close)| close);
        match may_start_with(rest.get(found..).unwrap_or_default(), close.as_bytes()) {
            None if !end => return ScanStep::More,
            Some(true) => {
                self.pos += close.len();
                self.state = ScanState::Line { indent: 0, fresh: false };
            }
            _ => self.pos += 1,
        }
        ScanStep::Go
    }

    fn scan_mark(&mut self, view: View<'_>, from: usize, tags: &Tags, end: bool) -> ScanStep {
        let rest = view.bytes(from);
        let near = rest.get(..MAX_MARK).unwrap_or(rest);
        let length = memchr(b'\n', near).unwrap_or(near.len());
        count_examined(length);
        // A mark may be cut inside a character, where its bytes no longer matter.
        let line = floor_text(view.get(from, view.end()), length);
        let whole = end || length < rest.len() || near.len() == MAX_MARK;
        match judge_line(line, whole, tags) {
            MarkVerdict::More => ScanStep::More,
            MarkVerdict::No => self.go_to(ScanState::Text),
            MarkVerdict::Yes(length) => {
                self.state = ScanState::Text;
                self.marks = false;
                ScanStep::Found(Token::Mark { at: from, length })
            }
        }
    }

    fn scan_tag(&mut self, view: View<'_>, mut tag: TagReader, tags: &Tags, end: bool) -> ScanStep {
        // A stray closing tag is text.
        let wanted = |found: &str, whole: bool| {
            if whole { tags.has_name(found) } else { tags.any_starts_with(found) }
        };
        let closing = view.byte(tag.start + 1) == Some(b'/');
        let fed =
            if closing { TagProgress::Not } else { tag.feed_view(view, &mut self.pos, wanted) };
        let opened = match fed {
            TagProgress::More if !end => {
                self.state = ScanState::Tag(tag);
                return ScanStep::More;
            }
            TagProgress::Open { empty } => (self.pos, empty),
            _ => {
                self.pos = tag.start + 1;
                return self.go_to(ScanState::Text);
            }
        };
        let (opened, empty) = opened;
        let start = tag.start;
        if empty {
            let place = BlockPosition { start, opened, closing: opened, end: opened, stray: false };
            self.queued = Some(Token::Closed(place));
            self.state = ScanState::Line { indent: 0, fresh: false };
        } else {
            let name = tag.name_range();
            self.state = ScanState::Body { start, opened, name, body: BlockBody::new() };
        }
        ScanStep::Found(Token::Opened { start })
    }

    fn scan_body(&mut self, view: View<'_>, tags: &Tags) -> ScanStep {
        let ScanState::Body { start, opened, name, body } = &mut self.state else {
            return ScanStep::Go;
        };
        let name = view.get(name.0, name.1);
        while let Some(part) = body.next_part(view, &mut self.pos, name, tags) {
            if let BodyPart::Closed { at, end } = part {
                let (start, opened, stray) = (*start, *opened, body.stray);
                let place = BlockPosition { start, opened, closing: at, end, stray };
                self.state = ScanState::Line { indent: 0, fresh: false };
                return ScanStep::Found(Token::Closed(place));
            }
        }
        ScanStep::More
    }
}

enum ScanStep {
    Go,
    More,
    Found(Token),
}

/// Returns true if `text` starts with `with`, or `None` if it is too short to decide.
fn may_start_with(text: &[u8], with: &[u8]) -> Option<bool> {
    if text.len() >= with.len() {
        return Some(text.starts_with(with));
    }
    if with.starts_with(text) { None } else { Some(false) }
}

/// Returns the first `length` bytes, or fewer if that would cut a character.
fn floor_text(text: &str, length: usize) -> &str {
    text.get(..text.floor_char_boundary(length)).unwrap_or_default()
}
