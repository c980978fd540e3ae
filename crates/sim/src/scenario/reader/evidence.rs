//! The evidence in tool results: lines with file and number, files read, entries listed. It reads
//! the usual forms (`file:12:text`, numbered lines, plain lines) and does not guess at others.

use super::words::SearchWords;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of quoted lines in a report.
const QUOTES: usize = 6;
/// The maximum number of quoted characters of a line.
const QUOTE: usize = 220;

/// The evidence found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    lines: BTreeMap<(String, u64), EvidenceLine>,
    read: BTreeSet<String>,
    entries: Vec<String>,
}

#[derive(Clone, Debug)]
struct EvidenceLine {
    text: String,
    score: usize,
}

impl Evidence {
    /// Adds the result of a search.
    pub(super) fn add_hits(&mut self, result: &str, words: &SearchWords) {
        let mut heading: Option<String> = None;
        for line in result.lines() {
            if let Some((path, number, text)) = parse_hit(line) {
                self.add_line(path, number, text, words.count_matches(text));
            } else if let (Some(path), Some((number, text))) = (&heading, parse_numbered(line)) {
                let path = path.clone();
                self.add_line(&path, number, text, words.count_matches(text));
            } else if is_path(line) {
                heading = Some(line.trim().trim_end_matches(':').to_owned());
            }
        }
    }

    /// Adds the text of a file, from line `first` on.
    pub(super) fn add_file(&mut self, path: &str, first: u64, result: &str, words: &SearchWords) {
        self.read.insert(path.to_owned());
        let lines: Vec<&str> = result.lines().collect();
        let with_numbers =
            lines.iter().filter(|l| parse_numbered(l).is_some()).count() * 2 > lines.len();
        let mut carried = 0;
        for (i, line) in lines.iter().enumerate() {
            let (number, text) = match parse_numbered(line).filter(|_| with_numbers) {
                Some(found) => found,
                None => (first + i as u64, *line),
            };
            let is_heading = text.trim_start().starts_with('#');
            let score = words.count_matches(text);
            if is_heading {
                // A heading's subject is treated in the lines below it.
                carried = score;
            } else if !text.trim().is_empty() {
                self.add_line(path, number, text, score.max(carried));
                carried = 0;
            }
        }
    }

    /// Adds a listing of `folder`.
    pub(super) fn add_entries(&mut self, folder: &str, result: &str) {
        for line in result.lines() {
            // `name/`, `name`, `name (12 bytes)`, and notes in brackets.
            let name = line.split(['\t', '(']).next().unwrap_or("").trim().trim_start_matches("- ");
            if name.is_empty() || name.starts_with('[') || self.entries.len() > 500 {
                continue;
            }
            let path = if folder == "." || name.contains('/') && !name.ends_with('/') {
                name.to_owned()
            } else {
                format!("{}/{name}", folder.trim_end_matches('/'))
            };
            self.entries.push(path);
        }
    }

    pub(super) fn has_hits(&self) -> bool {
        self.lines.values().any(|line| line.score > 0)
    }

    pub(super) fn was_read(&self, path: &str) -> bool {
        self.read.contains(path.trim_start_matches("./"))
    }

    pub(super) fn files_read(&self) -> usize {
        self.read.len()
    }

    /// Counts the lines that contain a word.
    pub(super) fn count_lines(&self, word: &str) -> usize {
        self.lines.values().filter(|l| l.text.to_lowercase().contains(word)).count()
    }

    /// Returns the files with hits, best first, each with the line of its best hit.
    pub(super) fn best_files(&self) -> Vec<(String, u64)> {
        let mut files: BTreeMap<&str, (usize, usize, u64)> = BTreeMap::new();
        for ((path, number), line) in self.lines.iter().filter(|(_, l)| l.score > 0) {
            let (best, sum, at) = files.entry(path).or_insert((0, 0, *number));
            *sum += line.score;
            if line.score > *best {
                (*best, *at) = (line.score, *number);
            }
        }
        let mut files: Vec<_> = files.into_iter().collect();
        files.sort_by_key(|(_, (best, sum, _))| std::cmp::Reverse((*best, *sum)));
        files.into_iter().map(|(path, (_, _, at))| (path.to_owned(), at)).collect()
    }

