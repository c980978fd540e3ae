//! A conversation, message by message, and the fold over it.

use std::collections::BTreeMap;

use softland_core::policy::Policy;
use softland_core::{
    AdditionKind, Call, Digest, Facts, FinishedTurn, LinePlace, MessageEffects, Phase, Role,
    SignalKind, Stop, ToolResult, Transcript, UserMessage, UserText, VisibleText,
};

/// A conversation, message by message.
pub(crate) struct Talk {
    pub(crate) transcript: Transcript,
    pub(crate) role: Role,
    pub(crate) ids: u64,
    pub(crate) facts: Facts,
}

/// (tool, arguments, result, true if it failed)
pub(crate) type Done<'a> = (&'a str, String, &'a str, bool);

impl Talk {
    pub(crate) fn new(role: Role, policy: Policy) -> Self {
        let mut talk = Self::of(role, policy);
        talk.say("What is it?");
        talk
    }

    /// Creates a conversation without messages.
    pub(crate) fn of(role: Role, policy: Policy) -> Self {
        let transcript = Transcript::new(role, policy, BTreeMap::new());
        Self { transcript, role, ids: 0, facts: Facts::default() }
    }

    pub(crate) fn say(&mut self, text: &str) -> MessageEffects {
        let texts = vec![UserText::new(text)];
        self.transcript
            .add_user_message(&UserMessage { texts, ..UserMessage::default() }, Some(&self.facts))
    }

    pub(crate) fn model(&mut self, text: &str, calls: Vec<Call<'_>>, stop: Stop) {
        let text = VisibleText::from_text(text);
        let turn = FinishedTurn {
            text,
            calls,
            cut_call: false,
            hidden: false,
            gives: false,
            stop,
            output_tokens: None,
        };
        self.transcript.add_turn(&turn);
    }

    /// Adds a turn of calls and their results.
    pub(crate) fn round(&mut self, done: &[Done<'_>]) -> MessageEffects {
        self.round_with(done, "")
    }

    /// Adds the same with a person's text beside the results.
    pub(crate) fn round_with(&mut self, done: &[Done<'_>], said: &str) -> MessageEffects {
        let ids: Vec<String> = done.iter().map(|_| self.id()).collect();
        let named: Vec<_> =
            ids.iter().zip(done).map(|(id, done)| (id.clone(), done.0, done.1.clone())).collect();
        let calls =
            named.iter().map(|(id, name, input)| Call { id, name, input, server: false }).collect();
        self.model("", calls, Stop::Natural);
        let results =
            ids.iter().zip(done).map(|(id, (_, _, text, failed))| result(id, text, *failed));
        let texts = match said {
            "" => Vec::new(),
            text => vec![UserText::new(text)],
        };
        let user = UserMessage { results: results.collect(), texts, ..UserMessage::default() };
        self.transcript.add_user_message(&user, Some(&self.facts))
    }

    pub(crate) fn one(
        &mut self,
        tool: &str,
        input: impl Into<String>,
        result: &str,
    ) -> MessageEffects {
        self.round(&[(tool, input.into(), result, false)])
    }

    pub(crate) fn id(&mut self) -> String {
        self.ids += 1;
        format!("id{}", self.ids)
    }

    pub(crate) fn calls(&self) -> u64 {
        self.transcript.current_run().map_or(0, |run| run.used().calls)
    }

    pub(crate) fn lands(&self) -> bool {
        matches!(self.transcript.current_run().map(|run| run.phase()), Some(Phase::Landing { .. }))
    }
}

pub(crate) fn result<'a>(id: &'a str, text: &str, failed: bool) -> ToolResult<'a> {
    ToolResult {
        id: id.into(),
        digest: Digest::from_bytes(text.as_bytes()),
        chars: text.chars().count() as u64,
        failed,
        sent_back: softland_core::tables::asks_for_retry(text),
        unfinished: false,
        cleared: false,
        lined: false,
        remarked: text.ends_with(softland_core::lines::REMARK_END),
        room: softland_core::LineRoom::Text,
    }
}

pub(crate) fn limited(limit: u64) -> Policy {
    Policy { tool_calls_limit: Some(limit), ..Policy::default() }
}

pub(crate) fn input(n: u64) -> String {
    format!(r#"{{"n":{n}}}"#)
}

pub(crate) fn batch(from: u64, calls: u64) -> Vec<Done<'static>> {
    (from..from + calls).map(|n| ("grep", input(n), "found", false)).collect()
}

/// Returns the line of each result.
pub(crate) fn lines(step: &MessageEffects) -> BTreeMap<usize, (AdditionKind, String)> {
    let line = |a: &softland_core::Addition| match a.place {
        LinePlace::Result(n) => (n, (a.kind, a.text.clone())),
        LinePlace::End => panic!("a line outside the results"),
    };
    let lines: BTreeMap<_, _> = step.additions.iter().map(line).collect();
    assert_eq!(lines.len(), step.additions.len(), "two lines in one result");
    lines
}

pub(crate) fn kinds(step: &MessageEffects) -> Vec<SignalKind> {
    step.signals.iter().map(|signal| signal.signal).collect()
}

/// Checks that nothing was signalled except a sweep, which honest research is, and that no line was
/// added.
pub(crate) fn silent(step: &MessageEffects, what: &str, n: u64) {
    let loops: Vec<_> = kinds(step).into_iter().filter(|kind| *kind != SignalKind::Sweep).collect();
    assert_eq!(loops, [], "{what}, round {n}");
    assert_eq!(step.additions, [], "{what}, round {n}");
}
