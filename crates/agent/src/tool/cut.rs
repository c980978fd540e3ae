//! Cutting text to a size with a marker that says what is missing. Never splits a character.

/// `text` in at most `cap` bytes: its beginning, a marker with the number of characters left
/// out, and its end. Text that fits is returned as it is; where `cap` has no room for the
/// marker, the marker alone is returned.
#[must_use]
pub fn cut_middle(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    // The marker is longest when everything is left out: room for that is always enough.
    let room = cap.saturating_sub(marker(text.chars().count()).len());
    let tail_room = room / 4;
    let (head, rest) = split(text, text.floor_char_boundary(room - tail_room));
    let (middle, tail) = split(rest, rest.ceil_char_boundary(rest.len() - tail_room));
    format!("{head}{}{tail}", marker(middle.chars().count()))
}

/// `at` is a character boundary; were it none, nothing would go to the first part.
fn split(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or(("", text))
}

fn marker(chars: usize) -> String {
    format!(
        "\n[… {chars} characters left out; ask for a smaller part (path, pattern, range) to see them]\n"
    )
}

/// One line of at most `max` characters, control characters replaced, cut with `…`.
pub(crate) fn cut_line(text: &str, max: usize) -> String {
    let mut line: String =
        text.chars().take(max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        line.push('…');
    }
    line
}
