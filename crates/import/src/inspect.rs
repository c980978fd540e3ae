//! Logs of Inspect, as JSON or as an `.eval` archive: each sample is a conversation, and a turn is an
//! assistant's message. What other requests of a sample used (a grader's) is a conversation beside
//! it.

mod archive;

use softland_session::wire::Tokens;

use crate::content::{collect_texts, read_arguments, read_result};
use crate::draft::{Results, TurnDraft, parse_stop, parse_time};
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::{Input, JsonError};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

pub(crate) use archive::read_archive;

/// The sub-agent that stands for requests beside a sample's own conversation.
const BESIDE: &str = "beside";

/// The words of a log that its samples need.
#[derive(Debug, Default)]
struct LogHead {
    task: String,
    model: Option<String>,
}

impl LogHead {
    fn from_eval(value: &str) -> Self {
        let eval = Fields::from_json(value).unwrap_or_default();
        Self { task: eval.owned_text("task").unwrap_or_default(), model: eval.owned_text("model") }
    }
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
    let mut head = LogHead::default();
    input.take_object(&mut |input, key| {
        match key {
            "eval" => {
                if let Some(piece) = input.take_value()? {
                    head = LogHead::from_eval(&piece.text);
                }
            }
            "samples" if input.peek() == Some(b'[') => {
                return input.take_array(&mut |input| take_sample(input, out, &head));
            }
            _ => {}
        }
        Ok(())
    })
}

fn take_sample(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    head: &LogHead,
) -> Result<(), JsonError> {
    let line = input.line_number();
    let Some(piece) = input.take_value()? else {
        out.list_unreadable(Some(line), "a sample is longer than 64 MiB");
        return Ok(());
    };
    out.list_mended(&piece);
    if let Err(reason) = read_sample(out, head, &piece.text, line) {
        out.list_unreadable(Some(line), reason);
    }
    Ok(())
}

/// A request of a sample, as its events tell it.
struct Request {
    /// The message that it brought.
    message: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
    time: Option<u64>,
}

fn read_sample(
    out: &mut StepOutput<'_>,
    head: &LogHead,
    text: &str,
    line: u64,
) -> Result<(), String> {
    let sample = Fields::from_json(text)?;
    let mut requests = read_requests(&sample)?;
    let named = [sample.id("id"), sample.id("epoch")].into_iter().flatten();
    let named: Vec<String> = [head.task.clone()].into_iter().chain(named).collect();
    let session = named.join("/");
    let begin = ConversationStart {
        session: Some(&session),
        line: Some(line),
        ..ConversationStart::default()
    };
    let talk = out.begin_conversation(&begin);
    let messages: Vec<Fields<'_>> = array_elements(sample.raw("messages").unwrap_or_default())
        .into_iter()
        .map(Fields::from_json)
        .collect::<Result<_, _>>()?;
    let own = |request: &Request| {
        let brought = |message: &Fields<'_>| message.id("id") == request.message;
        request.message.is_none() || messages.iter().any(brought)
    };
    let (mut turns, beside): (Vec<Request>, Vec<Request>) =
        requests.drain(..).partition(|request| own(request));
    let mut results = Results::default();
    for message in &messages {
        let content = message.raw("content").unwrap_or_default();
        match &*message.text("role").unwrap_or_default() {
            "user" => {
                results.emit_results(out, talk);
                let (texts, media) = collect_texts(content);
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let said = MessageFacts { media, line: Some(line), ..MessageFacts::default() };
                out.send_texts(talk, &texts, said);
            }
            "assistant" => {
                results.emit_results(out, talk);
                let request = take_request(&mut turns, message);
                let mut draft = read_turn(message, request, head)?;
                draft.line = Some(line);
                draft.emit_turn(out, talk);
            }
            "tool" => {
                let id = message.id("tool_call_id").unwrap_or_default();
                let failed = message.raw("error").is_some_and(|error| error != "null");
                results.list.push((id, read_result(content, failed)));
            }
            _ => {}
        }
    }
    results.emit_results(out, talk);
    out.end_conversation(talk);
    turns.retain(|request| request.message.is_none());
    emit_beside(out, &begin, beside.into_iter().chain(turns).collect());
    Ok(())
}

