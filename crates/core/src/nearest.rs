//! The known name nearest to a mistyped one.

use alloc::vec::Vec;

/// The greatest length that is compared, in characters: nobody mistypes a paragraph.
const LONGEST: usize = 64;

/// Returns the candidate with the smallest edit distance to `name`, if it is near enough to be
/// meant (a third of the longer name's length, at least 1); the first of equals.
#[must_use]
pub fn find_nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let Some(distance) = near_distance(name, candidate) else { continue };
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the distance of two names if they are near enough. Upper and lower case are the same. A
/// name whose last word was left out, such as a unit, is as near as one with a wrong letter.
#[must_use]
pub fn near_distance(a: &str, b: &str) -> Option<usize> {
    if a.contains('_') && b.strip_prefix(a).is_some_and(|rest| rest.starts_with('_')) {
        return Some(1);
    }
    let a: Vec<char> = a.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let allowed = (a.len().max(b.len()) / 3).max(1);
    let distance = edit_distance(&a, &b);
    (distance <= allowed).then_some(distance)
}

/// Returns the number of insertions, deletions and replacements that turn `a` into `b`
/// (Levenshtein).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(b) {
            let replaced = diagonal + usize::from(from != to);
            diagonal = *cell;
            *cell = replaced.min(left + 1).min(diagonal + 1);
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshtein() {
        for (a, b, wanted) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("größe", "grösse", 2),
        ] {
            let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
            assert_eq!(edit_distance(&a, &b), wanted);
            assert_eq!(edit_distance(&b, &a), wanted);
        }
    }

    #[test]
    fn the_nearest_is_named_and_strangers_are_not() {
        let keys = ["tool_calls_limit", "turns_limit", "tools"];
        assert_eq!(find_nearest("tool_call_limit", keys), Some("tool_calls_limit"));
        assert_eq!(find_nearest("Tools", keys), Some("tools"));
        assert_eq!(find_nearest("colour", keys), None);
        let keys = ["poll_limit", "cost_limit_usd"];
        assert_eq!(find_nearest("cost_limit", keys), Some("cost_limit_usd"));
    }
}
