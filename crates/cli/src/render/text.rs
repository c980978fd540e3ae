//! Prepares text for a terminal: control characters are made harmless, and lines are cut to a
//! number of columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The least width that is assumed, in columns.
pub(crate) const MIN_WIDTH: usize = 20;

/// Replaces everything that a terminal would interpret: escapes and other control characters become
/// visible symbols, overrides of the writing direction a replacement character. Line ends and tabs
/// stay.
pub(super) fn make_harmless(text: &str) -> String {
    text.chars().filter(|c| *c != '\r').map(harmless_char).collect()
}

/// Replaces a character that a terminal would interpret.
pub(crate) fn harmless_char(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        '\u{2028}' | '\u{2029}' => ' ',
        c => c,
    }
}

/// Returns one harmless line of at most `width` columns, cut with `…`. Line ends become spaces.
pub(super) fn cut_line(text: &str, width: usize) -> String {
    // A character adds at most a few bytes per column; text beyond these cannot be shown anyway.
    let head: String = text.chars().take(width.saturating_mul(8).saturating_add(8)).collect();
    let flat = make_harmless(&head).replace('\t', "    ").replace('\n', " ");
    let whole = head.len() == text.len();
    if whole && flat.width() <= width {
        return flat;
    }
    let mut cut = String::new();
    let mut used = 1;
    for c in flat.chars() {
        used += char_columns(c);
        if used > width {
            break;
        }
        cut.push(c);
    }
    while cut.ends_with('\u{200d}') {
        cut.pop();
    }
    cut.push('…');
    cut
}

/// Splits one line of text into harmless pieces of at most `width` columns, without losing any
/// text.
pub(super) fn split_chunks(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for c in make_harmless(text).replace('\t', "    ").replace('\n', " ").chars() {
        let columns = char_columns(c);
        if used + columns > width && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(last) = lines.last_mut() {
            last.push(c);
        }
    }
    lines
}

/// Wraps one line of text into harmless lines of at most `width` columns. A longer word is broken
/// anywhere.
pub(super) fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in make_harmless(text).split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.width() + 1 + word.width() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.extend(split_chunks(word, width)),
        }
    }
    lines
}

/// Returns one harmless line, cut only if there is a width.
pub(crate) fn harmless_line(text: &str, width: Option<usize>) -> String {
    cut_line(text, width.unwrap_or(usize::MAX))
}

/// Returns the most columns that a character adds to a line.
fn char_columns(c: char) -> usize {
    match c {
        // This selector can turn the narrow character before it into a wide emoji.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(0),
    }
}

/// Joins items with ` · `, and wraps between items into lines of at most `width` columns. A longer
/// item is broken at its spaces.
pub(crate) fn flow_items(items: &[String], width: usize) -> Vec<String> {
    let mut words: Vec<(&str, String)> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let joint = if at == 0 { "" } else { " · " };
        let item = make_harmless(item).replace('\n', " ");
        if item.width() <= width {
            words.push((joint, item));
        } else {
            let parts = item.split(' ').enumerate();
            words.extend(parts.map(|(i, w)| (if i == 0 { joint } else { " " }, w.to_owned())));
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for (joint, word) in words {
        match lines.last_mut() {
            Some(last) if last.width() + joint.width() + word.width() <= width => {
                last.push_str(joint);
                last.push_str(&word);
            }
            _ => lines.push(if word.width() > width { cut_line(&word, width) } else { word }),
        }
    }
    lines
}

/// Formats a number with a noun: `1 turn`, `1,234 turns`.
pub(crate) fn format_count(number: u64, what: &str) -> String {
    format!("{} {what}{}", group_digits(number), if number == 1 { "" } else { "s" })
}

/// Formats the tokens of a run. `input` includes the `cached` tokens.
pub(crate) fn format_token_sums(input: u64, cached: u64, output: u64) -> String {
    let percent = cached.saturating_mul(100).checked_div(input).unwrap_or(0);
    format!("{} tokens in ({percent}% cached), {} out", group_digits(input), group_digits(output))
}

/// Formats a number with commas between thousands.
pub(crate) fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_passes() {
        let nasty = "a\u{1b}[2Jb\u{7}\u{9b}31mc\rd\u{7f}\u{202e}e\u{0}";
        assert_eq!(make_harmless(nasty), "a␛[2Jb␇\u{fffd}31mcd␡\u{fffd}e␀");
        for code in (0..0x20).chain(0x7f..0xa0) {
            let c = char::from_u32(code).unwrap();
            let shown = make_harmless(&c.to_string());
            let kept = shown.chars().all(|c| !c.is_control() || c == '\n' || c == '\t');
            assert!(kept, "{code:#x}");
        }
        assert_eq!(cut_line("a\tb\nc", 40), "a    b c");
    }

    #[test]
    fn lines_are_cut_by_columns() {
        for (text, width, wanted) in [
            ("short", 20, "short"),
            ("exactly twenty chars", 20, "exactly twenty chars"),
            ("one more than twenty!", 20, "one more than twent…"),
            ("日本語のテキストです", 20, "日本語のテキストです"),
            ("日本語のテキストですよ", 20, "日本語のテキストで…"),
            ("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}"),
            ("e\u{301}e\u{301}e\u{301}e", 3, "e\u{301}e\u{301}…"),
            ("👩‍👩‍👧 family", 20, "👩‍👩‍👧 family"),
            ("", 20, ""),
        ] {
            let cut = cut_line(text, width);
            assert_eq!(cut, wanted);
            assert!(cut.width() <= width, "{cut} has {} columns", cut.width());
        }
    }

    #[test]
    fn no_cut_line_is_wider_than_its_terminal() {
        let texts =
            ["👩‍👩‍👧‍👦".repeat(30), "❤\u{fe0f}".repeat(40), "e\u{301}".repeat(500), "漢".repeat(90)];
        for text in texts {
            for width in 20..60 {
                let cut = cut_line(&text, width);
                assert!(cut.width() <= width, "{width}: {cut}");
            }
        }
    }

    #[test]
    fn what_is_wrapped_is_whole() {
        let text = "an error: https://example.org/a/very/long/address was not found";
        let lines = wrap_words(text, 20);
        assert!(lines.iter().all(|line| line.width() <= 20), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        assert_eq!(split_chunks("a\u{1b}b日本c", 3), ["a␛b", "日", "本c"]);
        assert_eq!(split_chunks("", 3), [""]);
    }

    #[test]
    fn items_flow_into_the_width() {
        let items = ["5 turns", "8 tool calls", "$0.01"].map(str::to_owned);
        assert_eq!(flow_items(&items, 80), ["5 turns · 8 tool calls · $0.01"]);
        assert_eq!(flow_items(&items, 24), ["5 turns · 8 tool calls", "$0.01"]);
        let long = ["a sentence that is longer than the line".to_owned()];
        assert_eq!(flow_items(&long, 20), ["a sentence that is", "longer than the line"]);
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(group_digits(number), text);
        }
        assert_eq!(format_count(1, "turn"), "1 turn");
        assert_eq!(format_count(2, "turn"), "2 turns");
    }
}
