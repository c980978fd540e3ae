//! Lays out blocks as lines from the parser's events.

use pulldown_cmark::{Event, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use super::super::pieces::Style;
use super::super::text::make_harmless;
use super::table::Table;
use super::words::Words;
use super::{Span, StyledLine};

/// The columns of a horizontal rule.
const RULE: usize = 40;
/// The fewest columns that margins leave for text.
const LEAST: usize = 16;

/// The text before the lines of a block, such as a list marker.
#[derive(Debug)]
struct Margin {
    /// The text before the first line, until that line was laid out.
    first: Option<Span>,
    rest: Span,
}

#[derive(Debug, Default)]
pub(super) struct Layout {
    width: usize,
    pub(super) lines: Vec<StyledLine>,
    margins: Vec<Margin>,
    words: Words,
    /// The next numbers of the open lists; `None` for a list without numbers.
    lists: Vec<Option<u64>>,
    /// The targets of the open links, and the link text so far.
    links: Vec<(String, String)>,
    strong: usize,
    emphasis: usize,
    heading: bool,
    code: Option<String>,
    table: Option<Table>,
}

impl Layout {
    pub(super) fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    pub(super) fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push_text(self.current_style(), &text),
            },
            Event::Code(text) => self.push_text(Style::Code, &text),
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.push_text(Style::Code, &text)
            }
            Event::Html(text) | Event::InlineHtml(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push_text(Style::Plain, &text),
            },
            Event::FootnoteReference(name) => self.push_text(Style::Plain, &format!("[^{name}]")),
            Event::SoftBreak => self.words.end_word(),
            Event::HardBreak => self.flush_words(),
            Event::Rule => {
                let rule = "─".repeat(RULE.min(self.remaining_width()));
                self.push_line(vec![Span::new(Style::Dim, rule)]);
            }
            Event::TaskListMarker(done) => {
                self.push_text(Style::Plain, if done { "[x] " } else { "[ ] " });
            }
        }
    }

    fn current_style(&self) -> Style {
        match (self.heading || self.strong > 0, self.emphasis > 0) {
            _ if !self.links.is_empty() => Style::Link,
            (true, true) => Style::StrongEmphasis,
            (true, false) => Style::Bold,
            (false, true) => Style::Emphasis,
            (false, false) => Style::Plain,
        }
    }

    fn push_text(&mut self, style: Style, text: &str) {
        if let Some((_, shown)) = self.links.last_mut() {
            shown.push_str(text);
        }
        self.words.push(style, text);
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.start_block(),
            Tag::Heading { .. } => {
                self.start_block();
                self.heading = true;
            }
            Tag::BlockQuote(_) => {
                self.start_block();
                self.push_margin(None, Span::new(Style::Dim, "│ "));
            }
            Tag::CodeBlock(_) | Tag::HtmlBlock => {
                self.flush_words();
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.flush_words();
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(_) => {
                self.start_block();
                self.table = Some(Table::default());
            }
            Tag::TableHead => {
                self.strong += 1;
                self.start_row();
            }
            Tag::TableRow => self.start_row(),
            Tag::Emphasis => self.emphasis += 1,
            Tag::Strong => self.strong += 1,
            Tag::Strikethrough => self.words.push(Style::Plain, "~~"),
            Tag::Link { dest_url, .. } => self.links.push((dest_url.into_string(), String::new())),
            Tag::Image { dest_url, .. } => {
                self.push_text(Style::Plain, "image: ");
                self.links.push((dest_url.into_string(), String::new()));
            }
            // These tags are not enabled, or have no text of their own.
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush_words(),
            TagEnd::Heading(_) => {
                self.flush_words();
                self.heading = false;
            }
            TagEnd::BlockQuote(_) => {
                self.flush_words();
                self.margins.pop();
            }
            TagEnd::CodeBlock | TagEnd::HtmlBlock => {
                self.end_code(matches!(tag, TagEnd::HtmlBlock))
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush_words();
                self.end_item();
            }
            TagEnd::Table => {
                let room = self.remaining_width();
                for line in self.table.take().unwrap_or_default().into_lines(room) {
                    self.push_line(line);
                }
            }
            TagEnd::TableHead => self.strong = self.strong.saturating_sub(1),
            TagEnd::TableCell => {
                let words = std::mem::take(&mut self.words);
                if let Some(table) = &mut self.table {
                    table.push_cell(words);
                }
            }
            TagEnd::Emphasis => self.emphasis = self.emphasis.saturating_sub(1),
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::Strikethrough => self.words.push(Style::Plain, "~~"),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    /// Appends the target of a link to its text, unless the text is the target.
    fn end_link(&mut self) {
        let Some((to, shown)) = self.links.pop() else { return };
        if !to.is_empty() && to != shown && to.strip_prefix("mailto:") != Some(&shown) {
            self.words.push(Style::Dim, &format!(" ({to})"));
        }
    }

    fn start_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.start_row();
        }
    }

    fn start_item(&mut self) {
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        };
        let rest = Span::new(Style::Plain, " ".repeat(mark.width()));
        self.push_margin(Some(Span::new(Style::Plain, mark)), rest);
    }

    /// Ends a list item. An item without text still shows its marker.
    fn end_item(&mut self) {
        if self.margins.last().is_some_and(|margin| margin.first.is_some()) {
            self.push_line(StyledLine::new());
        }
        self.margins.pop();
    }

    /// Adds a margin. If it would leave too few columns, there is no margin, and its marker becomes
    /// a word.
    fn push_margin(&mut self, first: Option<Span>, rest: Span) {
        if self.remaining_width() >= LEAST + rest.text.width() {
            return self.margins.push(Margin { first, rest });
        }
        self.margins.push(Margin { first: None, rest: Span::new(Style::Plain, "") });
        if let Some(Span { style, text }) = first {
            self.flush_words();
            self.push_text(style, &text);
        }
    }

    fn remaining_width(&self) -> usize {
        let margins: usize = self.margins.iter().map(|margin| margin.rest.text.width()).sum();
        self.width.saturating_sub(margins).max(1)
    }

    /// Starts a block, with a blank line before it unless it is the first one of its container.
    fn start_block(&mut self) {
        self.flush_words();
        let is_first = self.margins.last().is_some_and(|margin| margin.first.is_some());
        if !self.lines.is_empty() && !is_first {
            self.push_line(StyledLine::new());
        }
    }

    /// Lays out the collected words.
    fn flush_words(&mut self) {
        if self.words.is_empty() {
            return;
        }
        let words = std::mem::take(&mut self.words);
        for line in words.wrap_lines(self.remaining_width()) {
            self.push_line(line);
        }
    }

    /// Adds the lines of a code block, whatever their width: wrapped lines could not be copied.
    fn end_code(&mut self, html: bool) {
        let (style, indent) = if html { (Style::Plain, "") } else { (Style::Code, "  ") };
        for text in self.code.take().unwrap_or_default().lines() {
            let text = make_harmless(text).replace('\t', "    ");
            self.push_line(vec![Span::new(style, format!("{indent}{text}"))]);
        }
    }

    fn push_line(&mut self, content: StyledLine) {
        let mut line = StyledLine::new();
        for margin in &mut self.margins {
            line.push(margin.first.take().unwrap_or_else(|| margin.rest.clone()));
        }
        line.extend(content);
        while line.last().is_some_and(|span| span.text.trim().is_empty()) {
            line.pop();
        }
        self.lines.push(line);
    }
}
