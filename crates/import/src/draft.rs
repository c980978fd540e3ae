//! A turn and its results, assembled from pieces.

use softland_session::core::{
    Call, Digest, FinishedTurn, NanoUsd, Outcome, Stop, ToolResult, UserMessage, UserText,
};
use softland_session::wire::json::Str;
use softland_session::wire::{ExtraCharges, ServiceTier, Tokens};
use softland_session::{TextReader, find_local_answer, read_local_reason};

use crate::step::{ActivityRow, ConversationId, RequestUsage, TurnStep, TurnUsage, UserStep};
use crate::step_output::StepOutput;

/// Output tokens that may be no real count (`docs/audit.md`): Claude Code mostly records 1 to 10.
const PLACEHOLDER: u64 = 5;

/// Words of the first line of softland's own answers that JSON never escapes.
const LOCAL_WORDS: &str = "[This answer is softland";

/// A turn of the model that is being read.
#[derive(Debug, Default)]
pub(crate) struct TurnDraft {
    /// The visible text so far.
    pub(crate) seen: TextReader,
    pub(crate) calls: Vec<OwnedCall>,
    pub(crate) hidden: bool,
    pub(crate) gives: bool,
    pub(crate) cut_call: bool,
    /// Characters that the model wrote.
    pub(crate) chars: u64,
    pub(crate) stop: Option<Stop>,
    pub(crate) model: Option<String>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) cost: Option<NanoUsd>,
    pub(crate) time: Option<u64>,
    pub(crate) line: Option<u64>,
    pub(crate) row: Option<ActivityRow>,
    /// The requests that it took, where each is recorded.
    pub(crate) requests: Vec<RequestUsage>,
    /// True if one of its calls submits the answer.
    pub(crate) submits: bool,
    /// The uses of the provider's tools that the content shows, and the tier that is recorded beside
    /// the usage.
    pub(crate) charges: ExtraCharges,
    /// True if the answer, or the end of it, is softland's own.
    pub(crate) local: bool,
    /// The reason that softland's own answer gives.
    pub(crate) local_reason: Option<String>,
}

/// A call, kept until its turn is over.
#[derive(Clone, Debug)]
pub(crate) struct OwnedCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: String,
    pub(crate) server: bool,
}

impl TurnDraft {
    pub(crate) fn add_text(&mut self, text: Str<'_>) {
        self.chars += text.char_count() as u64;
        self.seen.add_text(text);
        // Few texts are looked at more closely.
        if text.raw().contains(LOCAL_WORDS)
            && let Some(answer) = find_local_answer(&text.unescape())
        {
            self.local = true;
            self.local_reason = read_local_reason(answer).map(|reason| reason.to_string());
        }
    }

    pub(crate) fn add_hidden(&mut self, text: Option<Str<'_>>) {
        self.hidden = true;
        self.chars += text.map_or(0, |text| text.char_count() as u64);
    }

    pub(crate) fn add_call(&mut self, id: String, name: String, input: String, server: bool) {
        self.chars += input.len() as u64;
        self.calls.push(OwnedCall { id, name, input, server });
    }

    /// Notes the service tier that is recorded beside the usage.
    pub(crate) fn note_tier(&mut self, tier: &str) {
        self.charges.served = ServiceTier::from_tier(tier, false);
    }

    /// Returns true if nothing of an answer came: neither usage nor content.
    pub(crate) fn is_bare(&self) -> bool {
        self.tokens.is_none()
            && self.cost.is_none()
            && self.chars == 0
            && self.calls.is_empty()
            && !(self.hidden || self.gives || self.cut_call)
    }

