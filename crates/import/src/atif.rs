//! Trajectories in ATIF (`trajectory.json` of Harbor and others): a turn is a step of the agent that
//! asked a model. Embedded sub-agents are conversations of their own; steps that a continuation
//! copies from the trajectory before count there.

use softland_session::wire::Tokens;

use crate::content::{collect_texts, each_text, parse_dollars, read_arguments, read_result};
use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::{Fields, array_elements};
use crate::input::{Input, JsonError};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// A trajectory's own words, which come before its steps.
#[derive(Default)]
struct Head {
    session: Option<String>,
    name: Option<String>,
    model: Option<String>,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = read_document(input, out) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

fn read_document(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let (mut head, mut talk) = (Head::default(), None);
    let read = input.take_object(&mut |input, key| {
        match key {
            "agent" | "session_id" | "trajectory_id" => {
                let Some(piece) = input.take_value()? else { return Ok(()) };
                head.take_member(key, &piece.text);
            }
            "steps" if input.peek() == Some(b'[') => {
                let begin = ConversationStart {
                    session: head.session.as_deref().or(head.name.as_deref()),
                    line: Some(1),
                    ..ConversationStart::default()
                };
                let talk = *talk.get_or_insert_with(|| out.begin_conversation(&begin));
                return input.take_array(&mut |input| {
                    let line = input.line_number();
                    let Some(piece) = input.take_value()? else {
                        out.list_unreadable(Some(line), "a step is longer than 64 MiB");
                        return Ok(());
                    };
                    out.list_mended(&piece);
                    let line = piece.line;
                    if let Err(reason) = read_step(out, talk, &head, &piece.text, line) {
                        out.list_unreadable(Some(line), reason);
                    }
                    Ok(())
                });
            }
            "subagent_trajectories" if input.peek() == Some(b'[') => {
                return input.take_array(&mut |input| {
                    let line = input.line_number();
                    if let Some(piece) = input.take_value()?
                        && let Err(reason) = read_agent(out, &head, &piece.text, line)
                    {
                        out.list_unreadable(Some(line), reason);
                    }
                    Ok(())
                });
            }
            _ => {}
        }
        Ok(())
    });
    talk.into_iter().for_each(|talk| out.end_conversation(talk));
    read
}

impl Head {
    fn take_member(&mut self, key: &str, value: &str) {
        let text = || Some(crate::fields::decode_string(value)?.unescape().into_owned());
        match key {
            "session_id" => self.session = text(),
            "trajectory_id" => self.name = text(),
            _ => {
                let agent = Fields::from_json(value).unwrap_or_default();
                self.model = agent.owned_text("model_name");
            }
        }
    }
}

/// Reads the trajectory of a sub-agent, which stands in that of its caller.
fn read_agent(
    out: &mut StepOutput<'_>,
    caller: &Head,
    text: &str,
    line: u64,
) -> Result<(), String> {
    let fields = Fields::from_json(text)?;
    let mut head = Head { session: caller.session.clone(), ..Head::default() };
    for key in ["trajectory_id", "agent"] {
        fields.raw(key).into_iter().for_each(|value| head.take_member(key, value));
    }
    let begin = ConversationStart {
        session: head.session.as_deref().or(caller.name.as_deref()),
        agent: Some(head.name.as_deref().unwrap_or("sub-agent")),
        line: Some(line),
        ..ConversationStart::default()
    };
    let talk = out.begin_conversation(&begin);
    for step in array_elements(fields.raw("steps").unwrap_or_default()) {
        read_step(out, talk, &head, step, line)?;
    }
    out.end_conversation(talk);
    for inner in array_elements(fields.raw("subagent_trajectories").unwrap_or_default()) {
        read_agent(out, &head, inner, line)?;
    }
    Ok(())
}

fn read_step(
    out: &mut StepOutput<'_>,
    talk: ConversationId,
    head: &Head,
    text: &str,
    line: u64,
) -> Result<(), String> {
    let step = Fields::from_json(text)?;
    if step.is_true("is_copied_context") {
        return Ok(());
    }
    let time = step.text("timestamp").and_then(|at| parse_time(&at));
    let message = step.raw("message").unwrap_or_default();
    let source = step.text("source").unwrap_or_default();
    if source == "user" {
        let (texts, media) = collect_texts(message);
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let said = MessageFacts { media, time, line: Some(line), ..MessageFacts::default() };
        out.send_texts(talk, &texts, said);
    }
    if source != "agent" {
        return Ok(());
    }
    // A step without a request is a script's.
    let asked = step.uint("llm_call_count") != Some(0);
    if asked {
        let mut draft = TurnDraft { time, line: Some(line), ..TurnDraft::default() };
        draft.model = step.owned_text("model_name").or_else(|| head.model.clone());
        if each_text(message, &mut |text| draft.add_text(text)).is_some() {
            draft.gives = true;
        }
        if let Some(thought) = step.str("reasoning_content") {
            draft.add_hidden(Some(thought));
        }
        for call in array_elements(step.raw("tool_calls").unwrap_or_default()) {
            let call = Fields::from_json(call)?;
            let id = call.id("tool_call_id").unwrap_or_default();
            let name = call.owned_text("function_name").unwrap_or_default();
            draft.add_call(id, name, read_arguments(call.raw("arguments")), false);
        }
        if let Some(metrics) = step.object("metrics") {
            draft.tokens = Some(read_tokens(&metrics));
            draft.cost = parse_dollars(&metrics, "cost_usd");
        }
        draft.emit_turn(out, talk);
    }
    read_observation(out, talk, &step, (time, line), asked)
}

/// Reads the results of a step's calls. What no call asked for is a program's message.
fn read_observation(
    out: &mut StepOutput<'_>,
    talk: ConversationId,
    step: &Fields<'_>,
    (time, line): (Option<u64>, u64),
    asked: bool,
) -> Result<(), String> {
    let Some(observation) = step.object("observation") else { return Ok(()) };
    let mut results = Results { time, line: Some(line), ..Results::default() };
    for result in array_elements(observation.raw("results").unwrap_or_default()) {
        let result = Fields::from_json(result)?;
        let content = result.raw("content").unwrap_or_default();
        match result.id("source_call_id").filter(|_| asked) {
            Some(id) => results.list.push((id, read_result(content, false))),
            None => results.machine = true,
        }
    }
    results.emit_results(out, talk);
    Ok(())
}

/// Reads the metrics of a step. `prompt_tokens` holds what was cached.
fn read_tokens(metrics: &Fields<'_>) -> Tokens {
    let count = |key| metrics.uint(key).unwrap_or(0);
    let extra = metrics.object("extra").unwrap_or_default();
    let written = ["cache_creation_input_tokens", "cache_write_tokens"];
    let written = written.iter().find_map(|key| extra.uint(key)).unwrap_or(0);
    let read = count("cached_tokens");
    Tokens {
        input: count("prompt_tokens").saturating_sub(read).saturating_sub(written),
        output: count("completion_tokens"),
        cache_read: read,
        cache_write_5m: written,
        ..Tokens::default()
    }
}
