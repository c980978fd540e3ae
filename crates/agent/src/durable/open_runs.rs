//! The runs of a tree that have not told their end, for a tree that an engine has ended.

use std::collections::BTreeMap;

use softland_session::core::{Outcome, Reason, RunEnding};

use super::ends::error_event;
use crate::event::{Event, EventKind, Report, UsageTotal};
use crate::journal::now_rfc3339;

/// Follows the events of a tree, so that each run gets an end where the engine has ended the tree
/// before the runs could tell one.
#[derive(Debug, Default)]
pub struct OpenRuns {
    /// In the order of their beginning.
    runs: Vec<SeenRun>,
    /// The place of each run.
    places: BTreeMap<String, usize>,
}

/// What a run's events have shown.
#[derive(Debug, Default)]
struct SeenRun {
    run: String,
    /// The place of the run around it.
    parent: Option<usize>,
    has_ended: bool,
    /// The number of its next event.
    next: u64,
    /// The time of its last event.
    ts: Option<String>,
    turn: u64,
    tool_calls: u64,
    /// The id and the name of each call without a result, in the order of their beginning.
    open_calls: Vec<(String, String)>,
    /// With that of the runs below it.
    usage: UsageTotal,
}

impl OpenRuns {
    /// Takes the next event.
    pub fn push_event(&mut self, event: &Event) {
        let at = self.place_of(&event.run);
        if let Some(run) = self.runs.get_mut(at) {
            (run.next, run.turn, run.ts) = (event.seq + 1, event.turn, Some(event.ts.clone()));
            run.has_ended |= event.kind.is_terminal();
        }
        match &event.kind {
            EventKind::ToolExecute { id, name, .. } => {
                if let Some(run) = self.runs.get_mut(at) {
                    run.tool_calls += 1;
                    run.open_calls.push((id.clone(), name.clone()));
                }
            }
            EventKind::ToolResult { id, .. } => {
                if let Some(run) = self.runs.get_mut(at) {
                    run.open_calls.retain(|(open, _)| open != id);
                }
            }
            EventKind::Child { child_run, .. } => {
                let child = self.place_of(child_run);
                self.runs.get_mut(child).into_iter().for_each(|run| run.parent = Some(at));
            }
            &EventKind::Usage { input, output, cache_read, cache_write, .. } => {
                let used = UsageTotal { input, output, cache_read, cache_write };
                self.add_usage(at, used);
            }
            _ => {}
        }
    }

    /// Returns the events that end each run without an end, the first run's last: a result for each of
    /// its calls that has none, and the terminal event. What the runs have cost is unknown, since
    /// requests may have been under way.
    #[must_use]
    pub fn cancelled_ends(mut self, first: &str) -> Vec<Event> {
        self.place_of(first);
        let mut open: Vec<SeenRun> = self.runs.into_iter().filter(|run| !run.has_ended).collect();
        // A stable order: the newest run first.
        open.reverse();
        open.sort_by_key(|run| run.run == first);
        open.into_iter().flat_map(SeenRun::into_cancelled_end).collect()
    }

    /// Returns the place of a run, which is made if the run is new.
    fn place_of(&mut self, run: &str) -> usize {
        if let Some(at) = self.places.get(run) {
            return *at;
        }
        self.places.insert(run.to_owned(), self.runs.len());
        self.runs.push(SeenRun { run: run.to_owned(), ..SeenRun::default() });
        self.runs.len() - 1
    }

    fn add_usage(&mut self, at: usize, used: UsageTotal) {
        let mut next = Some(at);
        // No tree is deeper than it has runs.
        for _ in 0..self.runs.len() {
            let Some(run) = next.and_then(|at| self.runs.get_mut(at)) else { return };
            run.usage = run.usage.plus(used);
            next = run.parent;
        }
    }
}

