//! The search words of a question. The only dictionary is a list of very common English words.

use super::evidence::Evidence;
use std::fmt;

/// Words that do not tell what is searched for.
const COMMON: &[&str] = &[
    "about",
    "across",
    "all",
    "and",
    "any",
    "are",
    "ask",
    "been",
    "but",
    "can",
    "could",
    "did",
    "does",
    "each",
    "every",
    "file",
    "files",
    "find",
    "folder",
    "for",
    "from",
    "get",
    "give",
    "had",
    "has",
    "have",
    "help",
    "how",
    "into",
    "its",
    "know",
    "let",
    "list",
    "look",
    "made",
    "make",
    "many",
    "may",
    "mention",
    "mentioned",
    "more",
    "most",
    "much",
    "need",
    "not",
    "note",
    "notes",
    "now",
    "our",
    "out",
    "over",
    "please",
    "read",
    "said",
    "say",
    "says",
    "search",
    "see",
    "should",
    "show",
    "some",
    "summarise",
    "summarize",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "things",
    "this",
    "those",
    "through",
    "use",
    "used",
    "using",
    "was",
    "were",
    "what",
    "when",
    "where",
    "which",
    "who",
    "why",
    "will",
    "with",
    "would",
    "write",
    "wrote",
    "written",
    "you",
    "your",
];

/// The maximum number of words to search for at once.
const MOST: usize = 6;

/// The search words of a question, reduced to their stems.
#[derive(Clone, Debug, Default)]
pub(super) struct SearchWords(Vec<String>);

impl SearchWords {
    pub(super) fn from_question(question: &str) -> Self {
        let mut words: Vec<String> = Vec::new();
        for word in question.split(|c: char| !c.is_alphanumeric()) {
            let word = word.to_lowercase();
            if word.chars().count() < 3 || COMMON.contains(&word.as_str()) {
                continue;
            }
            let stem = stem_word(&word);
            if !words.contains(&stem) {
                words.push(stem);
            }
        }
        words.truncate(MOST);
        Self(words)
    }

    /// Returns one pattern for all words; without words, a pattern for anything.
    pub(super) fn joined_pattern(&self) -> String {
        if self.0.is_empty() { "\\w".to_owned() } else { self.0.join("|") }
    }

    /// Returns each word alone, the longest first.
    pub(super) fn single_words(&self) -> impl Iterator<Item = String> {
        let mut words = self.0.clone();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.into_iter()
    }

    /// Returns the word with the fewest hits so far, if there is more than one.
    pub(super) fn rarest_word(&self, evidence: &Evidence) -> Option<String> {
        if self.0.len() < 2 {
            return None;
        }
        self.0.iter().min_by_key(|word| evidence.count_lines(word)).cloned()
    }

    /// Counts the words that a text holds.
    pub(super) fn count_matches(&self, text: &str) -> usize {
        let text = text.to_lowercase();
        self.0.iter().filter(|word| text.contains(word.as_str())).count()
    }
}

impl fmt::Display for SearchWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("anything of use");
        }
        for (i, word) in self.0.iter().enumerate() {
            let before = match i {
                0 => "",
                _ if i + 1 == self.0.len() => " and ",
                _ => ", ",
            };
            write!(f, "{before}“{word}”")?;
        }
        Ok(())
    }
}

fn stem_word(word: &str) -> String {
    for ending in ["ings", "ing", "ies", "ed", "es", "s"] {
        if let Some(stem) = word.strip_suffix(ending)
            && stem.chars().count() >= 4
        {
            return stem.to_owned();
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_gives_its_telling_words() {
        for (question, all) in [
            ("What do my notes say about deploying and rollbacks?", "deploy|rollback"),
            ("Where is the Zürich offsite mentioned?", "zürich|offsite"),
            ("what is this", "\\w"),
        ] {
            assert_eq!(SearchWords::from_question(question).joined_pattern(), all, "{question}");
        }
    }
}
