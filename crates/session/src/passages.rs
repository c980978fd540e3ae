//! Passages: runs of words by which a text is known again after a client has written it anew:
//! wrapped, joined, quoted, escaped, or with line numbers.
//!
//! A run begins at every word, and some runs are chosen by their digests alone. A text that stands
//! within another one therefore has passages that the other has, too, wherever it stands there.
//! The method is called winnowing (Schleimer, Wilkerson and Aiken, SIGMOD 2003).

use softland_core::Digest;

/// Letters and digits of one run. With spaces and punctuation these are some 150 characters, so
/// that a text of 200 has a passage.
const RUN: u32 = 120;
/// Of so many consecutive runs, one is chosen.
const CHOICE: usize = 4;
/// Letters and digits of a head. With spaces these are some 50 characters.
const HEAD: u32 = 40;
/// The most words of one text that are read.
const WORDS: usize = 1 << 15;
/// Letters and digits of the shortest text that is noted as a whole.
const SHORTEST: u32 = 24;
/// The longest number that may count lines or points of a list.
const NUMBER: u32 = 5;

/// Returns the passages of a text.
#[must_use]
pub(crate) fn find_passages(text: &str) -> Vec<Digest> {
    let runs = find_runs(&read_words(text, u32::MAX));
    let mut passages: Vec<Digest> = Vec::new();
    let mut newest = None;
    for (start, choice) in runs.windows(CHOICE.min(runs.len()).max(1)).enumerate() {
        // The last of equal runs, so that one of them is chosen once.
        let least = choice.iter().enumerate().rev().min_by_key(|(_, run)| **run);
        let Some((at, run)) = least.map(|(at, run)| (start + at, run)) else { continue };
        if newest != Some(at) {
            newest = Some(at);
            passages.push(run_digest(*run));
        }
    }
    passages
}

/// Returns the digests of all runs of a text, among them its passages and those of any text that
/// shares a part with it.
#[must_use]
pub(crate) fn every_passage(text: &str) -> Vec<Digest> {
    find_runs(&read_words(text, u32::MAX)).into_iter().map(run_digest).collect()
}

/// Returns the digest of the head of a text, if the text is long enough to have one.
#[must_use]
pub(crate) fn head_digest(text: &str) -> Option<Digest> {
    read_head(&read_words(text, HEAD))
}

/// Returns the heads of all texts that may stand within a text: behind a line's end or a sign such
/// as a colon or a quotation mark.
#[must_use]
pub(crate) fn find_heads(text: &str) -> Vec<Digest> {
    let words = read_words(text, u32::MAX);
    let begins = |(at, word): (usize, &Word)| word.begins.then(|| words.get(at..)).flatten();
    words.iter().enumerate().filter_map(begins).filter_map(read_head).collect()
}

/// Returns the digest of the first words that have the letters of a head.
fn read_head(words: &[Word]) -> Option<Digest> {
    let (mut sum, mut letters) = (0_u64, 0);
    for word in words {
        (sum, letters) = (mix(sum).wrapping_add(word.sum), letters + word.letters);
        if letters >= HEAD {
            return Some(
                Digest::from_bytes(&sum.to_le_bytes()).followed_by(Digest::from_bytes(b"head")),
            );
        }
    }
    None
}

fn run_digest(run: u64) -> Digest {
    Digest::from_bytes(&run.to_le_bytes())
}

/// Returns the digest of a text as a whole, if it is too short for passages and long enough to tell
/// something.
#[must_use]
pub(crate) fn short_digest(text: &str) -> Option<Digest> {
    const LONGEST: u32 = RUN + RUN / 4;
    let words = read_words(text, LONGEST);
    let letters: u32 = words.iter().map(|word| word.letters).sum();
    (SHORTEST..LONGEST).contains(&letters).then(|| {
        let whole = words.iter().map(|word| Digest::from_bytes(&word.sum.to_le_bytes()));
        whole.fold(Digest::from_bytes(b"whole"), Digest::followed_by)
    })
}

/// A word: letters and digits that stand together.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    sum: u64,
    letters: u32,
    /// True if another text may begin with the word, by what stands before it.
    begins: bool,
}

impl Word {
    fn add_letter(&mut self, letter: char) {
        self.sum = (self.sum.rotate_left(5) ^ u64::from(letter)).wrapping_mul(BASE);
        self.letters += 1;
    }
}

