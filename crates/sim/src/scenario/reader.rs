//! A scripted model that is actually useful: it searches the folder with its tools and answers from
//! the lines it found, with file and line. It keeps no memory: its earlier calls are in the
//! request.

mod evidence;
mod words;

use super::Parameter;
use super::view::RequestView;
use crate::history::Tool;
use crate::json::Json;
use crate::turn::{Part, Turn};
use evidence::Evidence;
use words::SearchWords;

/// The number of calls after which it answers.
const ENOUGH: usize = 9;
/// The maximum number of files to read.
const FILES: usize = 4;

/// Searches, reads around the hits, and answers.
pub(super) fn play_reader(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    let plan = ReadingPlan::new(view);
    let calls = if view.must_answer() || view.warned { Vec::new() } else { plan.next_calls() };
    if calls.is_empty() {
        return view.answer_with(plan.write_answer());
    }
    let mut parts: Vec<Part> = calls;
    if view.rounds.is_empty() {
        parts.insert(0, Part::text(format!("I will search the folder for {}.", plan.words)));
    }
    Turn::from_parts(parts)
}

/// Acts like [`play_reader`], with thinking before the calls and before the answer.
pub(super) fn play_thinker(view: &RequestView<'_>, _: Option<Parameter>) -> Turn {
    let turn = play_reader(view, None);
    let mut parts = Vec::new();
    for (i, part) in turn.parts.into_iter().enumerate() {
        let thought = match &part {
            Part::Tool { name, .. } => {
                Some(format!("Step {}: {name} comes next.", view.calls().count() + i))
            }
            _ if i == 0 => Some("What does the question need?".to_owned()),
            _ => None,
        };
        parts.extend(thought.map(Part::Thinking));
        parts.push(part);
    }
    Turn::from_parts(parts)
}

struct ReadingPlan<'v, 'a> {
    view: &'v RequestView<'a>,
    words: SearchWords,
    evidence: Evidence,
    list: Option<&'v Tool<'a>>,
    grep: Option<&'v Tool<'a>>,
    glob: Option<&'v Tool<'a>>,
    read: Option<&'v Tool<'a>>,
}

impl<'v, 'a> ReadingPlan<'v, 'a> {
    fn new(view: &'v RequestView<'a>) -> Self {
        let words = SearchWords::from_question(&view.question);
        let mut plan = Self {
            list: view.tool_like(&["listdir", "listfiles", "list", "ls"]),
            grep: view.tool_like(&["grep", "searchfiles", "search"]),
            glob: view.tool_like(&["glob", "findfiles"]),
            read: view.tool_like(&["readfile", "read", "openfile", "viewfile", "view", "cat"]),
            evidence: Evidence::default(),
            view,
            words,
        };
        for call in view.calls().filter(|c| !c.failed) {
            let is = |tool: Option<&Tool<'_>>| tool.is_some_and(|t| t.name == call.name);
            if is(plan.read) {
                let path = plan.input_path(plan.read, call.input);
                let first = call.input.get("offset").and_then(Json::as_u64).unwrap_or(1);
                plan.evidence.add_file(&path, first.max(1), &call.result, &plan.words);
            } else if is(plan.grep) {
                plan.evidence.add_hits(&call.result, &plan.words);
            } else if is(plan.list) || is(plan.glob) {
                plan.evidence.add_entries(&plan.input_path(plan.list, call.input), &call.result);
            }
        }
        plan
    }

    /// Returns the calls of the next turn; none when it is time to answer.
    fn next_calls(&self) -> Vec<Part> {
        let made = self.view.calls().count();
        let most = if self.view.parallel { 2 } else { 1 };
        let room = ENOUGH.saturating_sub(made).min(most);
        let mut calls = self.candidate_calls();
        calls.retain(|part| !self.was_made(part));
        calls.dedup();
        calls.truncate(room);
        calls
    }

    /// Returns the possible calls, the most useful first.
    fn candidate_calls(&self) -> Vec<Part> {
        if self.view.rounds.is_empty() {
            return [self.list_call("."), self.search_call(&self.words.joined_pattern())]
                .into_iter()
                .flatten()
                .collect();
        }
        if self.evidence.has_hits() { self.read_on() } else { self.search_on() }
    }

