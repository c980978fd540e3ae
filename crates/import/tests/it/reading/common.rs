//! A sink that writes down what it is given, and files made for a test.

use std::path::{Path, PathBuf};

use softland_import::{
    ConversationId, ConversationStart, ReadOptions, RecordedSignal, Recordings, Sink, TurnStep,
    UserStep, read_paths,
};

/// The steps of a file, a line each.
#[derive(Debug, Default)]
pub(crate) struct Told(pub(crate) Vec<String>);

impl Sink for Told {
    fn begin_conversation(&mut self, talk: ConversationId, begin: &ConversationStart<'_>) {
        let ConversationStart { session, run, agent, inferred, .. } = begin;
        let mut line = format!("{} begin {}", talk.0, session.unwrap_or("-"));
        for (name, value) in [("run", run), ("agent", agent)] {
            if let Some(value) = value {
                line += &format!(" {name}={value}");
            }
        }
        line += if *inferred { " inferred" } else { "" };
        self.0.push(line);
    }

    fn take_user_step(&mut self, talk: ConversationId, step: &UserStep<'_>) {
        let mut line = format!("{} user", talk.0);
        for text in &step.user.texts {
            line += &format!(" {:?}", text.text());
        }
        for result in &step.user.results {
            line += &format!(" {}:{}", result.id, if result.failed { "failed" } else { "ok" });
        }
        line += if step.user.media.is_some() { " media" } else { "" };
        line += if step.machine { " machine" } else { "" };
        self.0.push(line);
    }

    fn take_turn(&mut self, talk: ConversationId, turn: &TurnStep<'_>) {
        let t = turn.usage.tokens;
        let mut line = format!("{} turn", talk.0);
        for call in &turn.finished.calls {
            line += &format!(" {}:{}{}", call.id, call.name, call.input);
        }
        line += &format!(" chars={}", turn.finished.text.visible);
        if turn.usage.recorded {
            let written = t.cache_write_5m + t.cache_write_1h;
            line += &format!(" tokens={}/{}/{}/{written}", t.input, t.output, t.cache_read);
        }
        if let Some(cost) = turn.cost {
            line += &format!(" {cost}");
        }
        line += if turn.row.is_some_and(|row| row.trivial) { " trivial" } else { "" };
        self.0.push(line);
    }

    fn take_signal(&mut self, talk: ConversationId, noted: RecordedSignal) {
        let RecordedSignal { signal, evidence } = noted;
        self.0.push(format!("{} noted {} {:?}", talk.0, signal.word(), evidence.turns));
    }

    fn take_outcome(&mut self, talk: ConversationId, outcome: &str, reason: &str) {
        self.0.push(format!("{} ended {outcome}/{reason}", talk.0));
    }

    fn end_conversation(&mut self, talk: ConversationId) {
        self.0.push(format!("{} end", talk.0));
    }
}

/// Writes a file into a folder.
pub(crate) fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

/// Reads paths.
pub(crate) fn told(paths: &[PathBuf]) -> Recordings<Told> {
    read_paths(paths, &ReadOptions::default(), |_| Told::default(), |_| {})
}

/// Reads one text as a file: its kind, its steps, and what could not be read.
pub(crate) fn one(content: impl AsRef<[u8]>) -> (Option<&'static str>, Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let read = told(&[put(folder.path(), "recording", content)]);
    let unreadable = read.unreadable.iter().map(|problem| {
        let line = problem.line.map(|line| format!("{line}: ")).unwrap_or_default();
        format!("{line}{}", problem.reason)
    });
    let unreadable = unreadable.collect();
    let source = read.sources.into_iter().next().unwrap();
    let steps = source.sink.map(|told| told.0).unwrap_or_default();
    (source.kind.map(|kind| kind.name()), steps, unreadable)
}

/// Counts the steps that are turns.
pub(crate) fn turns(steps: &[String]) -> usize {
    steps.iter().filter(|step| step.contains(" turn")).count()
}
