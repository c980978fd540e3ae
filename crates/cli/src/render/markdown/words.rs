//! Styled text that is wrapped into lines.

use unicode_width::UnicodeWidthStr as _;

use super::super::pieces::Style;
use super::super::text::{chunks, harmless};
use super::{Line, Span};

/// Words of a paragraph, each of one or more spans.
#[derive(Debug, Default)]
pub(super) struct Words {
    words: Vec<Vec<Span>>,
    /// True if the next text continues the last word.
    glued: bool,
}

impl Words {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Adds text. Spaces, tabs and line ends separate words.
    pub(super) fn push(&mut self, style: Style, text: &str) {
        let text = harmless(text);
        for (at, word) in text.split([' ', '\t', '\n']).enumerate() {
            if at > 0 {
                self.glued = false;
            }
            if word.is_empty() {
                continue;
            }
            let span = Span::new(style, word);
            match self.words.last_mut().filter(|_| self.glued) {
                Some(last) => last.push(span),
                None => self.words.push(vec![span]),
            }
            self.glued = true;
        }
    }

    /// Ends the current word.
    pub(super) fn part(&mut self) {
        self.glued = false;
    }

    /// Joins all words on one line.
    pub(super) fn line(self) -> Line {
        let mut line = Line::new();
        for word in self.words {
            join(&mut line, word);
        }
        line
    }

    /// Wraps the words into lines of at most `width` columns. A longer word is broken.
    pub(super) fn lines(self, width: usize) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut used = 0;
        for word in self.words {
            let columns = columns(&word);
            if used > 0 && used + 1 + columns <= width {
                used += 1 + columns;
                if let Some(last) = lines.last_mut() {
                    join(last, word);
                }
            } else if columns <= width {
                used = columns;
                lines.push(word);
            } else {
                for Span { style, text } in word {
                    lines.extend(
                        chunks(&text, width).into_iter().map(|c| vec![Span::new(style, c)]),
                    );
                }
                used = lines.last().map_or(0, |last| self::columns(last));
            }
        }
        lines
    }
}

/// Appends a word to a line. A space between two words of one style has that style.
fn join(line: &mut Line, word: Vec<Span>) {
    for (at, span) in word.into_iter().enumerate() {
        match line.last_mut() {
            Some(last) if last.style == span.style => {
                if at == 0 {
                    last.text.push(' ');
                }
                last.text.push_str(&span.text);
            }
            Some(_) if at == 0 => line.extend([Span::new(Style::Plain, " "), span]),
            _ => line.push(span),
        }
    }
}

/// Returns the number of columns of a line.
pub(super) fn columns(line: &[Span]) -> usize {
    line.iter().map(|span| span.text.width()).sum()
}
