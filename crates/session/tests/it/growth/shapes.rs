//! Kinds of input that grow, and the work that is done with them. `bench/instructions` counts the
//! instructions of the same work.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "inputs.rs"]
mod inputs;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use softland_session::core::policy::{Mode, OnLoop, Policy};
use softland_session::core::{
    Call, Digest, FinishedTurn, Role, Stop, Transcript, UserMessage, UserText, VisibleText,
};
use softland_session::read_result;
use softland_session::wire::Api;
use softland_session::wire::request::Request;
use softland_session::wire::tags::{Shape, Tags};
use softland_session::{
    Context, Done, Exchange, OpenedRequest, Outline, Output, Step, StoredConversation, StoredTail,
    retold, summary,
};

use inputs::{Block, calls, request, results, said, stream, tools, whole};

/// The work with an input that was made before, or why it went wrong.
pub(crate) type Work = Box<dyn Fn() -> Result<(), String>>;

/// A kind of input: its name, what grows in it, and how one of a length is made.
pub(crate) type Kind = (&'static str, &'static str, fn(usize) -> Work);

/// Every kind of input.
pub(crate) const SHAPES: &[Kind] = &[
    ("calls-streamed", "streamed calls of one turn", |n| {
        streamed(Api::Anthropic, &many_calls(n), n)
    }),
    ("calls-streamed-chat", "the same", |n| streamed(Api::Chat, &many_calls(n), n)),
    ("calls-streamed-responses", "the same", |n| streamed(Api::Responses, &many_calls(n), n)),
    ("calls-whole", "calls of one turn that comes whole", |n| calls_whole(Api::Anthropic, n)),
    ("calls-whole-chat", "the same", |n| calls_whole(Api::Chat, n)),
    ("calls-whole-responses", "the same", |n| calls_whole(Api::Responses, n)),
    ("calls-of-an-engine", "calls that have one id, in an engine", engine_calls),
    ("history", "turns of a history", |n| history(Api::Anthropic, n)),
    ("history-chat", "the same", |n| history(Api::Chat, n)),
    ("history-responses", "the same", |n| history(Api::Responses, n)),
    ("results", "results in one message", |n| one_round(Api::Anthropic, n)),
    ("results-chat", "the same", |n| one_round(Api::Chat, n)),
    ("results-responses", "the same", |n| one_round(Api::Responses, n)),
    ("local-answer", "results in one message before an answer of softland's", local_answer),
    ("failures", "rounds that fail alike, which is only observed", failures),
    ("silences", "different messages behind empty turns", silences),
    ("tails", "turns that stand behind a nudge", tails),
    ("tools", "tools that are declared", |n| declared(Api::Anthropic, n)),
    ("tools-chat", "the same", |n| declared(Api::Chat, n)),
    ("tools-responses", "the same", |n| declared(Api::Responses, n)),
    ("events", "events of one character", |n| texts(Api::Anthropic, "a", n)),
    ("events-chat", "the same", |n| texts(Api::Chat, "a", n)),
    ("events-responses", "the same", |n| texts(Api::Responses, "a", n)),
    ("blank-events", "events of a space, before any text", |n| texts(Api::Anthropic, " ", n)),
    ("blank-texts", "blank texts", blank_texts),
    ("thinking", "thinking before calls that may not pass", |n| thinking(n, 1)),
    ("thinking-alone", "thinking with one call behind it", |n| thinking(n, n)),
    ("opening", "words of a first message that may be a summary", opening),
    ("summary", "words of a summary and of the request for it", summary),
    ("told-calls", "calls that a history tells of in texts", find_retold_calls),
    ("tagged", "calls that are written as text, in one turn", |n| tagged(n, 1)),
    ("tagged-texts", "texts with such a call each", |n| tagged(1, n)),
    ("tagged-results", "results of such calls in one message", tagged_results),
];

fn streamed(api: Api, blocks: &[Block], n: usize) -> Work {
    exchange(
        api,
        Role::Gateway,
        limited(n as u64 / 2),
        request(api, true, "", ""),
        stream(api, blocks),
    )
}

fn many_calls(n: usize) -> Vec<Block> {
    (0..n).map(|at| Block::Call(format!("call_{at}"))).collect()
}

