//! Shortens texts, and says so in them.

/// Shortens a text to its beginning and its end, about `cap` bytes at most.
pub(crate) fn cut_middle(text: &str, cap: usize) -> String {
    if text.len() <= cap {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(cap / 4 * 3);
    let tail = text.ceil_char_boundary(text.len() - cap / 4);
    let (first, last) = (text.get(..head).unwrap_or(""), text.get(tail..).unwrap_or(""));
    format!("{first}\n[… {} bytes left out …]\n{last}", tail - head)
}
