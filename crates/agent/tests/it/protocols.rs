//! The loop through every API and dialect: the same run, the same end, and the right form for each
//! API on the wire. The simulator refuses everything that the real API would refuse.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::common;

use std::sync::Arc;

use crate::common::{SimTransport, agent, interventions, signals};
use serde_json::{Value, json};
use softland_agent::core::policy::{Batch, Landing, Policy};
use softland_agent::http::Api;
use softland_agent::{
    AnsweredBy, Conversation, Event, EventKind, Report, SetupError, ToolOutput, UsageTotal,
};
use softland_sim::{Config, Part, Scenario, Stop, Turn};
use tokio_util::sync::CancellationToken;

/// The APIs and the models asked through them.
const ASKED: &[(Api, &str)] = &[
    (Api::Anthropic, "anthropic/claude-sonnet-5-5"),
    (Api::OpenAiChat, "openai/gpt-5.6-sol"),
    (Api::OpenAiChat, "openai/gpt-4o"),
    (Api::OpenAiChat, "deepseek/deepseek-v4-flash"),
    (Api::OpenAiChat, "openrouter/anthropic/claude-sonnet-5.5"),
    (Api::OpenAiChat, "openrouter/openai/o4-mini"),
    (Api::OpenAiChat, "groq/llama-3.3-70b-versatile"),
    (Api::OpenAiChat, "xai/grok-4.3"),
    (Api::OpenAiChat, "zai/glm-4.7"),
    (Api::OpenAiChat, "azure/model-router"),
    (Api::OpenAiChat, "anthropic/claude-sonnet-4-5"),
    (Api::OpenAiResponses, "openai/gpt-5.6-sol"),
    (Api::OpenAiResponses, "openai/gpt-4o"),
    (Api::OpenAiResponses, "openai/gpt-6-astra"),
];

/// A run and its observable effects.
struct Ran {
    api: Api,
    model: &'static str,
    report: Report,
    events: Vec<Event>,
    requests: Vec<Value>,
    transport: Arc<SimTransport>,
}