/// Takes the request that brought a message: by its id, or else the next in order.
fn take_request(requests: &mut Vec<Request>, message: &Fields<'_>) -> Option<Request> {
    let id = message.id("id");
    let by_id = requests.iter().position(|request| id.is_some() && request.message == id);
    let at = by_id.or_else(|| requests.iter().position(|request| request.message.is_none()))?;
    Some(requests.remove(at))
}

/// Reads the requests of a sample from its events.
fn read_requests(sample: &Fields<'_>) -> Result<Vec<Request>, String> {
    let older = sample.object("transcript").unwrap_or_default();
    let events = sample.raw("events").or_else(|| older.raw("events")).unwrap_or_default();
    let mut requests = Vec::new();
    for event in array_elements(events) {
        let event = Fields::from_json(event)?;
        let Some(output) =
            event.object("output").filter(|_| event.text("event").as_deref() == Some("model"))
        else {
            continue;
        };
        let choice = array_elements(output.raw("choices").unwrap_or_default());
        let choice = choice.first().and_then(|choice| Fields::from_json(choice).ok());
        requests.push(Request {
            message: choice.and_then(|choice| choice.object("message")?.id("id")),
            model: event.owned_text("model"),
            tokens: output.object("usage").map(|usage| read_tokens(&usage)),
            time: event.text("timestamp").and_then(|at| parse_time(&at)),
        });
    }
    if requests.is_empty()
        && let Some(output) = sample.object("output")
        && let Some(usage) = output.object("usage")
    {
        let (model, tokens) = (output.owned_text("model"), Some(read_tokens(&usage)));
        requests.push(Request { message: None, model, tokens, time: None });
    }
    Ok(requests)
}

fn read_turn(
    message: &Fields<'_>,
    request: Option<Request>,
    head: &LogHead,
) -> Result<TurnDraft, String> {
    let mut draft = TurnDraft { model: head.model.clone(), ..TurnDraft::default() };
    if let Some(request) = request {
        draft.model = request.model.or(draft.model);
        (draft.tokens, draft.time) = (request.tokens, request.time);
    }
    let content = message.raw("content").unwrap_or_default();
    decode_string(content).into_iter().for_each(|text| draft.add_text(text));
    for part in array_elements(content) {
        let part = Fields::from_json(part)?;
        match &*part.text("type").unwrap_or_default() {
            "text" => part.str("text").into_iter().for_each(|text| draft.add_text(text)),
            "reasoning" => draft.add_hidden(part.str("reasoning")),
            _ => draft.gives = true,
        }
    }
    for call in array_elements(message.raw("tool_calls").unwrap_or_default()) {
        let call = Fields::from_json(call)?;
        let id = call.id("id").unwrap_or_default();
        let name = call.owned_text("function").unwrap_or_default();
        draft.add_call(id, name, read_arguments(call.raw("arguments")), false);
    }
    draft.stop = message.text("stop_reason").map(|word| parse_stop(&word));
    Ok(draft)
}

/// Hands on the requests that are no turns of the sample's own conversation.
fn emit_beside(out: &mut StepOutput<'_>, begin: &ConversationStart<'_>, requests: Vec<Request>) {
    if requests.is_empty() {
        return;
    }
    let talk: ConversationId =
        out.begin_conversation(&ConversationStart { agent: Some(BESIDE), ..*begin });
    for request in requests {
        let Request { model, tokens, time, .. } = request;
        let gives = true;
        TurnDraft { model, tokens, time, line: begin.line, gives, ..TurnDraft::default() }
            .emit_turn(out, talk);
    }
    out.end_conversation(talk);
}

/// Reads usage. What was cached stands beside the input, or in it: the total tells.
fn read_tokens(usage: &Fields<'_>) -> Tokens {
    let count = |key| usage.uint(key).unwrap_or(0);
    let (all, output) = (count("input_tokens"), count("output_tokens"));
    let (read, written) = (count("input_tokens_cache_read"), count("input_tokens_cache_write"));
    let within = count("total_tokens") == all + output && read + written <= all;
    Tokens {
        input: if within { all - read - written } else { all },
        output,
        cache_read: read,
        cache_write_5m: written,
        ..Tokens::default()
    }
}