    /// Returns the listed folders.
    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|e| e.strip_suffix('/'))
    }

    /// Returns the listed files that look like text, best matching names first.
    pub(super) fn text_files(&self, words: &SearchWords) -> Vec<&str> {
        const TEXT: [&str; 5] = [".md", ".txt", ".org", ".rst", ".toml"];
        let mut files: Vec<&str> = self
            .entries
            .iter()
            .map(String::as_str)
            .filter(|e| TEXT.iter().any(|ending| e.ends_with(ending)))
            .collect();
        files.sort_by_key(|e| std::cmp::Reverse(words.count_matches(e)));
        files
    }

    /// Writes the answer: the best lines with file and number, or that there are none.
    pub(super) fn write_report(&self, words: &SearchWords) -> String {
        let mut lines: Vec<_> = self.lines.iter().filter(|(_, l)| l.score > 0).collect();
        lines.sort_by_key(|(_, l)| {
            std::cmp::Reverse((l.score, !l.text.trim_start().starts_with('#')))
        });
        // A heading says little compared with the lines below it.
        let is_heading = |line: &EvidenceLine| line.text.trim_start().starts_with('#');
        if lines.iter().filter(|(_, l)| !is_heading(l)).count() >= 2 {
            lines.retain(|(_, l)| !is_heading(l));
        }
        let total = lines.len();
        lines.truncate(QUOTES);
        if lines.is_empty() {
            return self.report_nothing(words);
        }
        let mut text = format!("This is what the folder says about {words}:\n");
        for ((path, number), line) in &lines {
            text.push_str(&format!("\n- {path}:{number}: “{}”", quote_line(&line.text)));
        }
        let files = self.best_files();
        if let Some((first, _)) = files.first() {
            let more = files.len() - 1;
            text.push_str(&format!("\n\nThe most telling file is {first}"));
            match more {
                0 => text.push('.'),
                1 => text.push_str("; one other file mentions it."),
                _ => text.push_str(&format!("; {more} other files mention it.")),
            }
        }
        if total > QUOTES {
            text.push_str(&format!(" I left out {} weaker lines.", total - QUOTES));
        }
        text
    }

    fn report_nothing(&self, words: &SearchWords) -> String {
        let mut text = format!("I found no line about {words} in this folder.");
        if !self.entries.is_empty() {
            let some: Vec<&str> = self.entries.iter().take(8).map(String::as_str).collect();
            text.push_str(&format!(" It holds {}", some.join(", ")));
            text.push_str(if self.entries.len() > 8 { " and more." } else { "." });
        }
        text
    }

    fn add_line(&mut self, path: &str, number: u64, text: &str, score: usize) {
        let key = (path.trim_start_matches("./").to_owned(), number);
        let line =
            self.lines.entry(key).or_insert_with(|| EvidenceLine { text: text.to_owned(), score });
        line.score = line.score.max(score);
    }
}

/// Parses `path:12:text` and `path:12-text`.
fn parse_hit(line: &str) -> Option<(&str, u64, &str)> {
    for (at, _) in line.match_indices(':') {
        let (path, rest) = (line.get(..at)?, line.get(at + 1..)?);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, text) = (rest.get(..digits)?, rest.get(digits..)?);
        if digits > 0 && !path.is_empty() && text.starts_with([':', '-']) {
            return Some((path, number.parse().ok()?, text.get(1..)?.trim_start()));
        }
    }
    None
}

/// Parses `12: text`, `12<tab>text`, `12|text`, `12→text`.
fn parse_numbered(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = (line.get(..digits)?, line.get(digits..)?);
    let text = rest.strip_prefix([':', '\t', '|', '→', '-'])?;
    Some((number.parse().ok()?, text.strip_prefix(' ').unwrap_or(text)))
}

fn is_path(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.contains(' ') && line.contains(['.', '/'])
}

fn quote_line(text: &str) -> String {
    let text = text.trim().trim_start_matches(['-', '*', '#']).trim();
    if text.chars().count() <= QUOTE {
        return text.to_owned();
    }
    let cut: String = text.chars().take(QUOTE).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_forms_of_hits_are_read() {
        let words = SearchWords::from_question("deploy");
        for (result, path, number) in [
            ("notes/a.md:12:we deploy on Monday", "notes/a.md", 12),
            ("./notes/a.md:12: we deploy", "notes/a.md", 12),
            ("notes/a.md\n  12: we deploy", "notes/a.md", 12),
            ("notes/a.md:\n12\twe deploy", "notes/a.md", 12),
        ] {
            let mut evidence = Evidence::default();
            evidence.add_hits(result, &words);
            assert_eq!(evidence.best_files(), [(path.to_owned(), number)], "{result}");
        }
    }

    #[test]
    fn a_file_read_from_an_offset_keeps_its_line_numbers() {
        let words = SearchWords::from_question("deploy");
        for (result, number) in [
            ("nothing\nwe deploy", 21),
            ("20\tnothing\n21\twe deploy", 21),
            ("# Deploy\n\nby hand", 22),
        ] {
            let mut evidence = Evidence::default();
            evidence.add_file("a.md", 20, result, &words);
            assert_eq!(evidence.best_files(), [("a.md".to_owned(), number)], "{result}");
        }
    }
}