fn limited(calls: u64) -> Context {
    let policy = Policy { tool_calls_limit: Some(calls.max(1)), ..Policy::default() };
    Context::new(Role::Gateway, policy, None, "gpt-4.1")
}

/// An exchange whose upstream answers with this stream.
fn exchange(api: Api, role: Role, context: Context, body: Vec<u8>, stream: Vec<u8>) -> Work {
    let context = Context { api, role, ..context };
    Box::new(move || {
        let mut exchange = begun(body.clone(), context.clone())?;
        let mut shown = 0;
        for piece in stream.chunks(1460) {
            let mut out = Output::default();
            exchange.push_bytes(piece, &mut out).map_err(|error| error.to_string())?;
            shown += out.bytes.len();
        }
        let mut out = Output::default();
        exchange.finish_response(&mut out).map_err(|error| error.to_string())?;
        done(&mut exchange)?;
        if shown + out.bytes.len() == 0 && role == Role::Gateway {
            return Err("nothing was shown".to_owned());
        }
        Ok(())
    })
}

fn begun(body: Vec<u8>, context: Context) -> Result<Exchange, String> {
    let mut exchange = Exchange::from_request(body, context, &mut Output::bytes_only())
        .map_err(|error| error.to_string())?;
    match exchange.next_step().unwrap() {
        Step::Send(_) => Ok(exchange),
        Step::Done(_) => Err("nothing was sent".to_owned()),
    }
}

fn done(exchange: &mut Exchange) -> Result<Done, String> {
    match exchange.next_step().unwrap() {
        Step::Done(done) => Ok(*done),
        Step::Send(_) => Err("the turn has not ended".to_owned()),
    }
}

fn calls_whole(api: Api, n: usize) -> Work {
    let (body, answer) = (request(api, false, "", ""), whole(api, n));
    let context = Context { api, ..limited(n as u64 / 2) };
    Box::new(move || {
        let mut exchange = begun(body.clone(), context.clone())?;
        let mut out = Output::default();
        exchange.push_whole(&answer, &mut out).map_err(|error| error.to_string())?;
        is(done(&mut exchange)?.calls.len(), n)
    })
}

/// An engine's own ids may not come twice. Those that it would take are in its history already.
fn engine_calls(n: usize) -> Work {
    let history = |at: usize| {
        let id = format!("a_{}", at + n);
        format!(
            r#",{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"tool_0","input":{{}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{at}"}}]}}"#
        )
    };
    let history: String = (0..n).map(history).collect();
    let blocks = vec![Block::Call("a".to_owned()); n];
    let context = Context::new(Role::Engine, Policy::default(), None, "claude-sonnet-4-5");
    let body = request(Api::Anthropic, true, &history, "");
    exchange(Api::Anthropic, Role::Engine, context, body, stream(Api::Anthropic, &blocks))
}

/// A request that is governed and sent.
fn governed(context: Context, body: Vec<u8>) -> Work {
    Box::new(move || begun(body.clone(), context.clone()).map(|_| ()))
}

fn history(api: Api, n: usize) -> Work {
    let rounds = |at| calls(api, at..at + 1) + &results(api, at..at + 1);
    let history: String = (0..n).map(rounds).collect();
    let context = Context { api, ..limited(n as u64 + 1) };
    governed(context, request(api, false, &history, ""))
}

fn one_round(api: Api, n: usize) -> Work {
    let history = calls(api, 0..n) + &results(api, (0..n).rev());
    let context = Context { api, ..limited(n as u64 + 1) };
    governed(context, request(api, false, &history, ""))
}

fn local_answer(n: usize) -> Work {
    let api = Api::Chat;
    let body = request(api, false, &(calls(api, 0..n) + &results(api, 0..n)), "");
    let mut context = Context { api, ..limited(n as u64) };
    let landing = softland_session::core::policy::Landing::Stop;
    context.policy = Arc::new(Policy { landing, ..(*context.policy).clone() });
    Box::new(move || {
        let mut out = Output::bytes_only();
        let mut exchange = Exchange::from_request(body.clone(), context.clone(), &mut out)
            .map_err(|error| error.to_string())?;
        is(usize::from(done(&mut exchange)?.local), 1)
    })
}

