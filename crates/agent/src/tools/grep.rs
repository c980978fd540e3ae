//! `grep`: finds lines that match a regular expression.

use std::io::{self, Read};
use std::path::Path;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::root::{MAX_FILE_BYTES, Root, display_path, shorten_path};
use super::walk::{find_candidates, glob_matcher};
use crate::tool::{ToolDef, cut_line};

const MAX_MATCHES: usize = 250;
/// Together with [`MAX_MATCHES`], keeps the output below a tool's cap.
const MAX_BYTES: usize = 60 * 1024;
/// The characters of a matching line that are shown.
const LINE_CHARS: usize = 500;
/// Bounds memory and time of a compiled pattern. ripgrep's own bound is ten times this.
const REGEX_BYTES: usize = 10 * 1024 * 1024;

#[derive(Deserialize)]
pub(super) struct GrepArgs {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
}

pub(super) fn def() -> ToolDef {
    ToolDef {
        name: "grep".to_owned(),
        description: format!(
            "Searches files for a regular expression (Rust syntax; (?i) ignores case), line by \
             line. Returns path:line:text, sorted by path and line, at most {MAX_MATCHES} \
             matches. Skips binary files, hidden files and what .gitignore and .ignore files \
             name, in git repositories and elsewhere; links are not followed."
        ),
        input_schema: json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression"},
                "path": {"type": "string", "description": "File or folder to search; default: the root folder"},
                "glob": {"type": "string", "description": "Only files whose path matches, such as *.md"}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }),
        reads: true,
        repeatable: true,
    }
}

pub(super) fn run(
    root: &Root,
    args: GrepArgs,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let matcher = build_matcher(&args.pattern)?;
    let glob: Option<GlobMatcher> = args.glob.as_deref().map(glob_matcher).transpose()?;
    let given = args.path.as_deref().unwrap_or(".");
    let found = find_candidates(root, given, glob.as_ref(), cancel)?;
    if let [only] = found.paths.as_slice()
        && root.relative_path(given) == *only
    {
        // A file that was named itself: the reason why it cannot be read is the answer.
        root.read_file(given)?;
    }
    let mut search =
        Search { matcher, searcher: build_searcher(), hits: Hits::default(), skipped: 0 };
    for path in &found.paths {
        if cancel.is_cancelled() {
            return Err("grep: cancelled".to_owned());
        }
        search.search_file(root, path);
        if search.hits.full {
            break;
        }
    }
    Ok(search.render_matches(found.cut))
}

fn build_matcher(pattern: &str) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .line_terminator(Some(b'\n'))
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .build(pattern)
        .map_err(|error| {
            format!(
                "the pattern `{}` is not a valid regular expression: {error}",
                shorten_path(pattern)
            )
        })
}

fn build_searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(usize::try_from(MAX_FILE_BYTES).ok())
        .build()
}

struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    hits: Hits,
    /// The number of files that are too big or could not be read.
    skipped: usize,
}

impl Search {
    fn search_file(&mut self, root: &Root, path: &Path) {
        let Some(file) = open_candidate(root, path) else {
            self.skipped += 1;
            return;
        };
        self.hits.path = display_path(path);
        let before = self.hits.out.len();
        let count = self.hits.count;
        if self.searcher.search_reader(&self.matcher, file, &mut self.hits).is_err() {
            self.skipped += 1;
        }
        if std::mem::take(&mut self.hits.binary) {
            self.hits.out.truncate(before);
            self.hits.count = count;
            self.hits.full = false;
        }
    }

    fn render_matches(self, cut: bool) -> String {
        let mut out = self.hits.out;
        if self.hits.count == 0 {
            out.push_str("(no line matches)");
        }
        let mut notes = Vec::new();
        if self.hits.full {
            notes.push(format!(
                "[stopped after {} matches; narrow the pattern, path or glob to see the rest]",
                self.hits.count
            ));
        }
        if self.skipped > 0 {
            let files = if self.skipped == 1 {
                "1 file was"
            } else {
                &format!("{} files were", self.skipped)
            };
            notes.push(format!(
                "[{files} not searched: unreadable, or larger than {MAX_FILE_BYTES} bytes]"
            ));
        }
        if cut {
            notes.push("[not all files were searched; narrow the path or glob]".to_owned());
        }
        if !out.is_empty() && !out.ends_with('\n') && !notes.is_empty() {
            out.push('\n');
        }
        out.push_str(&notes.join("\n"));
        out
    }
}

/// Opens a candidate as a bounded reader; `None` if it is not a regular file of allowed size.
fn open_candidate(root: &Root, path: &Path) -> Option<impl Read + use<>> {
    let file = root.open_file(&path.to_string_lossy(), path).ok()?;
    Some(file.take(MAX_FILE_BYTES))
}

#[derive(Default)]
struct Hits {
    path: String,
    out: String,
    count: usize,
    full: bool,
    binary: bool,
}

impl Sink for Hits {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let text = String::from_utf8_lossy(found.bytes());
        let text = cut_line(text.trim_end_matches(['\r', '\n']), LINE_CHARS);
        let line = format!("{}:{}:{text}\n", self.path, found.line_number().unwrap_or(0));
        if self.count == MAX_MATCHES || self.out.len() + line.len() > MAX_BYTES {
            self.full = true;
            return Ok(false);
        }
        self.out.push_str(&line);
        self.count += 1;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}
