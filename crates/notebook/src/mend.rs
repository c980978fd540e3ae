//! Texts with a lone surrogate. JSON can write one half of a surrogate pair (`\ud800`), and Python
//! does so where a string has one. Such a text is not valid and would be refused as a whole.

use std::borrow::Cow;

/// The replacement for a lone surrogate, which has the same length.
const INSTEAD: &str = "\\ufffd";

/// Replaces lone surrogates. The JSON keeps its length, so that all positions stay valid.
pub(crate) fn replace_surrogates(json: &str) -> Cow<'_, str> {
    let broken = find_surrogates(json.as_bytes());
    if broken.is_empty() {
        return Cow::Borrowed(json);
    }
    let mut mended = String::with_capacity(json.len());
    let mut from = 0;
    for at in broken {
        mended.push_str(json.get(from..at).unwrap_or_default());
        mended.push_str(INSTEAD);
        from = at + INSTEAD.len();
    }
    mended.push_str(json.get(from..).unwrap_or_default());
    Cow::Owned(mended)
}

/// Returns the positions of escapes that are lone surrogates.
fn find_surrogates(json: &[u8]) -> Vec<usize> {
    let mut broken = Vec::new();
    let mut at = 0;
    while let Some(next) = json.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += next;
        match read_unit(json, at) {
            Some(0xd800..=0xdbff) if matches!(read_unit(json, at + 6), Some(0xdc00..=0xdfff)) => {
                at += 12
            }
            Some(0xd800..=0xdfff) => {
                broken.push(at);
                at += 6;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    broken
}

/// Returns the number in the escape `\uXXXX` that begins at `at`.
fn read_unit(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_replaced_and_nothing_else() {
        for whole in
            [r#""a\\ud800""#, r#""\ud83d\ude00""#, r#""\n\u00e9""#, "é", r"\", r"\u", r"\ud8"]
        {
            assert_eq!(replace_surrogates(whole), whole);
        }
        for (given, wanted) in [
            (r#""a\ud800b""#, r#""a\ufffdb""#),
            (r#""\udc00""#, r#""\ufffd""#),
            (r#""\ud83d\ud83d\ude00é""#, r#""\ufffd\ud83d\ude00é""#),
            (r#""\\\ud800\\""#, r#""\\\ufffd\\""#),
            (r#""\uD800\n""#, r#""\ufffd\n""#),
        ] {
            assert_eq!(replace_surrogates(given), wanted);
            serde_json::from_str::<String>(wanted).unwrap();
        }
    }
}
