//! The responses of a scripted model, in the form of each API.

use serde_json::{Value, json};
use softland_session::wire::anthropic::Stop;
use softland_session::wire::responses::Status;
use softland_session::wire::{Tokens, anthropic, chat, responses};

use crate::http::Api;

/// The author of the responses.
const MODEL: &str = "scripted";

/// A call with the id that it gets.
struct NumberedCall<'a> {
    id: String,
    name: &'a str,
    input: String,
}

/// Returns the events of a turn. `begun` counts the calls before it, for their ids, and `asked` is
/// the size of the request in bytes.
pub(super) fn stream_body(
    api: Api,
    text: &str,
    calls: &[(String, Value)],
    begun: usize,
    asked: usize,
) -> Vec<u8> {
    let calls: Vec<NumberedCall<'_>> = (begun + 1..)
        .zip(calls)
        .map(|(n, (name, input))| NumberedCall {
            id: format!("call_{n}"),
            name,
            input: input.to_string(),
        })
        .collect();
    let said = text.len() + calls.iter().map(|call| call.input.len()).sum::<usize>();
    let count = |bytes: usize| bytes.div_ceil(4) as u64;
    let tokens = Tokens { input: count(asked), output: count(said), ..Tokens::default() };
    match api {
        Api::Anthropic => anthropic_events(text, &calls, tokens),
        Api::OpenAiChat => chat_chunks(text, &calls, tokens),
        Api::OpenAiResponses => responses_events(text, &calls, tokens),
    }
}

/// Returns the body of a response with an error status.
pub(super) fn error_body(api: Api, message: &str) -> Vec<u8> {
    match api {
        Api::Anthropic => anthropic::respond::error_body("api_error", message, None),
        Api::OpenAiChat => chat::respond::error_body("api_error", message, None),
        Api::OpenAiResponses => responses::respond::error_body("api_error", "", "", message),
    }
}

fn anthropic_events(text: &str, calls: &[NumberedCall<'_>], tokens: Tokens) -> Vec<u8> {
    use anthropic::respond;
    let (mut out, mut index) = (Vec::new(), 0);
    let usage = anthropic::Usage { tokens, ..Default::default() };
    respond::write_message_start(&mut out, "msg_scripted", MODEL, &usage);
    if !text.is_empty() {
        respond::write_text_block(&mut out, index, text);
        index += 1;
    }
    for call in calls {
        let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        respond::write_block_start(&mut out, index, &block.to_string());
        respond::write_input_json_delta(&mut out, index, &call.input);
        respond::write_block_stop(&mut out, index);
        index += 1;
    }
    let stop = if calls.is_empty() { Stop::EndTurn } else { Stop::ToolUse };
    respond::write_message_delta(&mut out, &stop, None, None, &usage);
    respond::write_message_stop(&mut out);
    out
}

fn chat_chunks(text: &str, calls: &[NumberedCall<'_>], tokens: Tokens) -> Vec<u8> {
    use chat::Finish;
    use chat::respond::{self, Head};
    let mut out = Vec::new();
    let head = Head { id: "chatcmpl-scripted", created: 0, model: MODEL };
    respond::write_role(&mut out, head);
    if !text.is_empty() {
        respond::write_text(&mut out, head, text);
    }
    for (index, call) in (0..).zip(calls) {
        respond::write_call_start(&mut out, head, index, &call.id, call.name);
        respond::write_call_arguments(&mut out, head, index, &call.input);
    }
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    respond::write_finish(&mut out, head, &finish);
    let usage = chat::Usage { tokens, present: true, ..Default::default() };
    respond::write_usage(&mut out, head, &usage);
    respond::write_done(&mut out);
    out
}

fn responses_events(text: &str, calls: &[NumberedCall<'_>], tokens: Tokens) -> Vec<u8> {
    use responses::respond::{self, Head, ResponseEnd};
    let (mut out, mut sequence, mut index) = (Vec::new(), 0, 0);
    let head = Head { id: "resp_scripted", model: MODEL, ..Head::default() };
    let begun = respond::format_response(&head, ResponseEnd::InProgress, &[], None);
    respond::write_head(&mut out, &mut sequence, &begun);
    let mut items: Vec<Vec<u8>> = Vec::new();
    if !text.is_empty() {
        respond::write_text_item(&mut out, &mut sequence, index, "msg_scripted", text);
        items.push(respond::text_item("msg_scripted", text));
        index += 1;
    }
    for call in calls {
        let (id, told) = (format!("fc_{}", call.id), (call.id.as_str(), call.name, &*call.input));
        respond::write_call_item(&mut out, &mut sequence, index, &id, told);
        items.push(respond::call_item(&id, told.0, told.1, told.2));
        index += 1;
    }
    let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    let usage = responses::Usage { tokens, ..Default::default() };
    let whole = respond::format_response(&head, ResponseEnd::Completed, &items, Some(&usage));
    respond::write_end(&mut out, &mut sequence, &Status::Completed, &whole);
    out
}
