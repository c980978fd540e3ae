//! Styled text that is wrapped into lines.

use unicode_width::UnicodeWidthStr as _;

use super::super::pieces::Style;
use super::super::text::{make_harmless, split_chunks};
use super::{Span, StyledLine};

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
        let text = make_harmless(text);
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
    pub(super) fn end_word(&mut self) {
        self.glued = false;
    }

    /// Joins all words on one line.
    pub(super) fn into_line(self) -> StyledLine {
        let mut line = StyledLine::new();
        for word in self.words {
            join_word(&mut line, word);
        }
        line
    }

    /// Wraps the words into lines of at most `width` columns. A longer word is broken.
    pub(super) fn wrap_lines(self, width: usize) -> Vec<StyledLine> {
        let mut lines: Vec<StyledLine> = Vec::new();
        let mut used = 0;
        for word in self.words {
            let columns = count_columns(&word);
            if used > 0 && used + 1 + columns <= width {
                used += 1 + columns;
                if let Some(last) = lines.last_mut() {
                    join_word(last, word);
                }
            } else if columns <= width {
                used = columns;
                lines.push(word);
            } else {
                for Span { style, text } in word {
                    lines.extend(
                        split_chunks(&text, width).into_iter().map(|c| vec![Span::new(style, c)]),
                    );
                }
                used = lines.last().map_or(0, |last| count_columns(last));
            }
        }
        lines
    }
}

/// Appends a word to a line. A space between two words of one style has that style.
fn join_word(line: &mut StyledLine, word: Vec<Span>) {
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
pub(super) fn count_columns(line: &[Span]) -> usize {
    line.iter().map(|span| span.text.width()).sum()
}