/// A run's value is a polynomial in this number, so that the value of a run follows from that of
/// the run before it.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the value of the run that begins at each word, as long as the text goes on.
fn find_runs(words: &[Word]) -> Vec<u64> {
    let mut runs = Vec::new();
    let (mut sum, mut letters, mut end) = (0_u64, 0, 0);
    // The power of the base by which the first word of the run was multiplied.
    let mut power = 1_u64;
    for word in words {
        while letters < RUN {
            let Some(next) = words.get(end) else { return runs };
            sum = sum.wrapping_mul(BASE).wrapping_add(next.sum);
            (letters, end) = (letters + next.letters, end + 1);
            power = power.wrapping_mul(if letters > next.letters { BASE } else { 1 });
        }
        runs.push(mix(sum));
        sum = sum.wrapping_sub(word.sum.wrapping_mul(power));
        letters -= word.letters;
        power = if letters == 0 { 1 } else { power.wrapping_mul(BASE_INVERSE) };
    }
    runs
}

/// The number whose product with the base is one.
const BASE_INVERSE: u64 = invert(BASE);

/// Returns the inverse of an odd number by Newton's method, which doubles the right bits each time.
const fn invert(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// Returns a value whose order says nothing about the text.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 32)
}

/// Returns the first words of a text: as many as it takes to have so many letters. Escapes of JSON
/// and XML stand for the character that they mean, or for none; a number that counts lines or points
/// of a list is left out.
fn read_words(text: &str, most: u32) -> Vec<Word> {
    let mut words = Vec::with_capacity((text.len().min(most as usize) / 5).min(WORDS));
    let mut letters = 0;
    let mut word = Word::default();
    let mut is_number = true;
    let mut begins = true;
    let mut chars = Chars { text };
    while words.len() < WORDS && letters < most {
        for letter in chars.take_ascii_letters() {
            is_number &= letter.is_ascii_digit();
            word.add_letter(letter.to_ascii_lowercase().into());
        }
        let next = chars.next_char();
        if let Some(letter) = next.filter(|next| next.is_alphanumeric()) {
            is_number &= letter.is_ascii_digit();
            word.add_letter(letter.to_ascii_lowercase());
            continue;
        }
        let counts = |end: char| matches!(end, '.' | ')' | ']' | ':' | '|' | '→' | '\t');
        if word.letters > 0 && !(is_number && word.letters <= NUMBER && next.is_some_and(counts)) {
            words.push(Word { sum: mix(word.sum), begins, ..word });
            letters += word.letters;
            begins = false;
        }
        (word, is_number) = (Word::default(), true);
        begins |= next.is_some_and(|next| !matches!(next, ' ' | ',' | '-' | '\''));
        if next.is_none() {
            break;
        }
    }
    words
}

/// The characters of a text, without the escapes of JSON and XML.
struct Chars<'t> {
    text: &'t str,
}

