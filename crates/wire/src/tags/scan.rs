//! The scanner for the start and end of blocks in a text, and for lines that look like results.
//!
//! A state machine over absolute offsets that can stop at any byte and continue when more text has
//! arrived. Every byte is examined a bounded number of times: what is given up (a tag or a code
//! fence that turns out not to be one) is bounded and overlaps nothing of its kind. The scanner
//! forwards nothing and knows no policy.

use memchr::{memchr, memchr2};

use super::{
    Block, Tags,
    body::{Body, Part},
    marks::{MAX_MARK, Verdict, judge},
    markup::{Fed, Markup, View, looked},
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
    Closed(Place),
    /// A line begins like a result.
    Mark {
        at: usize,
        /// The number of bytes that identify it.
        length: usize,
    },
}

/// The position of a complete block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: usize,
    /// The end of the opening tag.
    opened: usize,
    /// The start of the closing tag.
    closing: usize,
    pub(super) end: usize,
    stray: bool,
}

impl Place {
    pub(super) fn block<'w>(&self, view: View<'w>) -> Block<'w> {
        Block {
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
    state: State,
    /// True if lines that begin like results are reported.
    pub(super) marks: bool,
    /// A token that was found together with the last one.
    queued: Option<Token>,
}

#[derive(Clone, Copy, Debug)]
enum State {
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
        at: InFence,
    },
    Think {
        kind: usize,
    },
    /// At a line that may begin like a result.
    Mark {
        from: usize,
    },
    Text,
    Tag(Markup),
    Body {
        start: usize,
        opened: usize,
        name: (usize, usize),
        body: Body,
    },
}