fn failures(n: usize) -> Work {
    let one = |at: usize| {
        format!(
            r#",{{"role":"assistant","content":[{{"type":"tool_use","id":"call_{at}","name":"tool_0","input":{{"n":{at}}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"call_{at}","is_error":true,"content":"no {}"}}]}}"#,
            at % 3
        )
    };
    let history: String = (0..n).map(one).collect();
    let policy = Policy { mode: Mode::Observe, on_loop: OnLoop::Observe, ..Policy::default() };
    let context = Context::new(Role::Gateway, policy, None, "claude-sonnet-4-5");
    governed(context, request(Api::Anthropic, false, &history, ""))
}

fn silences(n: usize) -> Work {
    let api = Api::Chat;
    // One run: what follows an empty turn was asked before.
    let round = |at| calls(api, at..at + 1) + &results(api, at..at + 1);
    let asked: String =
        (0..n).map(|at| round(at) + &said("user", &format!("[{at}] and then?"))).collect();
    let again = |at| said("assistant", "[no answer]") + &said("user", &format!("[{at}] and then?"));
    let empty: String = (0..n).map(again).collect();
    let context = Context { api, ..limited(n as u64 * 4) };
    governed(context, request(api, false, &(asked + &empty), ""))
}

/// Each turn of a history stands behind a tail.
fn tails(n: usize) -> Work {
    let api = Api::Anthropic;
    let mut transcript = Transcript::new(Role::Gateway, Policy::default(), BTreeMap::new());
    let texts = vec![UserText::new("What is where?")];
    transcript.add_user_message(&UserMessage { texts, ..UserMessage::default() }, None);
    let mut tails = BTreeMap::new();
    let mut history = String::new();
    for at in 0..n {
        let (id, input) = (format!("call_{at}"), format!("{{\"n\":{at}}}"));
        let messages = concat!(
            r#"{"role":"assistant","content":[{"type":"text","text":"[no answer]"}]},"#,
            r#"{"role":"user","content":"Please continue."}"#
        );
        let tail = StoredTail {
            shown: String::new(),
            messages: messages.to_owned(),
            before: Digest::EMPTY,
            own: None,
        };
        tails.insert(
            transcript.history_digest().followed_by(Digest::from_bytes(id.as_bytes())),
            tail,
        );
        let calls = vec![Call { id: &id, name: "tool_0", input: &input, server: false }];
        transcript.add_turn(&turn(calls));
        let mut result = read_result(&format!("{at}"), false);
        result.id = Cow::Owned(id.clone());
        transcript.add_user_message(
            &UserMessage { results: vec![result], ..UserMessage::default() },
            None,
        );
        history.push_str(&inputs::calls(api, at..at + 1));
        history.push_str(&format!(
            r#",{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{at}"}}]}}"#
        ));
    }
    let body = request(api, false, &history, "");
    Box::new(move || {
        let request = Request::from_body(api, &body).map_err(|error| error.to_string())?;
        let context = Context::new(Role::Gateway, Policy::default(), None, "claude-sonnet-4-5");
        let remembered =
            StoredConversation { tails: Cow::Borrowed(&tails), ..StoredConversation::default() };
        let opened =
            OpenedRequest::read_history(&request, body.clone().into(), context, remembered);
        let governed =
            opened.into_exchange(&Default::default(), &mut Output::bytes_only()).governed_body();
        // Every tail has found its turn.
        let tail = tails.values().next().map_or(0, |tail| tail.messages.len());
        is(usize::from(governed.len() >= body.len() + n * tail), 1)
    })
}

