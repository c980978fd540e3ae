//! OpenHands: trajectories as one array of actions and observations, and conversations of its CLI, a
//! file for each event beside `base_state.json`. A turn is a response of the model, which may have
//! brought several actions.

use softland_session::core::NanoUsd;
use softland_session::wire::Tokens;

use crate::content::{collect_texts, each_text, parse_dollars, read_arguments, read_result};
use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::Fields;
use crate::input::{Input, JsonError};
use crate::message::parse_usage;
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// The facts in `base_state.json` that its events lack.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseState {
    id: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
    /// What a condenser of the context used, by itself.
    condenser: Option<(Option<Tokens>, Option<NanoUsd>)>,
}

impl BaseState {
    /// Reads the file.
    pub(crate) fn from_fields(fields: &Fields<'_>) -> Self {
        let agent = fields.object("agent").unwrap_or_default();
        let llm = agent.object("llm").unwrap_or_default();
        let stats = fields.object("stats").unwrap_or_default();
        let metrics = stats.object("usage_to_metrics").unwrap_or_default();
        let used = |name: &str| {
            let own = metrics.object(name)?;
            let usage = own.object("accumulated_token_usage");
            Some((usage.map(|usage| read_sums(&usage)), parse_dollars(&own, "accumulated_cost")))
        };
        let name = llm.owned_text("usage_id").unwrap_or_else(|| "agent".to_owned());
        let (tokens, cost) = used(&name).unwrap_or_default();
        Self {
            id: fields.id("id"),
            model: llm.owned_text("model"),
            tokens,
            cost,
            condenser: used("condenser"),
        }
    }
}

/// A conversation that is read event by event.
pub(crate) struct EventConversation {
    talk: ConversationId,
    model: Option<String>,
    /// The turn that goes on, with the id of its response.
    open: Option<(Option<String>, TurnDraft)>,
    results: Results,
    /// What had been used up to the newest event.
    before: (Option<Tokens>, NanoUsd),
    /// What the whole conversation used, where no event says its part.
    base: Option<BaseState>,
}

impl EventConversation {
    /// Begins a conversation. `base` is there where the events are files.
    pub(crate) fn begin(out: &mut StepOutput<'_>, base: Option<BaseState>) -> Self {
        let session = base.as_ref().and_then(|base| base.id.clone());
        let line = base.is_none().then_some(1);
        let session = session.as_deref();
        let begin = ConversationStart { session, line, ..ConversationStart::default() };
        Self {
            talk: out.begin_conversation(&begin),
            model: base.as_ref().and_then(|base| base.model.clone()),
            open: None,
            results: Results::default(),
            before: (None, NanoUsd::ZERO),
            base,
        }
    }

