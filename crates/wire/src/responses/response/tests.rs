use super::*;
use crate::{bound::AssembleError, responses::stream::Event};

fn fold(events: &[&str]) -> Finished {
    fold_within(1 << 20, events).unwrap()
}

fn fold_within(limit: usize, events: &[&str]) -> Result<Finished, AssembleError> {
    let mut assembler = Assembler::new(limit);
    for data in events {
        assembler.push(&Event::from_data("", data).unwrap())?;
    }
    Ok(assembler.finish())
}

const CREATED: &str =
    r#"{"type":"response.created","response":{"id":"r1","model":"m","status":"in_progress"}}"#;
const MESSAGE: &str = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg","role":"assistant","status":"in_progress","content":[],"phase":"final_answer"}}"#;
const TEXT: &str = r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hel\"lo"}"#;
const CALL: &str = r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"","status":"in_progress"}}"#;
const ARGUMENTS: &str =
    r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\":1}"}"#;
const CALL_DONE: &str = r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}","status":"completed"}}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"id":"r2","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"whole"}]}],"usage":{"input_tokens":9,"output_tokens":4}}}"#;

fn call(item: &OutputItem) -> (&str, bool) {
    let OutputKind::Call { arguments, complete, .. } = &item.kind else { panic!("{item:?}") };
    (arguments, *complete)
}