impl SeenRun {
    fn into_cancelled_end(self) -> Vec<Event> {
        let ts = self.ts.unwrap_or_else(now_rfc3339);
        let result = |(seq, (id, name)): (u64, (String, String))| {
            let content = format!("{name}: cancelled");
            let kind = EventKind::ToolResult { id, name, ok: false, content, ms: 0 };
            let (ts, run) = (ts.clone(), self.run.clone());
            Event { v: 1, seq, ts, run, turn: self.turn, replayed: false, kind }
        };
        let mut events: Vec<Event> = (self.next..).zip(self.open_calls).map(result).collect();
        let report = Report {
            ended: RunEnding::without_limit(Outcome::Cancelled, Reason::User),
            answer: None,
            answered_by: None,
            turns: self.turn,
            tool_calls: self.tool_calls,
            usage: self.usage,
            cost_usd: None,
            resume: None,
            failure: Some(Report::ENDED_BY_ENGINE.to_owned()),
        };
        let seq = self.next + u64::try_from(events.len()).unwrap_or(0);
        events.push(error_event(self.run, (seq, ts), report));
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(run: &str, seq: u64, kind: EventKind) -> Event {
        let ts = "2026-11-29T00:00:00Z".to_owned();
        Event { v: 1, seq, ts, run: run.to_owned(), turn: 2, replayed: false, kind }
    }

    fn usage(input: u64) -> EventKind {
        let (output, cache_read, cache_write) = (1, 0, 0);
        EventKind::Usage {
            input,
            output,
            cache_read,
            cache_write,
            cost_usd: Some(0.1),
            request_id: None,
        }
    }

    fn child(run: &str) -> EventKind {
        let (agent, id) = ("scout".to_owned(), "toolu_1".to_owned());
        EventKind::Child { child_run: run.to_owned(), agent, id }
    }

    fn report(event: &Event) -> &Report {
        match &event.kind {
            EventKind::Error { report, .. } => report,
            _ => unreachable!("not an end"),
        }
    }

    #[test]
    fn each_open_run_gets_one_end_and_the_first_run_the_last() {
        let mut open = OpenRuns::default();
        open.push_event(&event("r", 0, usage(10)));
        open.push_event(&event("r", 1, child("r.1")));
        open.push_event(&event("r", 2, child("r.2")));
        open.push_event(&event("r.1", 0, usage(100)));
        open.push_event(&event("r.2", 0, usage(1000)));
        let mut before = OpenRuns::default();
        before.push_event(&event("r.1", 0, usage(100)));
        let [end] =
            <[Event; 1]>::try_from(before.cancelled_ends("r.1")).unwrap_or_else(|_| unreachable!());
        open.push_event(&Event { seq: 1, ..end });
        let ends = open.cancelled_ends("r");
        let told: Vec<_> = ends.iter().map(|end| (end.run.as_str(), end.seq)).collect();
        assert_eq!(told, [("r.2", 1), ("r", 3)]);
        let last = report(&ends[1]);
        assert_eq!(
            (last.ended.outcome, last.usage.input, last.turns),
            (Outcome::Cancelled, 1110, 2)
        );
        assert_eq!(last.cost_usd, None, "a request may have been under way");
        assert_eq!(report(&ends[0]).usage.input, 1000);
    }

    #[test]
    fn each_call_without_a_result_gets_one() {
        let call = |id: &str| {
            let (id, name) = (id.to_owned(), "note".to_owned());
            EventKind::ToolExecute { id, name, input: serde_json::Value::Null }
        };
        let (id, name) = ("toolu_1".to_owned(), "note".to_owned());
        let result = EventKind::ToolResult { id, name, ok: true, content: String::new(), ms: 1 };
        let mut open = OpenRuns::default();
        for (seq, kind) in
            [call("toolu_1"), call("toolu_2"), result, call("toolu_3")].into_iter().enumerate()
        {
            open.push_event(&event("r", seq as u64, kind));
        }
        let ends = open.cancelled_ends("r");
        let told: Vec<_> = ends
            .iter()
            .map(|end| match &end.kind {
                EventKind::ToolResult { id, ok: false, content, .. } => {
                    (end.seq, format!("{id} {content}"))
                }
                kind => (end.seq, if kind.is_terminal() { "end" } else { "other" }.to_owned()),
            })
            .collect();
        let expected = [(4, "toolu_2 note: cancelled"), (5, "toolu_3 note: cancelled"), (6, "end")];
        assert_eq!(told, expected.map(|(seq, what)| (seq, what.to_owned())));
    }

    #[test]
    fn a_run_that_has_told_nothing_gets_its_end() {
        let ends = OpenRuns::default().cancelled_ends("r");
        let told: Vec<_> = ends.iter().map(|end| (end.run.as_str(), end.seq)).collect();
        assert_eq!(told, [("r", 0)]);
    }
}