    /// With hits: reads around the best ones, lists the best file's folder, searches once more.
    fn read_on(&self) -> Vec<Part> {
        let files = self.evidence.best_files();
        let unread = files.iter().take(FILES).filter(|(path, _)| !self.evidence.was_read(path));
        let mut calls: Vec<Part> =
            unread.filter_map(|(path, line)| self.read_call(path, *line)).collect();
        if let Some((folder, _)) = files.first().and_then(|(path, _)| path.rsplit_once('/')) {
            let at = calls.len().min(1);
            if let Some(list) = self.list_call(folder) {
                calls.insert(at, list);
            }
        }
        if self.evidence.files_read() > 0 {
            calls.extend(self.words.rarest_word(&self.evidence).and_then(|w| self.search_call(&w)));
        }
        calls
    }

    /// Without hits: tries other words, other folders, then any files.
    fn search_on(&self) -> Vec<Part> {
        let singles = self.words.single_words().filter_map(|word| self.search_call(&word));
        let mut calls: Vec<Part> = singles.take(3).collect();
        calls.extend(self.glob.map(|tool| {
            let key = tool.find_property(&["pattern", "glob", "query"]).unwrap_or("pattern");
            Part::tool_call(tool.name, object_text(&[(key, "**/*".into())]))
        }));
        calls.extend(self.evidence.folders().take(2).filter_map(|f| self.list_call(f)));
        calls.extend(
            self.evidence
                .text_files(&self.words)
                .iter()
                .take(3)
                .filter_map(|f| self.read_call(f, 1)),
        );
        calls
    }

    fn was_made(&self, part: &Part) -> bool {
        let Part::Tool { name, input, .. } = part else { return false };
        let wanted = Json::parse(input.as_bytes()).map(|json| sorted_entries(&json));
        self.view.calls().any(|c| c.name == name && wanted.as_ref() == Ok(&sorted_entries(c.input)))
    }

    fn list_call(&self, path: &str) -> Option<Part> {
        let tool = self.list?;
        let key = tool.find_property(&["path", "dir", "folder"]);
        let input =
            key.map(|key| object_text(&[(key, path.into())])).unwrap_or_else(|| "{}".to_owned());
        Some(Part::tool_call(tool.name, input))
    }

    fn search_call(&self, words: &str) -> Option<Part> {
        let tool = self.grep?;
        let key = tool.find_property(&["pattern", "regex", "query", "text"])?;
        let regex = key.contains("pattern") || key.contains("regex");
        let sought = if regex { format!("(?i){words}") } else { words.to_owned() };
        Some(Part::tool_call(tool.name, object_text(&[(key, sought.into())])))
    }

    fn read_call(&self, path: &str, line: u64) -> Option<Part> {
        let tool = self.read?;
        let key = tool.find_property(&["path", "file"])?;
        let mut entries = vec![(key, path.into())];
        if tool.has_property("offset") && tool.has_property("limit") {
            entries.push(("offset", line.saturating_sub(8).max(1).into()));
            entries.push(("limit", 40_u64.into()));
        }
        Some(Part::tool_call(tool.name, object_text(&entries)))
    }

    fn input_path(&self, tool: Option<&Tool<'_>>, input: &Json) -> String {
        let key = tool.and_then(|t| t.find_property(&["path", "file", "dir", "folder"]));
        let path = key.and_then(|key| input.str_at(key)).unwrap_or(".");
        path.trim_start_matches("./").to_owned()
    }

    fn write_answer(&self) -> String {
        let mut text = self.evidence.write_report(&self.words);
        let searches = self.view.calls().count() - self.evidence.files_read();
        let (files, plural) =
            (self.evidence.files_read(), if self.evidence.files_read() == 1 { "" } else { "s" });
        text.push_str(&format!(
            "\n\nI read {files} file{plural} and made {searches} other call{}.",
            if searches == 1 { "" } else { "s" }
        ));
        if self.view.told {
            text.push_str(" I was told to answer before I had looked everywhere.");
        }
        text
    }
}

/// Returns the arguments in a fixed order: clients do not keep that of the call.
fn sorted_entries(input: &Json) -> Vec<(String, Json)> {
    let mut entries = input.entries().to_vec();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries
}

fn object_text(entries: &[(&str, Json)]) -> String {
    Json::Map(entries.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()).to_text()
}