/// An agent of one tool on these turns.
fn set(
    asked: (Api, &'static str),
    policy: Policy,
    turns: Vec<Turn>,
) -> (softland_agent::Agent, Arc<SimTransport>) {
    let transport = SimTransport::new(Config::new(Scenario::Scripted(turns)));
    let mut agent = agent(&transport, asked.1);
    agent.system = "You search notes.".to_owned();
    agent.policy = policy;
    agent.options.api = asked.0;
    let answer = Box::new(|n, input: &Value| match input["fails"].as_bool() {
        Some(true) => ToolOutput::error("no such note"),
        _ => ToolOutput::ok(format!("finding {n}")),
    });
    let tool = common::Counting { name: "grep", calls: Arc::default(), answer };
    agent.tools.add_tool(Arc::new(tool)).unwrap();
    (agent, transport)
}

async fn ask(
    agent: &softland_agent::Agent,
    conversation: &mut Conversation,
    prompt: &str,
) -> (Report, Vec<Event>) {
    let mut events = Vec::new();
    let mut sink = |event: &Event| events.push(event.clone());
    let cancel = CancellationToken::new();
    let report = agent.run_in_conversation(conversation, prompt, &mut sink, &cancel).await.unwrap();
    (report, events)
}

async fn play(asked: (Api, &'static str), policy: Policy, turns: Vec<Turn>) -> Ran {
    let (agent, transport) = set(asked, policy, turns);
    let (report, events) = ask(&agent, &mut Conversation::new(), "What is it?").await;
    let stats = transport.sim.stats();
    assert_eq!(stats.refused, 0, "{asked:?}: {:?}", stats.refusals);
    let requests = transport.requests();
    Ran { api: asked.0, model: asked.1, report, events, requests, transport }
}

impl Ran {
    /// (outcome, reason, rung) in the words of `docs/reference/events.md`.
    fn end(&self) -> (&'static str, String, Option<&'static str>) {
        let ended = &self.report.ended;
        (ended.outcome.word(), ended.reason.to_string(), ended.rung.map(|rung| rung.word()))
    }

    fn answer(&self) -> &str {
        self.report.answer.as_deref().unwrap_or_default()
    }

    /// The results at a request's end.
    fn results(&self, request: usize) -> Vec<String> {
        results(self.api, &self.requests[request])
    }

    /// The last line of each of those.
    fn lines(&self, request: usize) -> Vec<String> {
        let last = |text: &String| text.lines().last().unwrap_or_default().to_owned();
        self.results(request).iter().map(last).collect()
    }

    fn who(&self) -> String {
        format!("{} {}", self.api.name(), self.model)
    }
}

/// Returns the messages that a request shows the model, the newest last.
fn messages(api: Api, request: &Value) -> &[Value] {
    let member = if api == Api::OpenAiResponses { "input" } else { "messages" };
    request[member].as_array().unwrap()
}

fn results(api: Api, request: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = messages(api, request);
    match api {
        Api::Anthropic => {
            let blocks = messages.last().unwrap()["content"].as_array().unwrap().iter();
            let results = blocks.filter(|block| block["type"] == "tool_result");
            results.map(|result| text(&result["content"])).collect()
        }
        Api::OpenAiChat => tail(messages, "role", "tool", "content"),
        Api::OpenAiResponses => tail(messages, "type", "function_call_output", "output"),
    }
}

/// A member of the last messages of a kind.
fn tail(messages: &[Value], key: &str, kind: &str, member: &str) -> Vec<String> {
    let newest = messages.iter().rev().take_while(|message| message[key] == kind);
    let mut texts: Vec<_> =
        newest.map(|message| message[member].as_str().unwrap().to_owned()).collect();
    texts.reverse();
    texts
}

/// Returns a failed result in the form of the API.
fn failed(api: Api, text: &str) -> String {
    match api {
        Api::Anthropic => text.to_owned(),
        Api::OpenAiChat | Api::OpenAiResponses => json!({"error": text}).to_string(),
    }
}

fn choice(request: &Value) -> Option<&str> {
    let choice = &request["tool_choice"];
    choice.as_str().or_else(|| choice["type"].as_str())
}

fn grep(n: u64) -> Turn {
    Turn::from_call("grep", format!(r#"{{"pattern":"p{n}"}}"#))
}

fn batch(calls: std::ops::Range<u64>) -> Turn {
    Turn::from_parts(
        calls.map(|n| Part::tool_call("grep", format!(r#"{{"pattern":"p{n}"}}"#))).collect(),
    )
}

fn lawless(turn: Turn) -> Turn {
    Turn { lawless: true, ..turn }
}

fn calls(limit: u64) -> Policy {
    Policy { tool_calls_limit: Some(limit), ..Policy::default() }
}

#[tokio::test]
async fn a_round_of_tools_goes_there_and_back() {
    for asked in ASKED {
        let turns = vec![
            grep(0),
            Turn::from_parts(vec![
                Part::text("Two more."),
                Part::tool_call("grep", "{}"),
                Part::tool_call("grep", r#"{"a":1}"#),
            ]),
            Turn::from_text("Twelve."),
        ];
        let ran = play(*asked, Policy::default(), turns).await;
        assert_eq!(ran.end(), ("answered", "final".into(), None), "{}", ran.who());
        assert_eq!((ran.answer(), ran.report.answered_by), ("Twelve.", Some(AnsweredBy::Model)));
        assert_eq!((ran.report.turns, ran.report.tool_calls), (3, 3));
        assert_eq!(ran.results(1), ["finding 0"]);
        assert_eq!(ran.results(2), ["finding 1", "finding 2"], "{}", ran.who());
        assert!(interventions(&ran.events).is_empty() && signals(&ran.events).is_empty());
        let said: String = ran.events.iter().filter_map(text_of).collect();
        assert_eq!(said, "Two more.Twelve.", "{}", ran.who());
        head(&ran);
    }
}

fn text_of(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::TextDelta { text } => Some(text.clone()),
        _ => None,
    }
}

/// Instructions, tools, limit and stream have the form of the API, and no member belongs to another
/// one.
fn head(ran: &Ran) {
    let request = &ran.requests[0];
    let members: Vec<&str> = request.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(request["stream"], true);
    let mut wanted = match ran.api {
        Api::Anthropic => {
            assert_eq!(request["system"][0]["text"], "You search notes.");
            assert_eq!(request["tools"][0]["name"], "grep");
            vec!["cache_control", "max_tokens", "messages", "model", "stream", "system", "tools"]
        }
        Api::OpenAiChat => {
            let system = json!({"role": "system", "content": "You search notes."});
            assert_eq!(request["messages"][0], system);
            assert_eq!(request["messages"][1], json!({"role": "user", "content": "What is it?"}));
            assert_eq!(request["tools"][0]["type"], "function");
            assert_eq!(request["tools"][0]["function"]["name"], "grep");
            assert_eq!(request["stream_options"], json!({"include_usage": true}));
            let openais = ["gpt-", "o4-"].iter().any(|name| ran.model.contains(name));
            let limit = if openais { "max_completion_tokens" } else { "max_tokens" };
            vec![limit, "messages", "model", "stream", "stream_options", "tools"]
        }
        Api::OpenAiResponses => {
            assert_eq!(request["instructions"], "You search notes.");
            assert_eq!(request["tools"][0]["type"], "function");
            assert_eq!(request["tools"][0]["name"], "grep");
            assert_eq!(request["tools"][0]["strict"], false);
            assert_eq!(request["store"], false);
            vec!["input", "instructions", "max_output_tokens", "model", "store", "stream", "tools"]
        }
    };
    wanted.sort_unstable();
    let mut members = members;
    members.sort_unstable();
    assert_eq!(members, wanted, "{}", ran.who());
}

#[tokio::test]
async fn usage_and_cost_are_what_was_billed() {
    for asked in ASKED {
        let ran =
            play(*asked, Policy::default(), vec![grep(0), grep(1), Turn::from_text("So.")]).await;
        let stats = ran.transport.sim.stats();
        let mut billed = UsageTotal::default();
        for charge in &stats.charges {
            billed.input += charge.usage.input;
            billed.output += charge.usage.output;
            billed.cache_read += charge.usage.cache_read;
            billed.cache_write += charge.usage.cache_write_5m + charge.usage.cache_write_1h;
        }
        assert_eq!(ran.report.usage, billed, "{}", ran.who());
        let told = ran.events.iter().filter(|event| matches!(event.kind, EventKind::Usage { .. }));
        assert_eq!(told.count(), 3, "{}", ran.who());
        if let Some(cost) = ran.report.cost_usd {
            let billed = stats.cost_nano as f64 / 1e9;
            // The table's prices may be dearer than what the simulator knows, never cheaper.
            assert!(cost >= billed * 0.999, "{}: {cost} of {billed}", ran.who());
        }
    }
    let ran = play(ASKED[1], Policy::default(), vec![grep(0), Turn::from_text("So.")]).await;
    assert!(ran.report.cost_usd.is_some_and(|cost| cost > 0.0));
}

#[tokio::test]
async fn countdown_lines_stand_in_the_results() {
    for asked in ASKED {
        let turns = vec![grep(0), grep(1), batch(2..4), Turn::from_text("Twelve.")];
        let ran = play(*asked, calls(5), turns).await;
        assert_eq!(ran.lines(1), ["finding 0"], "{}", ran.who());
        assert_eq!(ran.lines(2), ["finding 1"], "{}", ran.who());
        assert_eq!(ran.lines(3), ["2 tool calls remaining", "1 tool call remaining"]);
        assert_eq!(ran.end(), ("answered", "final".into(), None));
    }
}

#[tokio::test]
async fn a_run_lands_by_each_rung() {
    let again = || lawless(grep(7));
    for asked in ASKED {
        // Groq ends the stream of a call that nobody may make, which is another test's.
        let ran = play(*asked, calls(2), vec![grep(0), grep(1), Turn::from_text("Twelve.")]).await;
        assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("ask")), "{}", ran.who());
        assert!(ran.lines(2)[0].starts_with("Tool call limit reached (2 of 2). Answer now"));
        assert_eq!(choice(&ran.requests[2]), None);
        let ran = play(*asked, calls(1), vec![grep(0), again(), Turn::from_text("Twelve.")]).await;
        assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("refuse")), "{}", ran.who());
        assert!(ran.lines(2)[0].starts_with("Not run. Tool call limit reached (1 of 1)."));
        let turns = vec![grep(0), again(), again(), Turn::from_text("Twelve.")];
        let ran = play(*asked, calls(1), turns).await;
        assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("none")), "{}", ran.who());
        let choices: Vec<_> = ran.requests.iter().map(choice).collect();
        assert_eq!(choices, [None, None, None, Some("none")], "{}", ran.who());
        assert_eq!((ran.answer(), ran.report.tool_calls), ("Twelve.", 1));
        let turns = vec![grep(0), again(), again(), Turn::default(), Turn::default()];
        let ran = play(*asked, calls(1), turns).await;
        let local = ("stopped", "tool_calls".into(), Some("local_answer"));
        assert_eq!(ran.end(), local, "{}", ran.who());
        assert_eq!(ran.report.answered_by, Some(AnsweredBy::Local));
        assert!(ran.answer().contains("finding 0"), "{}: {}", ran.who(), ran.answer());
    }
}

#[tokio::test]
async fn a_limit_of_zero_is_an_answer_without_tools() {
    for asked in ASKED {
        let ran = play(*asked, calls(0), vec![Turn::from_text("Twelve.")]).await;
        assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("none")), "{}", ran.who());
        let last = messages(ran.api, &ran.requests[0]).last().unwrap().to_string();
        assert!(last.contains("What is it?") && last.contains("Answer now"), "{last}");
        assert_eq!(choice(&ran.requests[0]), Some("none"));
    }
}

