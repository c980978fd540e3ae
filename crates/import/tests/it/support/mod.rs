//! Conversations made by hand, without a file.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::Path;

use softland_import::report::RunReport;
use softland_import::{
    ActivityRow, ConversationId, ConversationStart, FileReplay, ReplaySettings, Sink as _,
    TurnStep, TurnUsage, UserStep,
};
use softland_session::core::policy::{Policy, PolicyValue};
use softland_session::core::{
    Call, Digest, FinishedTurn, LineRoom, NanoUsd, Stop, ToolResult, UserMessage, UserText,
    VisibleText,
};
use softland_session::wire::Tokens;

/// A policy of these keys.
pub(crate) fn policy(keys: &[(&str, &str)]) -> Policy {
    let mut policy = Policy::default();
    for (key, value) in keys {
        policy.set_key(key, &PolicyValue::Text((*value).to_owned())).unwrap();
    }
    policy
}

/// One conversation under way.
pub(crate) struct Script<'s> {
    folder: FileReplay<'s>,
    time: u64,
    calls: u64,
    open: Vec<String>,
    tokens: Tokens,
    cost: Option<NanoUsd>,
    model: Option<&'static str>,
    submits: bool,
}

impl<'s> Script<'s> {
    pub(crate) fn new(settings: &'s ReplaySettings) -> Self {
        Self::begun(
            settings,
            &ConversationStart { session: Some("s"), ..ConversationStart::default() },
        )
    }

    pub(crate) fn begun(settings: &'s ReplaySettings, begin: &ConversationStart<'_>) -> Self {
        let mut folder = FileReplay::new(settings, Path::new("made.jsonl"));
        folder.begin_conversation(ConversationId(0), begin);
        let tokens = Tokens { input: 1000, output: 100, ..Tokens::default() };
        let cost = Some(NanoUsd(1_000_000));
        Self {
            folder,
            time: 0,
            calls: 0,
            open: Vec::new(),
            tokens,
            cost,
            model: None,
            submits: false,
        }
    }

    /// Sets the usage of each turn from now on.
    pub(crate) fn each(mut self, input: u64, output: u64, cost: Option<u64>) -> Self {
        self.tokens = Tokens { input, output, ..Tokens::default() };
        self.cost = cost.map(NanoUsd);
        self
    }

    /// Sets the input tokens of each turn from now on.
    pub(crate) fn each_input(mut self, input: u64) -> Self {
        self.tokens.input = input;
        self
    }

    pub(crate) fn wait(mut self, seconds: u64) -> Self {
        self.time += seconds * 1000;
        self
    }

    pub(crate) fn says(mut self, text: &str) -> Self {
        let user = UserMessage { texts: vec![UserText::new(text)], ..UserMessage::default() };
        let step = UserStep { user, machine: false, time: Some(self.time), line: None };
        self.folder.take_user_step(ConversationId(0), &step);
        self
    }

    /// A program speaks.
    pub(crate) fn machine(mut self) -> Self {
        let user = UserMessage::default();
        let step = UserStep { user, machine: true, time: Some(self.time), line: None };
        self.folder.take_user_step(ConversationId(0), &step);
        self
    }

    /// A turn that calls these tools with these arguments.
    pub(crate) fn calls(mut self, calls: &[(&str, &str)]) -> Self {
        self.open = calls.iter().map(|_| self.calls += 1).map(|()| String::new()).collect();
        let first = self.calls + 1 - calls.len() as u64;
        self.open = (first..=self.calls).map(|n| format!("c{n}")).collect();
        let ids = self.open.clone();
        let calls = calls.iter().zip(&ids);
        let calls = calls.map(|((name, input), id)| Call { id, name, input, server: false });
        let calls: Vec<_> = calls.collect();
        self.turn("", calls, Stop::Natural);
        self
    }

    /// Adds the results, in the order of the calls; `!` before a text says that it failed.
    pub(crate) fn results(mut self, texts: &[&str]) -> Self {
        let ids = std::mem::take(&mut self.open);
        let results = ids.iter().zip(texts).map(|(id, text)| ToolResult {
            id: id.into(),
            digest: Digest::from_bytes(text.as_bytes()),
            chars: text.chars().count() as u64,
            failed: text.starts_with('!'),
            sent_back: false,
            unfinished: false,
            cleared: false,
            lined: false,
            remarked: false,
            room: LineRoom::Text,
        });
        let user = UserMessage { results: results.collect(), ..UserMessage::default() };
        let step = UserStep { user, machine: false, time: Some(self.time), line: None };
        self.folder.take_user_step(ConversationId(0), &step);
        self
    }

    /// One round of one call.
    pub(crate) fn round(self, tool: &str, input: &str, result: &str) -> Self {
        self.calls(&[(tool, input)]).results(&[result])
    }

    /// A turn of text alone.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.turn(text, Vec::new(), Stop::Natural);
        self
    }

    pub(crate) fn cut(mut self, text: &str) -> Self {
        self.turn(text, Vec::new(), Stop::Length);
        self
    }

    /// A row of an activity list.
    pub(crate) fn row(mut self, prompt: u64, completion: u64, cost: u64) -> Self {
        let row = ActivityRow {
            prompt,
            trivial: (1..=5).contains(&completion),
            calls: false,
            cancelled: false,
        };
        let tokens = Tokens { input: prompt, output: completion, ..Tokens::default() };
        let turn = TurnStep {
            requests: &[],
            finished: finished("", Vec::new(), Stop::Unknown),
            submits: false,
            model: Some("z-ai/glm-4.6"),
            usage: TurnUsage { tokens, estimated: 0, recorded: true, chars: 0 },
            cost: Some(NanoUsd(cost)),
            time: Some(self.time),
            line: None,
            row: Some(row),
        };
        self.folder.take_turn(ConversationId(0), &turn);
        self.time += 1000;
        self
    }

    pub(crate) fn runs(mut self) -> Vec<RunReport> {
        self.folder.end_conversation(ConversationId(0));
        self.folder.into_runs()
    }

    /// Returns the sink that took the steps, after the end of its conversation.
    pub(crate) fn folder(mut self) -> FileReplay<'s> {
        self.folder.end_conversation(ConversationId(0));
        self.folder
    }

    /// Calls from now on hand the answer in.
    pub(crate) fn submits(mut self) -> Self {
        self.submits = true;
        self
    }

    /// The model of the turns from now on, at its table's prices.
    pub(crate) fn by(mut self, model: &'static str) -> Self {
        self.model = Some(model);
        self.cost = None;
        self
    }

    /// The one run that there is.
    #[track_caller]
    pub(crate) fn run(self) -> RunReport {
        let mut runs = self.runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    fn turn(&mut self, text: &str, calls: Vec<Call<'_>>, stop: Stop) {
        let chars = (text.len() + calls.iter().map(|call| call.input.len()).sum::<usize>()) as u64;
        let turn = TurnStep {
            requests: &[],
            finished: finished(text, calls, stop),
            submits: self.submits,
            model: self.model,
            usage: TurnUsage { tokens: self.tokens, estimated: 0, recorded: true, chars },
            cost: self.cost,
            time: Some(self.time),
            line: None,
            row: None,
        };
        self.folder.take_turn(ConversationId(0), &turn);
    }
}

fn finished<'a>(text: &str, calls: Vec<Call<'a>>, stop: Stop) -> FinishedTurn<'a> {
    FinishedTurn {
        text: VisibleText::from_text(text),
        calls,
        cut_call: false,
        hidden: false,
        gives: false,
        stop,
        output_tokens: None,
    }
}