fn turn(calls: Vec<Call<'_>>) -> FinishedTurn<'_> {
    let (cut_call, hidden, gives) = (false, false, false);
    let (text, stop) = (VisibleText::default(), Stop::Unknown);
    FinishedTurn { text, calls, cut_call, hidden, gives, stop, output_tokens: None }
}

fn declared(api: Api, n: usize) -> Work {
    let forced = match api {
        Api::Anthropic => r#"{"type":"any"}"#,
        Api::Chat | Api::Responses => r#""required""#,
    };
    let more = format!(r#"{},"tool_choice":{forced}"#, tools(api, n));
    let context = Context { api, ..limited(4) };
    exchange(
        api,
        Role::Gateway,
        context,
        request(api, true, "", &more),
        stream(api, &many_calls(2)),
    )
}

fn texts(api: Api, piece: &str, n: usize) -> Work {
    let mut pieces = vec![piece.to_owned(); n];
    pieces.push("So it is.".to_owned());
    streamed(api, &[Block::Text(pieces)], 8)
}

fn blank_texts(n: usize) -> Work {
    let mut blocks = vec![Block::Text(vec![" ".to_owned()]); n];
    blocks.push(Block::Text(vec!["So it is.".to_owned()]));
    streamed(Api::Responses, &blocks, 8)
}

/// Thinking, and a call behind each `every` blocks of it.
fn thinking(n: usize, every: usize) -> Work {
    let mut blocks = Vec::new();
    for at in 0..n {
        blocks.push(Block::Thinking("Let me see.".to_owned()));
        if (at + 1) % every == 0 {
            blocks.push(Block::Call(format!("call_{at}")));
        }
    }
    streamed(Api::Responses, &blocks, 8)
}

fn opening(n: usize) -> Work {
    let body = request(Api::Anthropic, false, &said("user", &numbers(n, "\\n")), "");
    Box::new(move || {
        let request = read_request(&body)?;
        let found = summary::opening_passages(&request).told.len();
        if found >= n / 8 { Ok(()) } else { Err(format!("{found} passages")) }
    })
}

fn summary(n: usize) -> Work {
    let body = request(Api::Anthropic, false, &said("user", &numbers(n, "\\n")), "");
    let text = numbers(n, "; ");
    Box::new(move || is(summary::summary_passages(&text, &read_request(&body)?).len(), 0))
}

/// Calls of the newest turns that are looked at, whatever is told.
const CALLS: usize = 32;

fn find_retold_calls(n: usize) -> Work {
    let told = |at: usize| said("assistant", &format!("I call read with notes/of/{at:08}."));
    let turns: String = (0..n).map(told).collect();
    let body = request(Api::Anthropic, false, &turns, &tools(Api::Anthropic, 1));
    Box::new(move || {
        let request = read_request(&body)?;
        let outline = Outline::from_request(&request);
        is(outline.answered.len(), n)?;
        let found = retold::find_retold_calls(&request, &outline).len();
        if found >= CALLS.min(n) { Ok(()) } else { Err(format!("{found} calls")) }
    })
}

/// Returns so many words, each different.
fn numbers(n: usize, between: &str) -> String {
    (0..n).map(|at| format!("word{at}{between}")).collect()
}

fn read_request(body: &[u8]) -> Result<Request<'_>, String> {
    Request::from_body(Api::Anthropic, body).map_err(|error| error.to_string())
}

fn tag_shape() -> Result<Arc<Shape>, String> {
    Ok(Arc::new(Shape::watch_only(Tags::new(["use_tool"]).map_err(|error| error.to_string())?)))
}

fn tag_call(at: usize) -> String {
    format!(r#"<use_tool>{{\"name\":\"t{at}\",\"input\":{{}}}}</use_tool>"#)
}

fn tagged(calls: usize, blocks: usize) -> Work {
    let text =
        |block: usize| Block::Text((0..calls).map(|at| tag_call(block * calls + at)).collect());
    let blocks: Vec<_> = (0..blocks).map(text).collect();
    let api = Api::Anthropic;
    let stream = stream(api, &blocks);
    let body = request(api, true, "", "");
    Box::new(move || {
        let context = Context { shape: Some(tag_shape()?), ..limited(u64::MAX) };
        exchange(api, Role::Gateway, context, body.clone(), stream.clone())()
    })
}

fn tagged_results(n: usize) -> Work {
    let api = Api::Anthropic;
    let turn: String = (0..n).map(tag_call).collect();
    let result = |at: usize| format!(r#"<tool_result name=\"t{at}\">{at}</tool_result>\n"#);
    let given: String = (0..n).rev().map(result).collect();
    let body = request(api, false, &(said("assistant", &turn) + &said("user", &given)), "");
    Box::new(move || {
        let context = Context { shape: Some(tag_shape()?), api, ..limited(n as u64 + 1) };
        begun(body.clone(), context).map(|_| ())
    })
}

fn is(found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found}, not {expected}")) }
}