#[tokio::test]
async fn a_batch_past_the_limit_is_answered_whole() {
    for asked in ASKED {
        for (how, ran_of) in [(Batch::First, 2), (Batch::All, 4), (Batch::None, 0)] {
            let policy = Policy { batch: how, ..calls(2) };
            let ran = play(*asked, policy, vec![batch(0..4), Turn::from_text("Twelve.")]).await;
            let who = format!("{} {how:?}", ran.who());
            assert_eq!((ran.report.tool_calls, ran.answer()), (ran_of, "Twelve."), "{who}");
            assert_eq!(ran.end().0, "landed", "{who}");
            assert_eq!(ran.results(1).len(), 4, "{who}");
            let whole = ran.requests[1].to_string();
            assert_eq!(whole.matches("Answer now with what you have").count(), 1, "{who}: {whole}");
        }
    }
}

#[tokio::test]
async fn an_empty_turn_is_nudged() {
    for asked in ASKED {
        for empty in [Turn::default(), Turn::from_text(" \n")] {
            let turns = vec![grep(0), empty, Turn::from_text("Twelve.")];
            let ran = play(*asked, Policy::default(), turns).await;
            assert_eq!((ran.end().0, ran.answer()), ("answered", "Twelve."), "{}", ran.who());
            assert_eq!(signals(&ran.events), ["empty"], "{}", ran.who());
            assert_eq!(interventions(&ran.events), ["nudge"], "{}", ran.who());
            assert_eq!(ran.report.turns, 2, "{}", ran.who());
        }
        let turns = std::iter::once(grep(0)).chain((0..9).map(|_| Turn::default())).collect();
        let ran = play(*asked, Policy::default(), turns).await;
        assert_eq!(ran.end(), ("stopped", "empty".into(), Some("local_answer")), "{}", ran.who());
    }
}

