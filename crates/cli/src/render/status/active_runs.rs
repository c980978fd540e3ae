//! The runs of a tree and what each is waiting for, by their events.

use std::time::{Duration, Instant};

use softland_agent::{Event, EventKind};

use super::super::text::cut_line;

/// The frames of the spinner.
const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// The runs that are under way, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct ActiveRuns {
    runs: Vec<ActiveRun>,
}

#[derive(Debug)]
struct ActiveRun {
    id: String,
    /// The sub-agent's name, for the run of a sub-agent; otherwise empty.
    label: String,
    /// The time since which the run has been waiting for the model.
    since: Instant,
    tools: Vec<ActiveTool>,
}

#[derive(Debug)]
struct ActiveTool {
    id: String,
    name: String,
    since: Instant,
    /// True if the call's own run is in the list.
    delegated: bool,
}

impl ActiveRuns {
    pub(super) fn apply_event(&mut self, event: &Event, now: Instant) {
        match &event.kind {
            EventKind::RunStart { .. } => self.add_run(&event.run, String::new(), now),
            EventKind::Child { child_run, agent, id } => {
                let which = child_run.rsplit('.').next().unwrap_or_default();
                self.add_run(child_run, format!("{agent} #{which}: "), now);
                let tools = self.find_run(&event.run).map(|run| run.tools.iter_mut());
                for tool in tools.into_iter().flatten().filter(|tool| tool.id == *id) {
                    tool.delegated = true;
                }
            }
            EventKind::TurnStart { .. } => {
                if let Some(run) = self.find_run(&event.run) {
                    run.since = now;
                }
            }
            EventKind::ToolExecute { id, name, .. } => {
                if let Some(run) = self.find_run(&event.run) {
                    let (id, name) = (id.clone(), name.clone());
                    run.tools.push(ActiveTool { id, name, since: now, delegated: false });
                }
            }
            EventKind::ToolResult { id, .. } => {
                if let Some(run) = self.find_run(&event.run) {
                    let at = run.tools.iter().position(|tool| tool.id == *id);
                    at.map(|at| run.tools.remove(at));
                    run.since = now;
                }
            }
            EventKind::Done { .. } | EventKind::Error { .. } => {
                self.runs.retain(|run| run.id != event.run);
            }
            _ => {}
        }
    }

    fn add_run(&mut self, id: &str, label: String, now: Instant) {
        // An event of the caller has already added the run of a sub-agent.
        if self.find_run(id).is_none() {
            self.runs.push(ActiveRun { id: id.to_owned(), label, since: now, tools: Vec::new() });
        }
    }

    fn find_run(&mut self, id: &str) -> Option<&mut ActiveRun> {
        self.runs.iter_mut().find(|run| run.id == id)
    }

    /// Returns the status line, of at most `width` columns; `None` if no run is waiting.
    pub(super) fn status_line(&self, frame: usize, now: Instant, width: usize) -> Option<String> {
        let waited: Vec<String> =
            self.runs.iter().flat_map(|run| run.describe_waits(now)).collect();
        let turning = FRAMES.get(frame % FRAMES.len()).copied().unwrap_or(' ');
        (!waited.is_empty()).then(|| cut_line(&format!("{turning} {}", waited.join(" · ")), width))
    }
}

impl ActiveRun {
    fn describe_waits(&self, now: Instant) -> Vec<String> {
        let Self { label, since, tools, .. } = self;
        let wait = |what: &str, since| format!("{label}{what} {}", format_elapsed(now - since));
        if tools.is_empty() {
            return vec![wait("model", *since)];
        }
        let tools = tools.iter().filter(|tool| !tool.delegated);
        tools.map(|tool| wait(&tool.name, tool.since)).collect()
    }
}

fn format_elapsed(passed: Duration) -> String {
    match passed.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use softland_agent::core::policy::Policy;

    fn event(run: &str, kind: EventKind) -> Event {
        let (ts, run) = (String::new(), run.to_owned());
        Event { v: 1, seq: 0, ts, run, turn: 1, replayed: false, kind }
    }

    fn start() -> EventKind {
        let (agent, model) = ("a".to_owned(), "m".to_owned());
        EventKind::RunStart { agent, model, policy: Box::new(Policy::default()) }
    }

    fn runs(id: &str, name: &str) -> EventKind {
        let input = serde_json::Value::Null;
        EventKind::ToolExecute { id: id.to_owned(), name: name.to_owned(), input }
    }

    fn ran(id: &str) -> EventKind {
        let (name, content) = (String::new(), String::new());
        EventKind::ToolResult { id: id.to_owned(), name, ok: true, content, ms: 1 }
    }

    #[test]
    fn it_says_what_is_waited_for_and_how_long() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut board = ActiveRuns::default();
        let tell = |board: &mut ActiveRuns, run: &str, seconds, kind| {
            board.apply_event(&event(run, kind), at(seconds));
        };
        assert_eq!(board.status_line(0, began, 80), None);
        tell(&mut board, "r", 0, start());
        assert_eq!(board.status_line(0, at(3), 80).unwrap(), "⠋ model 3 s");
        assert_eq!(board.status_line(11, at(75), 80).unwrap(), "⠙ model 1 min 15 s");
        tell(&mut board, "r", 4, runs("1", "grep"));
        tell(&mut board, "r", 5, runs("2", "agent"));
        let child = ("r.1".to_owned(), "looper".to_owned(), "2".to_owned());
        let child = EventKind::Child { child_run: child.0, agent: child.1, id: child.2 };
        tell(&mut board, "r", 5, child);
        tell(&mut board, "r.1", 5, start());
        assert_eq!(board.status_line(0, at(6), 80).unwrap(), "⠋ grep 2 s · looper #1: model 1 s");
        assert_eq!(board.status_line(0, at(6), 12).unwrap(), "⠋ grep 2 s …");
        tell(&mut board, "r", 7, ran("1"));
        tell(&mut board, "r.1", 7, runs("9", "glob"));
        assert_eq!(board.status_line(0, at(9), 80).unwrap(), "⠋ looper #1: glob 2 s");
        board.runs.retain(|run| run.id != "r.1");
        tell(&mut board, "r", 10, ran("2"));
        assert_eq!(board.status_line(0, at(10), 80).unwrap(), "⠋ model 0 s");
    }

    #[test]
    fn names_of_tools_are_made_harmless() {
        let began = Instant::now();
        let mut board = ActiveRuns::default();
        board.apply_event(&event("r", start()), began);
        board.apply_event(&event("r", runs("1", "a\u{1b}[2J\nb")), began);
        assert_eq!(board.status_line(0, began, 80).unwrap(), "⠋ a␛[2J b 0 s");
    }
}
