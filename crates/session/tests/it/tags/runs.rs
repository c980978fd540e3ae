//! Calls that are written as text, in a run: counted, told, landed, refused.

use super::*;

fn limited(calls: u64) -> Policy {
    Policy { tool_calls_limit: Some(calls), ..Policy::default() }
}

/// The last text of a request.
fn last_text(api: Api, body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap();
    let member = if api == Api::Responses { "input" } else { "messages" };
    let last = json[member].as_array().unwrap().last().unwrap();
    match &last["content"] {
        serde_json::Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn a_history_counts_its_blocks_and_its_next_message_is_no_person() {
    let two = format!("Look: {} {}", block("a"), block("b"));
    let result = "Tool 'a' result: one\n\nTool 'b' result: two";
    for api in APIS {
        let history = [
            ("user", "What?"),
            ("assistant", two.as_str()),
            ("user", result),
            ("assistant", &block("c")),
            ("user", "as one text"),
        ];
        let shape = Some(on());
        let (exchange, sent) =
            begin(request(api, true, &history), context(api, limited(4), shape.clone()));
        assert_eq!((exchange.run().used().calls, exchange.run().used().rounds), (3, 2), "{api:?}");
        assert_eq!(last_text(api, &sent), "as one text\n\n1 tool call remaining", "{api:?}");
        // What was sent before stands as it stood.
        let (_, before) =
            begin(request(api, true, &history[..3]), context(api, limited(4), shape.clone()));
        assert_eq!(last_text(api, &before), format!("{result}\n\n2 tool calls remaining"));
        let sent = String::from_utf8(sent).unwrap();
        assert!(sent.contains("2 tool calls remaining"), "{api:?}");
        // Without a shape the same words are words, and every message is a person's.
        let (plain, _) = begin(request(api, true, &history), context(api, limited(4), None));
        assert_eq!(plain.run().used().calls, 0);
        // A new question begins a new run.
        let mut asked = history.to_vec();
        asked.extend([("assistant", "It is this."), ("user", "And what else?")]);
        let (next, _) = begin(request(api, true, &asked), context(api, limited(4), shape));
        assert_eq!(next.run().used().calls, 0, "{api:?}");
    }
}

#[test]
fn at_the_limit_the_ask_stands_in_the_message_and_a_block_is_refused_unseen() {
    for api in APIS {
        let history = [("user", "What?"), ("assistant", &*block("a")), ("user", "found it")];
        let (mut exchange, sent) =
            begin(request(api, true, &history), context(api, limited(1), Some(on())));
        assert!(last_text(api, &sent).ends_with("further tool calls will not be run."), "{api:?}");
        let mut out = Output::default();
        let stubborn = format!("Still looking. {}", block("b"));
        exchange.push_bytes(&stream(api, &[&stubborn], Ends::Natural), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
        let Step::Send(again) = exchange.next_step().unwrap() else { panic!("it is asked again") };
        assert!(last_text(api, &again).contains("<tool_result name=\"b\">\nNot run."), "{api:?}");
        exchange.push_bytes(&stream(api, &["It is this."], Ends::Natural), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
        let Step::Done(done) = exchange.next_step().unwrap() else { panic!("it is over") };
        assert_eq!(done.ended.unwrap().outcome, Outcome::Landed, "{api:?}");
        let shown = read(api, true, &out.bytes).text;
        assert!(shown.starts_with("Still looking. ") && shown.ends_with("It is this."), "{shown}");
        assert!(!shown.contains("use_tool"), "{shown}");
    }
}

/// Without declared tools `none` changes nothing: a request that brought nothing is not paid for
/// once more.
#[test]
fn no_request_is_sent_twice() {
    for api in APIS {
        let history = [("user", "What?"), ("assistant", &*block("a")), ("user", "found it")];
        let (mut exchange, first) =
            begin(request(api, true, &history), context(api, limited(1), Some(on())));
        let mut sent = vec![first];
        let mut out = Output::default();
        let done = loop {
            exchange.push_bytes(&stream(api, &[&block("b")], Ends::Natural), &mut out).unwrap();
            exchange.finish_response(&mut out).unwrap();
            match exchange.next_step().unwrap() {
                Step::Send(body) => sent.push(body.to_vec()),
                Step::Done(done) => break done,
            }
        };
        assert_eq!((sent.len(), done.local), (2, true), "{api:?}");
        assert_ne!(sent[0], sent[1], "{api:?}");
        // It may be the first request of a landing all the same.
        let policy = Policy { landing: Landing::None, ..limited(1) };
        let (exchange, _) = begin(request(api, true, &history), context(api, policy, Some(on())));
        assert_eq!(exchange.rung(), Some(Rung::None), "{api:?}");
    }
}

/// A turn of which the shape leaves nothing is repaired, not passed on as an empty answer.
#[test]
fn b59_a_broken_block_alone_is_no_empty_answer() {
    let shape = Shape { partial: PartialBlocks::Drop, ..on() };
    for api in APIS {
        for streams in [true, false] {
            // Nothing in the request says that it is about calls.
            let chat = String::from_utf8(request(api, streams, ASKED)).unwrap();
            let chat = chat.replace("use_tool", "words").into_bytes();
            let (mut exchange, _) =
                begin(chat.clone(), context(api, Policy::default(), Some(shape.clone())));
            let mut out = Output::default();
            let say = |exchange: &mut Exchange, text: &str, out: &mut Output| {
                if streams {
                    exchange.push_bytes(&stream(api, &[text], Ends::Natural), out).unwrap();
                    exchange.finish_response(out).unwrap();
                } else {
                    exchange.push_whole(&whole(api, text, Ends::Natural), out).unwrap();
                }
            };
            say(&mut exchange, "<use_tool>{\"name\"", &mut out);
            let Step::Send(again) = exchange.next_step().unwrap() else {
                panic!("{api:?}: it is asked again")
            };
            assert!(last_text(api, &again).contains("Please continue."), "{api:?}");
            say(&mut exchange, "Here it is.", &mut out);
            let Step::Done(done) = exchange.next_step().unwrap() else { panic!("it has answered") };
            assert_eq!(done.answer.as_deref(), Some("Here it is."), "{api:?}");
            assert_eq!(read(api, streams, &out.bytes).text, "Here it is.", "{api:?} {streams}");
            // An empty turn that the shape did not empty is a chat's own affair, as ever.
            let (mut exchange, _) =
                begin(chat.clone(), context(api, Policy::default(), Some(shape.clone())));
            say(&mut exchange, "", &mut out);
            assert!(matches!(exchange.next_step().unwrap(), Step::Done(_)), "{api:?}");
        }
    }
}

#[test]
fn of_a_batch_only_what_fits_reaches_the_client() {
    let three = format!("I look. {}\nand {}\nand {}\ntail", block("a"), block("b"), block("c"));
    for api in APIS {
        for streams in [true, false] {
            for (batch, wanted) in [
                (Batch::First, format!("I look. {}\nand {}", block("a"), block("b"))),
                (
                    Batch::All,
                    format!("I look. {}\nand {}\nand {}", block("a"), block("b"), block("c")),
                ),
            ] {
                let policy = Policy { batch, ..limited(2) };
                let (mut exchange, _) =
                    begin(request(api, streams, ASKED), context(api, policy, Some(on())));
                let mut out = Output::default();
                if streams {
                    let pieces: Vec<&str> = three.split_inclusive(' ').collect();
                    exchange.push_bytes(&stream(api, &pieces, Ends::Natural), &mut out).unwrap();
                    exchange.finish_response(&mut out).unwrap();
                } else {
                    exchange.push_whole(&whole(api, &three, Ends::Natural), &mut out).unwrap();
                }
                let Step::Done(done) = exchange.next_step().unwrap() else {
                    panic!("the client runs them")
                };
                assert!(done.ended.is_none());
                let runs = done.calls.iter().filter(|call| call.admission.is_run()).count();
                assert_eq!(runs, if batch == Batch::First { 2 } else { 3 });
                assert_eq!(
                    read(api, streams, &out.bytes).text,
                    wanted,
                    "{api:?} {streams} {batch:?}"
                );
            }
            let policy = Policy { batch: Batch::None, ..limited(2) };
            let (mut exchange, _) =
                begin(request(api, streams, ASKED), context(api, policy, Some(on())));
            let mut out = Output::default();
            if streams {
                exchange.push_bytes(&stream(api, &[&three], Ends::Natural), &mut out).unwrap();
                exchange.finish_response(&mut out).unwrap();
            } else {
                exchange.push_whole(&whole(api, &three, Ends::Natural), &mut out).unwrap();
            }
            assert!(
                matches!(exchange.next_step().unwrap(), Step::Send(_)),
                "none of them runs: the next rung"
            );
        }
    }
}

#[test]
fn a_call_that_waits_for_the_verdict_passes_where_it_is_admitted() {
    // Under `none` every call of a turn waits until all of them are there.
    let policy = Policy { batch: Batch::None, ..limited(2) };
    let two = format!("I look. {}\nand {}\ntail", block("a"), block("b"));
    for api in APIS {
        let (exchange, _) =
            begin(request(api, true, ASKED), context(api, policy.clone(), Some(on())));
        let bytes = stream(api, &two.split_inclusive('\n').collect::<Vec<_>>(), Ends::Natural);
        let came = feed(exchange, bytes.chunks(17));
        let wanted = format!("I look. {}\nand {}", block("a"), block("b"));
        assert_eq!(
            came.read(api, true),
            Read { text: wanted, ends: Some(Ends::Natural) },
            "{api:?}"
        );
        assert_eq!(came.calls().len(), 2);
    }
}

#[test]
fn an_empty_turn_of_a_tag_client_is_nudged_and_the_call_behind_it_keeps_its_tail() {
    for api in APIS {
        let history = [("user", "What?"), ("assistant", &*block("a")), ("user", "found it")];
        let (mut exchange, _) =
            begin(request(api, true, &history), context(api, Policy::default(), Some(on())));
        let mut out = Output::default();
        exchange.push_bytes(&stream(api, &["\n"], Ends::Natural), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
        let Step::Send(nudged) = exchange.next_step().unwrap() else { panic!("it is nudged") };
        assert!(String::from_utf8(nudged.to_vec()).unwrap().contains("Please continue."));
        exchange
            .push_bytes(
                &stream(api, &["Then this: ", &block("b"), " tail"], Ends::Natural),
                &mut out,
            )
            .unwrap();
        exchange.finish_response(&mut out).unwrap();
        let Step::Done(done) = exchange.next_step().unwrap() else {
            panic!("the turn is the client's")
        };
        let shown = read(api, true, &out.bytes).text;
        assert_eq!(shown, format!("Then this: {}", block("b")), "{api:?}");
        let (place, tail) = done.tail.expect("the call stands behind a nudge");
        // In the next request it stands there again.
        let mut history = history.to_vec();
        history.extend([("assistant", shown.as_str()), ("user", "found more")]);
        let body = request(api, true, &history);
        let parsed = softland_session::wire::request::Request::from_body(api, &body).unwrap();
        let tails = std::collections::BTreeMap::from([(place, tail.clone())]);
        let remembered = softland_session::StoredConversation {
            tails: std::borrow::Cow::Borrowed(&tails),
            ..Default::default()
        };
        let opened = softland_session::OpenedRequest::read_history(
            &parsed,
            body.clone().into(),
            context(api, Policy::default(), Some(on())),
            remembered,
        );
        let mut exchange =
            opened.into_exchange(&softland_core::Facts::default(), &mut Output::default());
        let Step::Send(sent) = exchange.next_step().unwrap() else { panic!("it is sent") };
        let sent = String::from_utf8(sent.to_vec()).unwrap();
        assert!(sent.contains(&tail.messages), "{api:?}: {sent}");
    }
}

#[test]
fn loops_are_seen_in_text_and_what_stands_beside_each_result_is_no_person() {
    let result = "<tool_result>the same</tool_result>\nPlease go on with these results.";
    for api in APIS {
        let call = block("a");
        let mut history = vec![("user", "What?")];
        // The first time a person may have said it.
        for _ in 0..4 {
            history.extend([("assistant", call.as_str()), ("user", result)]);
        }
        let mut out = Output::default();
        let body = request(api, true, &history);
        Exchange::from_request(body, context(api, Policy::default(), Some(on())), &mut out)
            .unwrap();
        let repeats = |event: &Event| matches!(event, Event::Signal(signal) if signal.signal.word() == "repeat");
        assert!(out.events.iter().any(repeats), "{api:?}: {:?}", out.events);
    }
}