#[tokio::test]
async fn a_truncated_turn_goes_on() {
    for asked in ASKED {
        let turns = vec![
            grep(0),
            Turn::from_text("The answer is that ").with_stop(Stop::MaxTokens),
            Turn::from_text("it is twelve."),
        ];
        let ran = play(*asked, Policy::default(), turns).await;
        assert_eq!(ran.end().0, "answered", "{}", ran.who());
        assert!(ran.answer().ends_with("it is twelve."), "{}: {}", ran.who(), ran.answer());
        assert!(ran.answer().starts_with("The answer"), "{}: {}", ran.who(), ran.answer());
        // Half a call is not run: it is asked for again.
        let half = Turn::from_call("grep", r#"{"pattern":"long"}"#).with_stop(Stop::MaxTokens);
        let turns = vec![half, grep(1), Turn::from_text("Twelve.")];
        let ran = play(*asked, Policy::default(), turns).await;
        assert_eq!((ran.end().0, ran.answer()), ("answered", "Twelve."), "{}", ran.who());
        assert_eq!(ran.report.tool_calls, 1, "{}", ran.who());
    }
}

#[tokio::test]
async fn what_failed_says_so() {
    for asked in ASKED {
        let turns = vec![Turn::from_call("grep", r#"{"fails":true}"#), Turn::from_text("Twelve.")];
        let ran = play(*asked, calls(2), turns).await;
        let text = failed(ran.api, "no such note");
        assert_eq!(ran.results(1), [format!("{text}\n\n1 tool call remaining")], "{}", ran.who());
        // The same error again and again is a loop, however the API tells of it.
        let fails = |n| Turn::from_call("grep", format!(r#"{{"fails":true,"n":{n}}}"#));
        let policy = Policy { error_limit: 3, ..Policy::default() };
        let ran = play(*asked, policy, (0..4).map(fails).collect()).await;
        assert!(signals(&ran.events).contains(&"errors"), "{}", ran.who());
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_run_is_answered() {
    for asked in ASKED {
        let groq = asked.1.starts_with("groq");
        let turns = vec![Turn::from_call("gerp", "{}"), Turn::from_text("Twelve.")];
        let (agent, transport) = set(*asked, Policy::default(), turns);
        let (report, _) = ask(&agent, &mut Conversation::new(), "What is it?").await;
        if groq {
            // It ends the stream with `tool_use_failed`, and is asked again.
            let asked_again = transport.requests();
            assert_eq!((report.answer.as_deref(), asked_again.len()), (Some("Twelve."), 2));
            assert_eq!(asked_again[0], asked_again[1]);
            continue;
        }
        let text = failed(asked.0, "unknown tool `gerp`; the tools are: grep");
        assert_eq!(results(asked.0, &transport.requests()[1]), [text], "{asked:?}");
        for input in [r#"{"pattern": "x"#, "nonsense", "[1]", "null"] {
            let turns = vec![Turn::from_call("grep", input), grep(0), Turn::from_text("So.")];
            let ran = play(*asked, Policy::default(), turns).await;
            let result = &ran.results(1)[0];
            assert!(result.contains("grep was not run: its arguments"), "{}: {result}", ran.who());
            assert_eq!((ran.answer(), ran.results(2)), ("So.", vec!["finding 0".to_owned()]));
        }
    }
}

#[tokio::test]
async fn reasoning_goes_back_as_it_came() {
    let thinks = |turn: Turn| {
        let parts = std::iter::once(Part::Thinking("hm".to_owned())).chain(turn.parts);
        Turn::from_parts(parts.collect())
    };
    for asked in ASKED {
        let turns = vec![thinks(grep(0)), thinks(grep(1)), thinks(Turn::from_text("Twelve."))];
        let (agent, transport) = set(*asked, calls(9), turns);
        let mut conversation = Conversation::new();
        for prompt in ["What is it?", "And now?"] {
            let (report, _) = ask(&agent, &mut conversation, prompt).await;
            assert_eq!(report.ended.outcome.word(), "answered", "{asked:?}");
        }
        assert_eq!(
            transport.sim.refused_requests(),
            0,
            "{asked:?}: {:?}",
            transport.sim.stats().refusals
        );
        if asked.1.starts_with("deepseek/") {
            let calls = |request: &Value| -> Vec<Value> {
                let all = messages(Api::OpenAiChat, request).iter();
                all.filter(|message| message.get("tool_calls").is_some()).cloned().collect()
            };
            let last = calls(&transport.requests()[2]);
            assert_eq!(last.len(), 2);
            assert!(last.iter().all(|turn| turn["reasoning_content"] == "hm"), "{last:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_tool_is_closed_for_the_next_question() {
    let answer = || Turn::from_call("respond", r#"{"answer":"Twelve."}"#);
    let policy = || Policy { landing: Landing::Respond, ..Policy::default() };
    for asked in ASKED {
        let (agent, transport) = set(*asked, policy(), vec![grep(0), answer(), answer()]);
        let mut conversation = Conversation::new();
        for prompt in ["What is it?", "And now?"] {
            let (report, _) = ask(&agent, &mut conversation, prompt).await;
            assert_eq!(report.answer.as_deref(), Some("Twelve."), "{asked:?}");
            assert_eq!(report.answered_by, Some(AnsweredBy::Model), "{asked:?}");
        }
        assert_eq!(
            transport.sim.refused_requests(),
            0,
            "{asked:?}: {:?}",
            transport.sim.stats().refusals
        );
    }
    // OpenAI's models may be forced to it, in the API's own words.
    for asked in ASKED.iter().filter(|(_, model)| model.starts_with("openai/")) {
        let policy = Policy { landing: Landing::Respond, ..calls(1) };
        let ran = play(*asked, policy, vec![grep(0), answer()]).await;
        assert_eq!(ran.end(), ("landed", "tool_calls".into(), Some("respond")), "{}", ran.who());
        assert_eq!((ran.answer(), choice(&ran.requests[1])), ("Twelve.", Some("function")));
    }
}

#[tokio::test]
async fn what_is_said_in_mid_round_comes_after_the_results() {
    for asked in ASKED {
        let said = "Only July, please.";
        let turns = vec![batch(0..2), Turn::from_text("July."), Turn::from_text("July.")];
        let (mut agent, transport) = set(*asked, calls(3), turns);
        let mut conversation = Conversation::new();
        let inbox = conversation.inbox();
        agent.tools = softland_agent::ToolSet::new();
        let answer = Box::new(move |n, _: &Value| {
            if n == 0 {
                inbox.send_text(said);
            }
            ToolOutput::ok("found")
        });
        let tool = common::Counting { name: "grep", calls: Arc::default(), answer };
        agent.tools.add_tool(Arc::new(tool)).unwrap();
        let (report, _) = ask(&agent, &mut conversation, "What is it?").await;
        assert_eq!(report.answer.as_deref(), Some("July."), "{asked:?}");
        assert_eq!(
            transport.sim.refused_requests(),
            0,
            "{asked:?}: {:?}",
            transport.sim.stats().refusals
        );
        let second = transport.requests()[1].to_string();
        let (line, said) = (second.find("1 tool call remaining"), second.find(said));
        assert!(line.is_some() && said.is_some(), "{asked:?}: {second}");
        // Claude is told within the last result, whose end is softland's line.
        let in_result = asked.0 == Api::Anthropic || asked.1.contains("claude");
        assert_eq!(said < line, in_result, "{asked:?}: {second}");
        let whole = transport.requests().pop().unwrap().to_string();
        assert_eq!(whole.matches("Only July").count(), 1, "{asked:?}");
        assert_eq!(transport.requests().len(), 2, "{asked:?}: no nudge is needed");
    }
}

#[tokio::test]
async fn a_failure_is_told_in_the_providers_words() {
    for asked in ASKED {
        let (mut agent, transport) = set(*asked, Policy::default(), vec![grep(0)]);
        agent.model = format!("{}-that-is-not-there", asked.1);
        let (report, _) = ask(&agent, &mut Conversation::new(), "What is it?").await;
        let refusals = transport.sim.stats().refusals;
        assert_eq!(report.ended.outcome.word(), "failed", "{asked:?}");
        let failure = report.failure.unwrap();
        assert!(failure.contains(&refusals[0].message), "{asked:?}: {failure}, {refusals:?}");
    }
}

#[tokio::test]
async fn a_conversation_keeps_to_its_api() {
    let (mut agent, _) =
        set(ASKED[0], Policy::default(), vec![Turn::from_text("So."), Turn::from_text("So.")]);
    let mut conversation = Conversation::new();
    ask(&agent, &mut conversation, "What is it?").await;
    assert_eq!(conversation.api(), Some(Api::Anthropic));
    agent.options.api = Api::OpenAiChat;
    let (before, cancel) = (conversation.messages().count(), CancellationToken::new());
    let refused = agent
        .run_in_conversation(&mut conversation, "And now?", &mut |_| {}, &cancel)
        .await
        .unwrap_err();
    let (conversation_api, agent_api) = (Api::Anthropic, Api::OpenAiChat);
    assert_eq!(refused, SetupError::OtherApi { conversation: conversation_api, agent: agent_api });
    assert_eq!(conversation.messages().count(), before);
    assert!(refused.to_string().contains("`openai-chat`"), "{refused}");
}

/// A run goes on, and its limit holds, however deep the arguments of a call are nested. A tool gets
/// only arguments that it may get, and the history stays readable.
#[tokio::test]
async fn c26_a_run_reads_its_own_history_however_deep_arguments_are() {
    let apis = [
        (Api::Anthropic, "anthropic/claude-sonnet-5-5"),
        (Api::OpenAiChat, "openai/gpt-4o"),
        (Api::OpenAiResponses, "openai/gpt-4o"),
    ];
    for asked in apis {
        for levels in [1, 50, 99, 100, 101, 120, 123, 124, 126, 127, 128, 129, 500, 2000] {
            let name = format!("{asked:?}, {levels} levels");
            let deep = ["{\"a\":".repeat(levels).as_str(), "1", &"}".repeat(levels)].concat();
            let turns = vec![
                Turn::from_parts(vec![Part::tool_call("grep", &deep)]),
                Turn::from_parts(vec![Part::tool_call("grep", deep.replace('1', "2"))]),
                Turn::from_parts(vec![Part::tool_call("grep", deep.replace('1', "3"))]),
                Turn::from_parts(vec![Part::text("That is all of it.")]),
            ];
            let policy = Policy { tool_calls_limit: Some(2), ..Policy::default() };
            let ran = play(asked, policy, turns).await;
            assert_eq!(ran.end().0, "landed", "{name}: {:?}", ran.report);
            assert_eq!(ran.report.tool_calls, 2, "{name}");
            assert_eq!(ran.answer(), "That is all of it.", "{name}");
            let said = ran.results(1).concat();
            assert_eq!(said.contains("finding"), levels <= 100, "{name}: {said}");
            assert_eq!(said.contains("nested deeper than 100"), levels > 100, "{name}: {said}");
        }
    }
}