    /// Takes an event, of either form.
    pub(crate) fn take_event(
        &mut self,
        out: &mut StepOutput<'_>,
        event: &Fields<'_>,
        line: Option<u64>,
    ) -> Result<(), String> {
        let time = event.text("timestamp").and_then(|at| parse_time(&at));
        let (person, agent) = (
            event.text("source").as_deref() == Some("user"),
            event.text("source").as_deref() == Some("agent"),
        );
        if let Some(message) = event.object("llm_message") {
            let content = message.raw("content").unwrap_or_default();
            match person {
                true => self.take_user(out, content, (time, line)),
                false => {
                    let draft = self.open_turn(out, event.id("llm_response_id"), (time, line));
                    each_text(content, &mut |text| draft.add_text(text));
                }
            }
        } else if let Some(call) = event.object("tool_call") {
            let draft = self.open_turn(out, event.id("llm_response_id"), (time, line));
            if let Some(thought) = event.raw("thought") {
                each_text(thought, &mut |text| draft.add_text(text));
            }
            let id = call.id("id").unwrap_or_default();
            let name = call.owned_text("name").unwrap_or_default();
            draft.add_call(id, name, read_arguments(call.raw("arguments")), false);
        } else if let Some(seen) = event.object("observation") {
            let content = seen.raw("content").unwrap_or_default();
            let id = event.id("tool_call_id").unwrap_or_default();
            self.take_result(id, content, seen.is_true("is_error"), (time, line));
        } else if event.has_key("observation") {
            let metadata = event.object("tool_call_metadata").unwrap_or_default();
            if let Some(id) = metadata.id("tool_call_id") {
                let failed = event.text("observation").as_deref() == Some("error");
                let content = event.raw("content").unwrap_or_default();
                self.take_result(id, content, failed, (time, line));
            }
        } else if let Some(action) = event.text("action") {
            match (person, agent) {
                (true, _) => {
                    let args = event.object("args").unwrap_or_default();
                    let content = args.raw("content").or_else(|| event.raw("message"));
                    self.take_user(out, content.unwrap_or_default(), (time, line));
                }
                (_, true) => self.take_action(out, event, &action, (time, line)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes an action of a trajectory.
    fn take_action(
        &mut self,
        out: &mut StepOutput<'_>,
        event: &Fields<'_>,
        action: &str,
        place: (Option<u64>, Option<u64>),
    ) {
        let metadata = event.object("tool_call_metadata");
        let response = metadata.as_ref().and_then(|own| own.object("model_response"));
        let id = response.as_ref().and_then(|response| response.id("id"));
        // An action that no response brought, and that cost nothing, is the program's own.
        let metrics = event.object("llm_metrics");
        if id.is_none() && metrics.is_none() && !matches!(action, "message" | "finish") {
            return;
        }
        let used = metrics.as_ref().map(|metrics| self.take_difference(metrics));
        let stated = response.as_ref().and_then(|response| parse_usage(response.raw("usage")?));
        let args = event.object("args").unwrap_or_default();
        let draft = self.open_turn(out, id, place);
        if let Some((tokens, cost)) = used {
            draft.tokens = draft.tokens.or(tokens);
            draft.cost = Some(draft.cost.unwrap_or_default() + cost);
        }
        draft.tokens = stated.map(|(tokens, _)| tokens).or(draft.tokens);
        if let Some(model) = response.and_then(|response| response.owned_text("model")) {
            draft.model = Some(model);
        }
        for key in ["content", "thought", "final_thought"] {
            args.str(key).into_iter().for_each(|text| draft.add_text(text));
        }
        let named = metadata.as_ref().and_then(|own| own.owned_text("function_name"));
        if let (Some(name), Some(own)) = (named, &metadata) {
            let id = own.id("tool_call_id").unwrap_or_default();
            let input = event.raw("args").unwrap_or("{}").to_owned();
            draft.submits |= action == "finish";
            draft.add_call(id, name, input, false);
        }
    }

    /// Returns what was used since the event before.
    fn take_difference(&mut self, metrics: &Fields<'_>) -> (Option<Tokens>, NanoUsd) {
        let usage = metrics.object("accumulated_token_usage");
        let sums = usage.map(|usage| read_sums(&usage));
        let cost = parse_dollars(metrics, "accumulated_cost").unwrap_or(self.before.1);
        let (before, spent) = (self.before.0.unwrap_or_default(), self.before.1);
        self.before = (sums.or(self.before.0), cost);
        let less = sums.map(|sums| Tokens {
            input: sums.input.saturating_sub(before.input),
            output: sums.output.saturating_sub(before.output),
            cache_read: sums.cache_read.saturating_sub(before.cache_read),
            cache_write_5m: sums.cache_write_5m.saturating_sub(before.cache_write_5m),
            ..Tokens::default()
        });
        (less, cost.saturating_sub(spent))
    }

    fn take_user(
        &mut self,
        out: &mut StepOutput<'_>,
        content: &str,
        (time, line): (Option<u64>, Option<u64>),
    ) {
        self.close_turn(out);
        let (texts, media) = collect_texts(content);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let said = MessageFacts { media, time, line, ..MessageFacts::default() };
        out.send_texts(self.talk, &texts, said);
    }

    fn take_result(
        &mut self,
        id: String,
        content: &str,
        failed: bool,
        (time, line): (Option<u64>, Option<u64>),
    ) {
        self.results.list.push((id, read_result(content, failed)));
        self.results.time = self.results.time.or(time);
        self.results.line = self.results.line.or(line);
    }

    /// Returns the turn of a response. Events of another response end the one before.
    fn open_turn(
        &mut self,
        out: &mut StepOutput<'_>,
        response: Option<String>,
        (time, line): (Option<u64>, Option<u64>),
    ) -> &mut TurnDraft {
        let same = self.open.as_ref().is_some_and(|(id, _)| id.is_some() && *id == response);
        if !same {
            self.close_turn(out);
        }
        let model = self.model.clone();
        let fresh = || (response, TurnDraft { time, line, model, ..TurnDraft::default() });
        &mut self.open.get_or_insert_with(fresh).1
    }

    /// Hands on the open turn and its results.
    fn close_turn(&mut self, out: &mut StepOutput<'_>) {
        if let Some((_, draft)) = self.open.take() {
            draft.emit_turn(out, self.talk);
        }
        self.results.emit_results(out, self.talk);
    }

    /// Ends the conversation. What was used in all counts with its last turn.
    pub(crate) fn end(mut self, out: &mut StepOutput<'_>) {
        if let (Some((_, draft)), Some(base)) = (&mut self.open, &self.base) {
            draft.tokens = draft.tokens.or(base.tokens);
            draft.cost = draft.cost.or(base.cost);
        }
        self.close_turn(out);
        out.end_conversation(self.talk);
        let base = self.base.take().unwrap_or_default();
        if let Some((tokens, cost)) = base.condenser {
            let (session, agent) = (base.id.as_deref(), Some("condenser"));
            let begin = ConversationStart { session, agent, ..ConversationStart::default() };
            let talk = out.begin_conversation(&begin);
            let model = base.model;
            TurnDraft { model, tokens, cost, gives: true, ..TurnDraft::default() }
                .emit_turn(out, talk);
            out.end_conversation(talk);
        }
    }
}

/// Reads a trajectory.
pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = read_array(input, out) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

fn read_array(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let mut reader = EventConversation::begin(out, None);
    let read = input.take_array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take_value()? else {
            out.list_unreadable(Some(line), "an event is longer than 64 MiB");
            return Ok(());
        };
        out.list_mended(&piece);
        let taken = Fields::from_json(&piece.text)
            .and_then(|event| reader.take_event(out, &event, Some(line)));
        if let Err(reason) = taken {
            out.list_unreadable(Some(line), reason);
        }
        Ok(())
    });
    reader.end(out);
    read
}

/// Reads sums of tokens. `prompt_tokens` holds what was cached.
fn read_sums(usage: &Fields<'_>) -> Tokens {
    let count = |key| usage.uint(key).unwrap_or(0);
    let (read, written) = (count("cache_read_tokens"), count("cache_write_tokens"));
    Tokens {
        input: count("prompt_tokens").saturating_sub(read).saturating_sub(written),
        output: count("completion_tokens"),
        cache_read: read,
        cache_write_5m: written,
        ..Tokens::default()
    }
}