#[test]
fn a_cut_stream_has_what_came_of_it() {
    let finished = fold(&[CREATED, MESSAGE, TEXT, CALL, ARGUMENTS]);
    assert_eq!((finished.end, finished.strays), (StreamEnd::Cut, 0));
    let items = finished.response.items;
    assert_eq!(items[0].text(), Some("Hel\"lo"));
    assert_eq!(
        items[0].raw,
        r#"{"type":"message","id":"msg","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"Hel\"lo","annotations":[]}],"status":"incomplete"}"#
    );
    assert_eq!(call(&items[1]), (r#"{"a":1}"#, false));
    assert!(items[1].raw.contains(r#""arguments":"{\"a\":1}""#));
}

#[test]
fn only_done_calls_with_objects_are_complete() {
    let done = |item: &str| {
        let data =
            format!(r#"{{"type":"response.output_item.done","output_index":1,"item":{item}}}"#);
        call(&fold(&[CREATED, CALL, &data]).response.items[0]).1
    };
    assert!(done(r#"{"type":"function_call","arguments":"{}","status":"completed"}"#));
    assert!(done(r#"{"type":"function_call","arguments":"{}"}"#));
    assert!(!done(r#"{"type":"function_call","arguments":"{}","status":"incomplete"}"#));
    assert!(!done(r#"{"type":"function_call","arguments":"{\"a\":"}"#));
    assert!(!done(r#"{"type":"function_call","arguments":"[1]","status":"completed"}"#));
    assert!(!done(r#"{"type":"function_call","arguments":"","status":"completed"}"#));
    assert!(done(r#"{"type":"custom_tool_call","input":"","status":"completed"}"#));
}

/// In a response that was cut, an item that is not marked completed is incomplete.
#[test]
fn a_cut_response_leaves_only_completed_calls_whole() {
    let item = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"custom_tool_call","input":"half"}}"#;
    let end = r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#;
    let finished = fold(&[CREATED, item, CALL_DONE, end]);
    assert_eq!(finished.end, StreamEnd::Stop);
    assert_eq!(finished.response.status, Some(Status::Incomplete));
    let complete: Vec<bool> = finished.response.items.iter().map(|item| call(item).1).collect();
    assert_eq!(complete, [false, true]);
}

#[test]
fn the_terminal_event_stands_in_for_what_did_not_come() {
    let finished = fold(&[CREATED, COMPLETED]);
    assert_eq!((finished.response.text().as_str(), finished.end), ("whole", StreamEnd::Stop));
    // An item that began is filled in if it is the same. An item that was done is not changed.
    let finished = fold(&[CREATED, MESSAGE, TEXT, COMPLETED]);
    assert_eq!(finished.response.text(), "whole");
    assert!(finished.response.items[0].done);
    let finished = fold(&[CREATED, CALL, ARGUMENTS, COMPLETED]);
    assert_eq!(call(&finished.response.items[0]), (r#"{"a":1}"#, false));
    let finished = fold(&[CREATED, CALL, CALL_DONE, COMPLETED]);
    assert_eq!(finished.response.items.len(), 1);
    assert_eq!((finished.response.id.as_str(), finished.response.model.as_str()), ("r2", "m"));
}

#[test]
fn a_failure_is_an_error_and_still_says_what_it_used() {
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"},"usage":{"input_tokens":2,"output_tokens":1}}}"#;
    let error = r#"{"type":"error","error":{"type":"t","code":"c","message":"first"}}"#;
    let failure = |kind: &str, code: &str, message: &str| {
        let [kind, code, message] = [kind, code, message].map(str::to_owned);
        StreamEnd::Error(Failure { kind, code, message })
    };
    let finished = fold(&[CREATED, failed]);
    assert_eq!(finished.end, failure("", "server_error", "boom"));
    let finished = fold(&[CREATED, error, failed]);
    assert_eq!(finished.end, failure("t", "c", "first"));
    assert_eq!(finished.response.status, Some(Status::Failed));
    assert_eq!((finished.response.usage.tokens.input, finished.strays), (2, 0));
    assert_eq!(fold(&[CREATED, error, TEXT]).strays, 1);
}

#[test]
fn what_has_no_place_is_counted() {
    let finished = fold(&[CREATED, TEXT, ARGUMENTS]);
    assert_eq!((finished.response.text().as_str(), finished.strays), ("Hel\"lo", 2));
    // An item done without having begun is accepted; the same item again is not, nor anything after
    // the end.
    let finished = fold(&[CREATED, CALL_DONE, CALL_DONE, COMPLETED, TEXT]);
    assert_eq!((finished.response.items.len(), finished.strays), (1, 2));
    let no_index = r#"{"type":"response.output_text.delta","delta":"x"}"#;
    assert_eq!(fold(&[CREATED, no_index]).strays, 1);
}

#[test]
fn a_spliced_response_goes_behind_the_first() {
    assert_eq!(fold(&[CREATED, CREATED, MESSAGE]).restarts, 1);
    let finished = fold(&[CREATED, MESSAGE, TEXT, CREATED, MESSAGE, TEXT]);
    assert_eq!((finished.response.text().as_str(), finished.restarts), ("Hel\"loHel\"lo", 1));
    let finished = fold(&[CREATED, MESSAGE, TEXT, MESSAGE, TEXT]);
    assert_eq!((finished.response.items.len(), finished.restarts), (2, 1));
}

#[test]
fn memory_is_bounded_and_the_error_stays() {
    let limit = 4096;
    let mut assembler = Assembler::new(limit);
    let created = Event::from_data("", CREATED).unwrap();
    assembler.push(&created).unwrap();
    assembler.push(&Event::from_data("", MESSAGE).unwrap()).unwrap();
    let text = Event::from_data("", TEXT).unwrap();
    let pushed = (0..1000).take_while(|_| assembler.push(&text).is_ok()).count();
    assert!((100..1000).contains(&pushed), "{pushed}");
    assert_eq!(assembler.push(&created), Err(AssembleError::TooLarge { limit }));
    assert!(assembler.tokens_so_far().output > 100);
    assert!(assembler.finish().response.text().len() <= limit);
    assert!(fold_within(10, &[CREATED]).is_err());
}

/// An event that is too large leaves no trace, and the earlier content stays.
#[test]
fn an_item_too_large_is_left_out() {
    let long = "x".repeat(5000);
    let done = format!(
        r#"{{"type":"response.output_item.done","output_index":0,"item":{{"type":"message","content":[{{"type":"output_text","text":"{long}"}}]}}}}"#
    );
    for before in [&[CREATED][..], &[CREATED, MESSAGE, TEXT]] {
        let mut assembler = Assembler::new(4096);
        for data in before {
            assembler.push(&Event::from_data("", data).unwrap()).unwrap();
        }
        let text = if before.len() == 1 { "" } else { "Hel\"lo" };
        assert!(assembler.push(&Event::from_data("", &done).unwrap()).is_err());
        let response = assembler.finish().response;
        assert_eq!((response.text().as_str(), response.items.len()), (text, before.len() / 2));
    }
}

/// A text is stored once, however often the stream repeats it.
#[test]
fn repetitions_cost_no_memory() {
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"x"}]}}"#;
    let repeated = CREATED.replace("created", "in_progress");
    let mut events = vec![CREATED, MESSAGE];
    events.extend([TEXT; 50]);
    events.push(done);
    events.extend([repeated.as_str(); 50]);
    assert!(fold_within(2048, &events).is_ok());
}

#[test]
fn a_body_that_is_no_response_is_named() {
    let error = |body: &str| Response::from_json(body.as_bytes()).unwrap_err();
    assert_eq!(error(r#"{"error":{"message":"no"}}"#), ResponseError::NoOutput);
    assert!(matches!(error("<html>"), ResponseError::Json(_)));
    let failed = r#"{"id":"r","status":"failed","error":{"code":"server_error","message":"boom"}}"#;
    let response = Response::from_json(failed.as_bytes()).unwrap();
    assert_eq!(response.error.unwrap().message, "boom");
    assert!(response.items.is_empty() && response.raw == failed);
}
