use softland_wire::{Api, Splice};

use super::*;

const SHOWN: &str = r#"{"role":"user","content":"a"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}"#;
const RESULT: &str = r#"{"type":"function_call_output","call_id":"c1","output":"x"}"#;

/// Reads a request and joins it with its history.
fn join(body: &Bytes, links: &[ChainLink]) -> Option<(Bytes, Chain)> {
    let request = Request::from_body(Api::Responses, body).ok()?;
    Chain::join_links(&request, body, links)
}

fn link(upstream: Option<&str>, add: &str) -> ChainLink {
    let upstream = upstream.map(str::to_owned);
    ChainLink { before: None, items: SHOWN.to_owned(), upstream, add: add.to_owned() }
}

/// Requests in every order of their members, with their input as a text and as a list.
fn bodies() -> Vec<String> {
    let mut bodies = Vec::new();
    for input in [format!("[ {RESULT} ]"), r#""a \"text\"""#.to_owned()] {
        let (id, input) = (r#""previous_response_id" : "r1""#, format!("\"input\":{input}"));
        bodies.push(format!(r#"{{"model":"m",{id},{input}}}"#));
        bodies.push(format!(r#"{{{input} , "model":"m",{id} }}"#));
    }
    bodies
}

#[test]
fn what_has_no_edits_goes_on_as_it_was_sent() {
    for body in bodies() {
        let body = Bytes::from(body);
        let (joined, chain) = join(&body, &[link(Some("r1"), "")]).unwrap();
        let request = Request::from_body(Api::Responses, &joined).unwrap();
        assert!(request.previous.is_none());
        let list = request.messages.span.slice_of(request.text);
        assert!(list.starts_with(&format!("[{SHOWN},")), "{list}");
        assert_eq!(chain.cut_body(&Splice::new(), &joined), body);
        // The provider has the edits before the new items already.
        let mut splice = Splice::new();
        splice.insert(request.messages.span.start + 10, "X");
        assert_eq!(chain.cut_body(&splice, &joined), body);
    }
}

#[test]
fn the_provider_goes_on_from_the_response_that_it_knows() {
    for body in bodies() {
        let body = Bytes::from(body);
        let (joined, chain) = join(&body, &[link(Some("other"), "")]).unwrap();
        let cut = chain.cut_body(&Splice::new(), &joined);
        let wanted = String::from_utf8(body.to_vec()).unwrap().replace("\"r1\"", "\"other\"");
        assert_eq!(cut, wanted);
        let (joined, chain) = join(&body, &[link(None, SHOWN)]).unwrap();
        let cut = chain.cut_body(&Splice::new(), &joined);
        let request = Request::from_body(Api::Responses, &cut).unwrap();
        assert!(request.previous.is_none(), "{request:?}");
        let new = new_items(&Request::from_body(Api::Responses, &body).unwrap(), None).unwrap();
        assert_eq!(new_items(&request, None).unwrap(), format!("{SHOWN},{new}"));
    }
}

#[test]
fn edits_of_what_is_new_go_upstream() {
    for body in bodies() {
        let body = Bytes::from(body);
        let (joined, chain) = join(&body, &[link(Some("r1"), RESULT)]).unwrap();
        let request = Request::from_body(Api::Responses, &joined).unwrap();
        let mut splice = Splice::new();
        splice.append_messages(&request, &[br#"{"role":"user","content":"more"}"#.to_vec()]);
        let cut = chain.cut_body(&splice, &joined);
        let sent = Request::from_body(Api::Responses, &cut).unwrap();
        assert_eq!(sent.previous.unwrap().0.unescape(), "r1");
        let new = chain.new_items(&request).unwrap();
        let wanted = format!(r#"{RESULT},{new},{{"role":"user","content":"more"}}"#);
        assert_eq!(new_items(&sent, None).unwrap(), wanted);
    }
}

#[test]
fn without_anything_new_there_is_nothing_to_find_ones_way_by() {
    let body = Bytes::from_static(br#"{"model":"m","previous_response_id":"r1","input":[]}"#);
    assert!(join(&body, &[link(Some("r1"), "")]).is_none());
    let body = Bytes::from_static(br#"{"model":"m","previous_response_id":"r1"}"#);
    assert!(join(&body, &[link(Some("r1"), "")]).is_none());
}