#[derive(Clone, Copy, Debug)]
enum InFence {
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
        Self { pos: 0, state: State::Line { indent: 0, fresh: true }, marks: false, queued: None }
    }

    /// Returns the offset up to which everything is known to be text, unless a block is open.
    pub(super) const fn safe(&self) -> usize {
        match &self.state {
            State::Info { from, .. } | State::Mark { from } => *from,
            State::Tag(tag) => tag.start,
            State::Body { start, .. } => *start,
            _ => self.pos,
        }
    }

    /// Returns the start of the open block and the end of its opening tag.
    pub(super) const fn open(&self) -> Option<(usize, usize)> {
        match &self.state {
            State::Body { start, opened, .. } => Some((*start, *opened)),
            _ => None,
        }
    }

    /// Returns the next token, or `None` if more text is needed. `end` is true if no more will
    /// come.
    pub(super) fn next(&mut self, view: View<'_>, tags: &Tags, end: bool) -> Option<Token> {
        if let Some(token) = self.queued.take() {
            return Some(token);
        }
        loop {
            let before = self.pos;
            let step = self.step(view, tags, end);
            looked(1 + self.pos.abs_diff(before));
            match step {
                Step::Go => {}
                Step::More => return None,
                Step::Found(token) => return Some(token),
            }
        }
    }

    fn step(&mut self, view: View<'_>, tags: &Tags, end: bool) -> Step {
        match self.state {
            State::Text => self.text(view, tags),
            State::Line { indent, fresh } => self.line(view, indent, fresh, end),
            State::Ticks { byte, start } => self.ticks(view, byte, start),
            State::Info { run, from } => self.info(view, run, from),
            State::Fence { byte, run, at } => self.fence(view, byte, run, at),
            State::Think { kind } => self.think(view, kind, end),
            State::Mark { from } => self.mark(view, from, tags, end),
            State::Tag(tag) => self.tag(view, tag, tags, end),
            State::Body { .. } => self.body(view, tags),
        }
    }

    const fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::Go
    }

    fn text(&mut self, view: View<'_>, tags: &Tags) -> Step {
        let rest = view.bytes(self.pos);
        let mut from = 0;
        while let Some(found) = memchr2(b'\n', b'<', rest.get(from..).unwrap_or_default()) {
            // Of several equal bytes in a row, only the last has anything else after it.
            let run = rest.get(from + found..).unwrap_or_default();
            let many = run.iter().take_while(|byte| run.first() == Some(byte)).count();
            let last = from + found + many - 1;
            if run.first() == Some(&b'\n') {
                self.pos += last + 1;
                return self.go(State::Line { indent: 0, fresh: true });
            }
            from = last + 1;
            if rest.get(from).is_none_or(|byte| tags.begin_with(*byte)) {
                self.pos += from;
                return self.go(State::Tag(Markup::new(self.pos - 1)));
            }
        }
        self.pos = view.end();
        Step::More
    }

    fn line(&mut self, view: View<'_>, indent: u8, fresh: bool, end: bool) -> Step {
        let Some(byte) = view.byte(self.pos) else { return Step::More };
        match byte {
            b' ' if indent < 3 => {
                self.pos += 1;
                return self.go(State::Line { indent: indent + 1, fresh });
            }
            b'`' | b'~' if fresh => return self.go(State::Ticks { byte, start: self.pos }),
            b'<' => {
                let rest = view.bytes(self.pos);
                for (kind, (open, _)) in THINKING.iter().enumerate() {
                    match starts(rest, open.as_bytes()) {
                        Some(true) => {
                            self.pos += open.len();
                            return self.go(State::Think { kind });
                        }
                        None if !end => return Step::More,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        self.go(if self.marks && byte != b'\n' {
            State::Mark { from: self.pos }
        } else {
            State::Text
        })
    }

    fn ticks(&mut self, view: View<'_>, byte: u8, start: usize) -> Step {
        let rest = view.bytes(self.pos);
        let run = rest.iter().take_while(|b| **b == byte).count();
        self.pos += run;
        if run == rest.len() {
            return Step::More;
        }
        let run = self.pos - start;
        self.go(match byte {
            _ if run < 3 => State::Text,
            b'`' => State::Info { run, from: self.pos },
            _ => State::Fence { byte, run, at: InFence::Rest },
        })
    }

    fn info(&mut self, view: View<'_>, run: usize, from: usize) -> Step {
        let rest = view.bytes(self.pos);
        let room = (from + MAX_INFO).saturating_sub(self.pos);
        let near = rest.get(..room).unwrap_or(rest);
        match memchr2(b'\n', b'`', near) {
            Some(found) if near.get(found) == Some(&b'\n') => {
                self.pos += found + 1;
                self.go(State::Fence { byte: b'`', run, at: InFence::Start(0) })
            }
            None if near.len() < room => {
                self.pos = view.end();
                Step::More
            }
            // A backtick in the line: inline code. Or the line is too long.
            _ => {
                self.pos = from;
                self.go(State::Text)
            }
        }
    }

    fn fence(&mut self, view: View<'_>, byte: u8, run: usize, at: InFence) -> Step {
        if matches!(at, InFence::Rest) {
            let rest = view.bytes(self.pos);
            let Some(found) = memchr(b'\n', rest) else {
                self.pos = view.end();
                return Step::More;
            };
            self.pos += found + 1;
            return self.go(State::Fence { byte, run, at: InFence::Start(0) });
        }
        let Some(found) = view.byte(self.pos) else { return Step::More };
        let at = match (at, found) {
            (InFence::Start(indent), b' ') if indent < 3 => InFence::Start(indent + 1),
            (InFence::Start(_), _) if found == byte => InFence::Run(1),
            (InFence::Run(length), _) if found == byte => InFence::Run(length + 1),
            (InFence::Run(length), b'\n') if length >= run => return self.behind(),
            (InFence::Tail, b'\n') => return self.behind(),
            (InFence::Run(length), b' ' | b'\t' | b'\r') if length >= run => InFence::Tail,
            (InFence::Tail, b' ' | b'\t' | b'\r') => InFence::Tail,
            // The byte is examined again in that state: it may end the line.
            _ => return self.go(State::Fence { byte, run, at: InFence::Rest }),
        };
        self.pos += 1;
        self.go(State::Fence { byte, run, at })
    }

    /// Moves after the line that closed a fence.
    const fn behind(&mut self) -> Step {
        self.pos += 1;
        self.go(State::Line { indent: 0, fresh: true })
    }

    fn think(&mut self, view: View<'_>, kind: usize, end: bool) -> Step {
        let rest = view.bytes(self.pos);
        let Some(found) = memchr(b'<', rest) else {
            self.pos = view.end();
            return Step::More;
        };
        self.pos += found;
        let close = THINKING.get(kind).map_or("", |(_, close)| close);
        match starts(rest.get(found..).unwrap_or_default(), close.as_bytes()) {
            None if !end => return Step::More,
            Some(true) => {
                self.pos += close.len();
                self.state = State::Line { indent: 0, fresh: false };
            }
            _ => self.pos += 1,
        }
        Step::Go
    }

    fn mark(&mut self, view: View<'_>, from: usize, tags: &Tags, end: bool) -> Step {
        let rest = view.bytes(from);
        let near = rest.get(..MAX_MARK).unwrap_or(rest);
        let length = memchr(b'\n', near).unwrap_or(near.len());
        looked(length);
        // A mark may be cut inside a character, where its bytes no longer matter.
        let line = floor(view.get(from, view.end()), length);
        let whole = end || length < rest.len() || near.len() == MAX_MARK;
        match judge(line, whole, tags) {
            Verdict::More => Step::More,
            Verdict::No => self.go(State::Text),
            Verdict::Yes(length) => {
                self.state = State::Text;
                self.marks = false;
                Step::Found(Token::Mark { at: from, length })
            }
        }
    }

    fn tag(&mut self, view: View<'_>, mut tag: Markup, tags: &Tags, end: bool) -> Step {
        // A stray closing tag is text.
        let wanted = |found: &str, whole: bool| {
            if whole { tags.has(found) } else { tags.begin(found) }
        };
        let closing = view.byte(tag.start + 1) == Some(b'/');
        let fed = if closing { Fed::Not } else { tag.feed(view, &mut self.pos, wanted) };
        let opened = match fed {
            Fed::More if !end => {
                self.state = State::Tag(tag);
                return Step::More;
            }
            Fed::Open { empty } => (self.pos, empty),
            _ => {
                self.pos = tag.start + 1;
                return self.go(State::Text);
            }
        };
        let (opened, empty) = opened;
        let start = tag.start;
        if empty {
            let place = Place { start, opened, closing: opened, end: opened, stray: false };
            self.queued = Some(Token::Closed(place));
            self.state = State::Line { indent: 0, fresh: false };
        } else {
            let name = tag.name_at();
            self.state = State::Body { start, opened, name, body: Body::new() };
        }
        Step::Found(Token::Opened { start })
    }

    fn body(&mut self, view: View<'_>, tags: &Tags) -> Step {
        let State::Body { start, opened, name, body } = &mut self.state else { return Step::Go };
        let name = view.get(name.0, name.1);
        while let Some(part) = body.next(view, &mut self.pos, name, tags) {
            if let Part::Closed { at, end } = part {
                let (start, opened, stray) = (*start, *opened, body.stray);
                let place = Place { start, opened, closing: at, end, stray };
                self.state = State::Line { indent: 0, fresh: false };
                return Step::Found(Token::Closed(place));
            }
        }
        Step::More
    }
}

enum Step {
    Go,
    More,
    Found(Token),
}

/// Returns true if `text` starts with `with`, or `None` if it is too short to decide.
fn starts(text: &[u8], with: &[u8]) -> Option<bool> {
    if text.len() >= with.len() {
        return Some(text.starts_with(with));
    }
    if with.starts_with(text) { None } else { Some(false) }
}

/// Returns the first `length` bytes, or fewer if that would cut a character.
fn floor(text: &str, length: usize) -> &str {
    text.get(..text.floor_char_boundary(length)).unwrap_or_default()
}