impl<'t> Chars<'t> {
    /// Takes the letters and digits of ASCII that come next: most of a text consists of them.
    fn take_ascii_letters(&mut self) -> impl Iterator<Item = u8> + use<'t> {
        let count = self.text.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let (letters, rest) = self.text.split_at(count);
        self.text = rest;
        letters.bytes()
    }

    fn next_char(&mut self) -> Option<char> {
        let next = self.text.chars().next()?;
        self.text = self.text.get(next.len_utf8()..).unwrap_or_default();
        Some(match next {
            '\\' => self.read_escape(),
            '&' => self.read_entity(),
            next => next,
        })
    }

    /// Reads what stands behind a backslash. Text that was escaped twice has several.
    fn read_escape(&mut self) -> char {
        self.text = self.text.trim_start_matches('\\');
        let Some(kind) = self.text.chars().next() else { return ' ' };
        let digits = self.text.get(1..5).filter(|_| kind == 'u');
        if let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            self.text = self.text.get(5..).unwrap_or_default();
            return char::from_u32(code).unwrap_or(' ');
        }
        if !matches!(kind, 'n' | 'r' | 't' | '"' | '/') {
            return ' ';
        }
        self.text = self.text.get(1..).unwrap_or_default();
        match kind {
            'n' | 'r' => '\n',
            't' => '\t',
            other => other,
        }
    }

    /// Reads what stands behind an ampersand: nothing, or the rest of an entity.
    fn read_entity(&mut self) -> char {
        const LONGEST: usize = 8;
        let end = self.text.bytes().take(LONGEST).position(|byte| byte == b';');
        let named = end.and_then(|end| Some((self.text.get(..end)?, self.text.get(end + 1..)?)));
        let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'#');
        if let Some((_, rest)) = named.filter(|(name, _)| !name.is_empty() && is_name(name)) {
            self.text = rest;
        }
        ' '
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "The parser was read, its tests were run, and two of them fail for want of a \
                        table that \"somebody\" has taken out of the build.\n- What is left: the \
                        release, for which <three> people wait & which is due on Friday, the 3rd.\n\
                        1. Next comes the café's page, at C:\\new\\tables, with its 17 rows.";

    fn holds(text: &str) -> bool {
        let known = find_passages(TEXT);
        assert!(!known.is_empty());
        find_passages(text).iter().any(|passage| known.contains(passage))
    }

    #[test]
    fn a_text_is_known_however_it_is_written() {
        let numbered = |mark: &str| {
            let lines = TEXT.lines().enumerate();
            lines.map(|(n, line)| format!("{:>6}{mark}{line}\n", n + 1)).collect::<String>()
        };
        let words: Vec<&str> = TEXT.split_whitespace().collect();
        let xml = TEXT.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let json = serde_json::to_string(TEXT).unwrap_or_default();
        for (what, text) in [
            ("as it was", TEXT.to_owned()),
            ("within another", format!("Here is it:\n<summary>{TEXT}</summary>\nGo on.")),
            ("joined", words.join(" ")),
            ("wrapped", words.chunks(5).map(|line| line.join(" ") + "\n").collect()),
            ("quoted", TEXT.lines().map(|line| format!("> {line}\n")).collect()),
            ("in a list", TEXT.lines().map(|line| format!("  * {line}\n")).collect()),
            ("numbered", numbered("\t")),
            ("numbered with arrows", numbered("→")),
            (
                "in brackets",
                words.chunks(5).map(|line| format!("[3] {} ", line.join(" "))).collect(),
            ),
            ("in capitals", TEXT.to_uppercase()),
            ("in XML", xml),
            ("in JSON", json.clone()),
            ("in JSON in JSON", serde_json::to_string(&json).unwrap_or_default()),
            ("in ASCII", json.replace('é', "\\u00e9")),
        ] {
            assert!(holds(&text), "{what}: {text}");
        }
        let mut other: Vec<&str> = TEXT.split(' ').collect();
        other.reverse();
        assert!(!holds(&other.join(" ")), "in another order");
        assert!(!holds(&TEXT[..120]), "too little of it");
    }

    #[test]
    fn any_two_hundred_characters_have_a_passage() {
        for start in (0..TEXT.len() - 205).filter(|at| TEXT[..*at].ends_with(' ')) {
            let part = &TEXT[start..start + 205];
            assert!(holds(&format!("Of {part} so")), "{part}");
        }
    }

    #[test]
    fn a_short_text_is_known_as_a_whole() {
        let short = short_digest("Stopped at the limit of $0.50; three notes were read.");
        assert!(short.is_some());
        assert_eq!(
            short,
            short_digest("> Stopped at the limit\n> of $0.50; three notes were read.")
        );
        assert_ne!(short, short_digest("Stopped at the limit of $0.60; three notes were read."));
        assert_eq!(short_digest("Done."), None);
        assert_eq!(short_digest(&TEXT.repeat(2)), None);
    }

    #[test]
    fn a_piece_is_known_by_its_head_where_a_text_may_begin() {
        let piece = &TEXT[..60];
        let head = head_digest(TEXT);
        assert!(head.is_some());
        for text in [
            piece.to_owned(),
            format!("TOOL RESULT: {piece}..."),
            format!("So far.\n{piece}"),
            format!("<result id=\"3\">{piece}"),
            format!("[tool] {piece}"),
            format!("7. {piece}"),
            serde_json::json!([{"content": piece}]).to_string(),
            serde_json::json!(format!("A line\n{piece}")).to_string(),
        ] {
            assert!(find_heads(&text).iter().any(|found| Some(*found) == head), "{text}");
        }
        for text in [&TEXT[..40], &TEXT[4..], &TEXT.replace("parser", "lexer")] {
            assert!(!find_heads(text).iter().any(|found| Some(*found) == head), "{text}");
        }
        assert_eq!(head_digest("Twelve tests have passed."), None);
    }

    #[test]
    fn what_is_read_is_bounded() {
        for text in ["a line of some text\n".repeat(100_000), "x".repeat(1 << 20), "\\".repeat(99)]
        {
            assert!(read_words(&text, u32::MAX).len() <= WORDS);
            assert!(find_passages(&text).len() <= WORDS);
        }
    }

    proptest! {
        #[test]
        fn a_run_is_the_same_wherever_it_stands(
            before in "[a-z]{1,9}( [a-z]{1,9}){0,40}",
            text in "[a-z]{5,9}( [a-z]{5,9}){45,80}",
            behind in "[a-z]{1,9}( [a-z]{1,9}){0,40}",
        ) {
            let whole = find_passages(&format!("{before} {text} {behind}"));
            for passage in find_passages(&text) {
                prop_assert!(whole.contains(&passage));
            }
        }
    }
}