    /// Hands the turn to the sink.
    pub(crate) fn emit_turn(self, out: &mut StepOutput<'_>, talk: ConversationId) {
        let by_content = self.chars / 4;
        let recorded = self.tokens.is_some();
        let mut tokens = self.tokens.unwrap_or_default();
        if recorded {
            let mut shown = self.charges;
            let hosted = self.calls.iter().filter(|call| call.server);
            hosted.for_each(|call| shown.count_server_tool(&call.name));
            tokens.beside = tokens.beside.or_shown(shown);
            // A tier of an unknown name, such as Groq's `on_demand`, mostly is the standard one.
            if tokens.beside.served == ServiceTier::Other {
                tokens.beside.served = ServiceTier::Unsaid;
            }
        }
        let estimated = by_content.saturating_sub(tokens.output);
        let calls = self.calls.iter().map(|call| Call {
            id: &call.id,
            name: &call.name,
            input: &call.input,
            server: call.server,
        });
        let finished = FinishedTurn {
            text: self.seen.into_text(),
            calls: calls.collect(),
            cut_call: self.cut_call,
            hidden: self.hidden,
            gives: self.gives,
            stop: self.stop.unwrap_or(Stop::Unknown),
            // A small count says little: some recordings keep the value from the start of the
            // response.
            output_tokens: Some(tokens.output).filter(|output| *output > PLACEHOLDER),
        };
        let usage = TurnUsage { tokens, estimated, recorded, chars: self.chars };
        // Where softland answered and no tokens came, nothing was sent.
        let unsent = self.local && recorded && tokens.input_total().max(tokens.output) == 0;
        let cost = self.cost.or_else(|| unsent.then_some(NanoUsd::ZERO));
        let (time, line, row) = (self.time, self.line, self.row);
        let (model, submits) = (self.model.as_deref(), self.submits);
        let requests = &self.requests;
        let turn = TurnStep { finished, model, usage, submits, cost, time, line, requests, row };
        out.send_turn(talk, &turn);
        if self.local {
            let reason = self.local_reason.unwrap_or_default();
            out.send_outcome(talk, Outcome::Stopped.word(), &reason);
        }
    }
}

/// Results, and the texts beside them, that wait for the end of their message.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) list: Vec<(String, ToolResult<'static>)>,
    pub(crate) texts: Vec<String>,
    pub(crate) media: Option<Digest>,
    pub(crate) machine: bool,
    pub(crate) time: Option<u64>,
    pub(crate) line: Option<u64>,
}

impl Results {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.texts.is_empty() && self.media.is_none() && !self.machine
    }

    /// Hands the results to the sink as one message, if there are any.
    pub(crate) fn emit_results(&mut self, out: &mut StepOutput<'_>, talk: ConversationId) {
        let this = std::mem::take(self);
        if this.is_empty() {
            return;
        }
        let results =
            this.list.iter().map(|(id, result)| ToolResult { id: id.into(), ..*result }).collect();
        let texts = if this.machine { &[][..] } else { &this.texts };
        let texts = texts.iter().map(UserText::new).collect();
        let user = UserMessage { results, texts, media: this.media, ..UserMessage::default() };
        let Self { machine, time, line, .. } = this;
        out.send_user_step(talk, &UserStep { user, machine, time, line });
    }
}

/// Parses any provider's word for the reason why a turn ended.
pub(crate) fn parse_stop(word: &str) -> Stop {
    match word.to_ascii_lowercase().as_str() {
        "end_turn" | "stop" | "tool_use" | "tool_calls" | "tool-calls" | "function_call" => {
            Stop::Natural
        }
        "max_tokens" | "length" | "max_output_tokens" => Stop::Length,
        "stop_sequence" => Stop::Sequence,
        "refusal" | "content_filter" | "content-filter" => Stop::Refusal,
        "pause_turn" => Stop::Pause,
        "model_context_window_exceeded" => Stop::ContextFull,
        _ => Stop::Other,
    }
}

/// Parses a time as recordings write it; returns milliseconds since 1970.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let moment: jiff::Timestamp = text.parse().ok().or_else(|| {
        let civil: jiff::civil::DateTime = text.trim_end_matches(" UTC").parse().ok()?;
        civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })?;
    u64::try_from(moment.as_millisecond()).ok()
}
