//! Cuts text to a size, with a marker that says how much is missing. Never splits a character.

/// Returns `text` in at most `cap` bytes: its beginning, a marker with the number of omitted
/// characters, and its end. Text that fits is returned unchanged. If the marker does not fit into
/// `cap`, only the marker is returned.
#[must_use]
pub fn cut_middle(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    // The marker is longest when everything is left out, so this much room always suffices.
    let room = cap.saturating_sub(cut_marker(text.chars().count()).len());
    let tail_room = room / 4;
    let (head, rest) = split_checked(text, text.floor_char_boundary(room - tail_room));
    let (middle, tail) = split_checked(rest, rest.ceil_char_boundary(rest.len() - tail_room));
    format!("{head}{}{tail}", cut_marker(middle.chars().count()))
}

/// Splits a text at a character boundary. At any other position, the first part is empty.
fn split_checked(text: &str, at: usize) -> (&str, &str) {
    text.split_at_checked(at).unwrap_or(("", text))
}

fn cut_marker(chars: usize) -> String {
    format!(
        "\n[… {chars} characters left out; ask for a smaller part (path, pattern, range) to see them]\n"
    )
}

/// Returns one line of at most `max` characters, with control characters replaced, cut with `…`.
pub(crate) fn cut_line(text: &str, max: usize) -> String {
    let mut line: String =
        text.chars().take(max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        line.push('…');
    }
    line
}
