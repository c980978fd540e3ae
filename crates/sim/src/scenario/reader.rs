//! A scripted model that is actually useful: it searches the folder with its tools and answers from
//! the lines it found, with file and line. It keeps no memory: its earlier calls are in the
//! request.

mod evidence;
mod words;

use super::Parameter;
use super::view::View;
use crate::history::Tool;
use crate::json::Json;
use crate::turn::{Part, Turn};
use evidence::Evidence;
use words::Words;

/// The number of calls after which it answers.
const ENOUGH: usize = 9;
/// The maximum number of files to read.
const FILES: usize = 4;

/// Searches, reads around the hits, and answers.
pub(super) fn reader(view: &View<'_>, _: Option<Parameter>) -> Turn {
    let plan = Plan::new(view);
    let calls = if view.must_answer() || view.warned { Vec::new() } else { plan.next() };
    if calls.is_empty() {
        return view.answer(plan.answer());
    }
    let mut parts: Vec<Part> = calls;
    if view.rounds.is_empty() {
        parts.insert(0, Part::text(format!("I will search the folder for {}.", plan.words)));
    }
    Turn::of(parts)
}

/// Acts like [`play_reader`], with thinking before the calls and before the answer.
pub(super) fn thinker(view: &View<'_>, _: Option<Parameter>) -> Turn {
    let turn = reader(view, None);
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
    Turn::of(parts)
}

struct Plan<'v, 'a> {
    view: &'v View<'a>,
    words: Words,
    evidence: Evidence,
    list: Option<&'v Tool<'a>>,
    grep: Option<&'v Tool<'a>>,
    glob: Option<&'v Tool<'a>>,
    read: Option<&'v Tool<'a>>,
}

impl<'v, 'a> Plan<'v, 'a> {
    fn new(view: &'v View<'a>) -> Self {
        let words = Words::of(&view.question);
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
                let path = plan.path_of(plan.read, call.input);
                let first = call.input.get("offset").and_then(Json::as_u64).unwrap_or(1);
                plan.evidence.add_file(&path, first.max(1), &call.result, &plan.words);
            } else if is(plan.grep) {
                plan.evidence.add_hits(&call.result, &plan.words);
            } else if is(plan.list) || is(plan.glob) {
                plan.evidence.add_entries(&plan.path_of(plan.list, call.input), &call.result);
            }
        }
        plan
    }

    /// Returns the calls of the next turn; none when it is time to answer.
    fn next(&self) -> Vec<Part> {
        let made = self.view.calls().count();
        let most = if self.view.parallel { 2 } else { 1 };
        let room = ENOUGH.saturating_sub(made).min(most);
        let mut calls = self.candidates();
        calls.retain(|part| !self.made(part));
        calls.dedup();
        calls.truncate(room);
        calls
    }

    /// Returns the possible calls, the most useful first.
    fn candidates(&self) -> Vec<Part> {
        if self.view.rounds.is_empty() {
            return [self.list_of("."), self.search(&self.words.all())]
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
            unread.filter_map(|(path, line)| self.read_of(path, *line)).collect();
        if let Some((folder, _)) = files.first().and_then(|(path, _)| path.rsplit_once('/')) {
            let at = calls.len().min(1);
            if let Some(list) = self.list_of(folder) {
                calls.insert(at, list);
            }
        }
        if self.evidence.files_read() > 0 {
            calls.extend(self.words.rarest(&self.evidence).and_then(|w| self.search(&w)));
        }
        calls
    }

    /// Without hits: tries other words, other folders, then any files.
    fn search_on(&self) -> Vec<Part> {
        let singles = self.words.singles().filter_map(|word| self.search(&word));
        let mut calls: Vec<Part> = singles.take(3).collect();
        calls.extend(self.glob.map(|tool| {
            let key = tool.property(&["pattern", "glob", "query"]).unwrap_or("pattern");
            Part::tool(tool.name, object(&[(key, "**/*".into())]))
        }));
        calls.extend(self.evidence.folders().take(2).filter_map(|f| self.list_of(f)));
        calls.extend(
            self.evidence.texts(&self.words).iter().take(3).filter_map(|f| self.read_of(f, 1)),
        );
        calls
    }

    fn made(&self, part: &Part) -> bool {
        let Part::Tool { name, input, .. } = part else { return false };
        let wanted = Json::parse(input.as_bytes()).map(|json| sorted(&json));
        self.view.calls().any(|c| c.name == name && wanted.as_ref() == Ok(&sorted(c.input)))
    }

    fn list_of(&self, path: &str) -> Option<Part> {
        let tool = self.list?;
        let key = tool.property(&["path", "dir", "folder"]);
        let input = key.map(|key| object(&[(key, path.into())])).unwrap_or_else(|| "{}".to_owned());
        Some(Part::tool(tool.name, input))
    }

    fn search(&self, words: &str) -> Option<Part> {
        let tool = self.grep?;
        let key = tool.property(&["pattern", "regex", "query", "text"])?;
        let regex = key.contains("pattern") || key.contains("regex");
        let sought = if regex { format!("(?i){words}") } else { words.to_owned() };
        Some(Part::tool(tool.name, object(&[(key, sought.into())])))
    }

    fn read_of(&self, path: &str, line: u64) -> Option<Part> {
        let tool = self.read?;
        let key = tool.property(&["path", "file"])?;
        let mut entries = vec![(key, path.into())];
        if tool.has("offset") && tool.has("limit") {
            entries.push(("offset", line.saturating_sub(8).max(1).into()));
            entries.push(("limit", 40_u64.into()));
        }
        Some(Part::tool(tool.name, object(&entries)))
    }

    fn path_of(&self, tool: Option<&Tool<'_>>, input: &Json) -> String {
        let key = tool.and_then(|t| t.property(&["path", "file", "dir", "folder"]));
        let path = key.and_then(|key| input.str_at(key)).unwrap_or(".");
        path.trim_start_matches("./").to_owned()
    }

    fn answer(&self) -> String {
        let mut text = self.evidence.report(&self.words);
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
fn sorted(input: &Json) -> Vec<(String, Json)> {
    let mut entries = input.entries().to_vec();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries
}

fn object(entries: &[(&str, Json)]) -> String {
    Json::Map(entries.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()).text()
}
