//! Judges recorded runs by a policy: when it would have warned, and which turn would have been the
//! last. The recorded turns go through the core's fold as they would through softland's own loop,
//! with the facts that hold at each request.

use std::collections::BTreeMap;

use softland_session::core::policy::{Landing, LoopKey, LoopKind, Mode, Policy, RunBoundary};
use softland_session::core::{
    AdditionKind, Call, Digest, Facts, FinishedTurn, LineRoom, Phase, Reason, Role, Stop,
    ToolResult, Transcript, UserMessage, UserText, VisibleText,
};

/// The tool name of calls that are not recorded.
const UNRECORDED: &str = "unrecorded";

/// A policy, and the conversation that it is tried on.
#[derive(Debug)]
pub(crate) struct Judge {
    transcript: Transcript,
    landing: Landing,
    /// True if facts are needed. A message then waits for the turn that tells its size.
    facts: bool,
    held: Option<HeldMessage>,
    /// The call that stands for a turn without recorded content, until the run goes on.
    unrecorded_call: Option<String>,
    verdict: Verdict,
}

/// The policy's verdict on one run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) warned: Option<(u64, Reason)>,
    pub(crate) ended: Option<(u64, Reason)>,
}

#[derive(Debug)]
struct HeldMessage {
    results: Vec<(String, ToolResult<'static>)>,
    texts: Vec<String>,
    media: Option<Digest>,
}

impl HeldMessage {
    fn from_user(user: &UserMessage<'_>) -> Self {
        let results = user.results.iter().map(|result| {
            (result.id.clone().into_owned(), ToolResult { id: "".into(), ..*result })
        });
        Self {
            results: results.collect(),
            texts: user.texts.iter().map(|text| text.text().to_owned()).collect(),
            media: user.media,
        }
    }

    fn to_user(&self) -> UserMessage<'_> {
        let results = self.results.iter().map(|(id, own)| ToolResult { id: id.into(), ..*own });
        UserMessage {
            results: results.collect(),
            texts: self.texts.iter().map(UserText::new).collect(),
            media: self.media,
            ..UserMessage::default()
        }
    }
}

impl Judge {
    /// Creates a judge for `policy`, enforced. Runs are those of the recording.
    pub(crate) fn new(policy: &Policy, run_boundary: RunBoundary) -> Self {
        let mut policy = Policy { mode: Mode::Enforce, run_boundary, ..policy.clone() };
        // No loop can be seen among calls that are not recorded, and nothing of them is kept.
        policy.loop_keys.insert(UNRECORDED.to_owned(), LoopKey::Kind(LoopKind::Exempt));
        Self {
            landing: policy.landing,
            facts: policy.counts_usage() || policy.time_limit.is_some(),
            transcript: Transcript::new(Role::Engine, policy, BTreeMap::new()),
            held: None,
            unrecorded_call: None,
            verdict: Verdict::default(),
        }
    }

    /// Returns true if the policy has limits that need facts.
    pub(crate) fn needs_facts(&self) -> bool {
        self.facts
    }

    /// Takes a user's message before turn `next_turn`.
    pub(crate) fn take_user(&mut self, user: &UserMessage<'_>, next_turn: u64) {
        if let Some(id) = self.unrecorded_call.take().filter(|_| user.results.is_empty()) {
            return self.take_user(&make_unrecorded_result(&id), next_turn);
        }
        if self.facts {
            self.release_held(next_turn, None);
            self.held = Some(HeldMessage::from_user(user));
        } else {
            self.fold_message(user, next_turn, None);
        }
    }

    /// Takes the request for turn `turn`.
    pub(crate) fn take_request(&mut self, turn: u64, facts: Option<&Facts>) {
        self.release_held(turn, facts);
        let Some(run) = self.transcript.current_run().filter(|_| self.verdict.ended.is_none())
        else {
            return;
        };
        let stops = self.landing == Landing::Stop
            || facts.is_some_and(|facts| !run.request_allowance(facts, None).affordable);
        let ended = match run.phase() {
            Phase::Open => return,
            Phase::Stopping { because } => (turn - 1, because.reason.clone()),
            Phase::Landing { because, .. }
            | Phase::Late { because }
            | Phase::Waiting { because } => {
                (if stops { turn - 1 } else { turn }, because.reason.clone())
            }
        };
        self.verdict.ended = Some(ended);
    }

    /// Takes a turn.
    pub(crate) fn take_turn(&mut self, finished: &FinishedTurn<'_>) {
        self.transcript.add_turn(finished);
    }

    /// Takes a turn without recorded content. If its run goes on, the turn called a tool: limits
    /// are checked where results come in.
    pub(crate) fn take_turn_without_content(&mut self, turn: u64) {
        let (id, input) = (turn.to_string(), format!("{{\"turn\":{turn}}}"));
        let call = Call { id: &id, name: UNRECORDED, input: &input, server: false };
        let finished = FinishedTurn {
            text: VisibleText::default(),
            calls: vec![call],
            cut_call: false,
            hidden: false,
            gives: false,
            stop: Stop::Natural,
            output_tokens: None,
        };
        self.transcript.add_turn(&finished);
        self.unrecorded_call = Some(id);
    }

    /// Notes that the run would have been stopped after this turn, for a reason that no history
    /// shows.
    pub(crate) fn note_stop(&mut self, turn: u64, reason: Reason) {
        self.verdict.ended.get_or_insert((turn, reason));
    }

    /// Ends a run of `turns` turns and returns the verdict on it.
    pub(crate) fn finish_run(&mut self, turns: u64) -> Verdict {
        self.release_held(turns + 1, None);
        let stopped = self.transcript.current_run().and_then(|run| match run.phase() {
            Phase::Stopping { because } => Some(because),
            Phase::Landing { because, .. }
            | Phase::Late { because }
            | Phase::Waiting { because }
                if self.landing == Landing::Stop =>
            {
                Some(because)
            }
            _ => None,
        });
        if let Some(because) = stopped {
            self.verdict.ended.get_or_insert_with(|| (turns, because.reason.clone()));
        }
        // A warning in a request that was never sent does not count.
        self.verdict.warned.take_if(|(turn, _)| *turn > turns);
        std::mem::take(&mut self.verdict)
    }

    fn release_held(&mut self, turn: u64, facts: Option<&Facts>) {
        if let Some(held) = self.held.take() {
            self.fold_message(&held.to_user(), turn, facts);
        }
    }

    fn fold_message(&mut self, user: &UserMessage<'_>, next_turn: u64, facts: Option<&Facts>) {
        let step = self.transcript.add_user_message(user, facts);
        let told = step
            .additions
            .iter()
            .find(|added| matches!(added.kind, AdditionKind::Warn | AdditionKind::Note));
        if let Some(because) = told.and_then(|added| added.because.as_ref()) {
            self.verdict.warned.get_or_insert_with(|| (next_turn, because.reason.clone()));
        }
    }
}

/// Returns a new result for a call that is not recorded.
fn make_unrecorded_result(id: &str) -> UserMessage<'_> {
    let result = ToolResult {
        id: id.into(),
        digest: Digest::from_bytes(id.as_bytes()),
        chars: 0,
        failed: false,
        sent_back: false,
        unfinished: false,
        cleared: false,
        lined: false,
        remarked: false,
        room: LineRoom::Text,
    };
    UserMessage { results: vec![result], ..UserMessage::default() }
}
