//! Clients that send their newest rounds only: however many, however their calls are named and
//! whatever comes back, a run keeps its count, its tokens and its money.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

use crate::support::client::{APIS, Client};
use crate::support::script::{Form, prices, whole_with};
use crate::support::sim::{governed, text};
use crate::support::{Provider, Running};

/// Requests that are sent at most, and those that a limit lets through.
const REQUESTS: usize = 40;
const LIMIT: usize = 12;
/// Tokens of a request.
const TOKENS: [u64; 2] = [4_000, 100];

/// One client.
#[derive(Clone, Copy, Debug)]
struct Case {
    api: Api,
    /// Rounds that it sends.
    window: usize,
    ids: Ids,
    /// The number of different arguments and results: 1 is always the same, 0 each time another.
    arguments: usize,
    results: usize,
    header: Option<&'static str>,
    /// The question says how many messages are left out, so that each request opens anew.
    noted: bool,
}

/// The ids of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ids {
    /// Each call has one of its own.
    Own,
    /// All have the same.
    Same,
    /// The client writes others than the provider's: the same ones for a call in every request, or
    /// new ones each time.
    Mapped,
    Drawn,
}

impl Case {
    fn all() -> impl Iterator<Item = Self> {
        let headers = [None, Some("agent-session-id: s-1"), Some("x-softland-run: r-1")];
        let mut all = Vec::new();
        for api in APIS {
            for window in [1, 2, 3, 10] {
                for ids in [Ids::Own, Ids::Same, Ids::Mapped, Ids::Drawn] {
                    for (arguments, results) in [(0, 0), (0, 1), (3, 0), (3, 1), (1, 0), (1, 1)] {
                        for header in headers {
                            let noted = false;
                            all.push(Self { api, window, ids, arguments, results, header, noted });
                        }
                    }
                }
            }
        }
        all.into_iter().filter(|case| case.tells_its_requests_apart())
    }

    /// Without ids, arguments that come again make requests which are equal to older ones: they are
    /// those of a client that asks once more.
    fn tells_its_requests_apart(&self) -> bool {
        self.ids == Ids::Own
            || self.arguments == 0
            || (self.results == 0 && self.window > self.arguments)
    }

    /// A provider whose model always calls a tool, if it may.
    async fn provider(self) -> Provider {
        let count = AtomicUsize::new(0);
        Provider::does(move |asked, wire| {
            let n = count.fetch_add(1, Ordering::SeqCst);
            async move {
                let body: Value = serde_json::from_slice(&asked.body).unwrap();
                let none = body["tool_choice"] == "none" || body["tool_choice"]["type"] == "none";
                let id = if self.ids == Ids::Same {
                    "call_0".into()
                } else {
                    format!("toolu_{n:08}abcd")
                };
                let path = if self.arguments == 0 { n } else { n % self.arguments };
                let input = json!({"path": format!("notes/{path}")});
                let call =
                    json!({"type": "tool_use", "id": id, "name": "read_file", "input": input});
                let said = json!({"type": "text", "text": "It is done, as far as it could be."});
                let (block, stop) = if none { (said, "end_turn") } else { (call, "tool_use") };
                wire.lock().await.send(whole_with(Form::of(&asked), &[block], stop, TOKENS)).await;
                true
            }
        })
        .await
    }

    /// The requests that reached the provider.
    async fn run(self, limit: (&'static str, Key)) -> usize {
        let provider = self.provider().await;
        let keys = [limit, ("on_loop", text("observe"))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let mut client = Client::on(self.api, false).limited(500);
        if let Some(header) = self.header {
            client = client.with(header);
        }
        for n in 0..REQUESTS {
            if client.turn(&gateway).await.1.calls().is_empty() {
                break;
            }
            if self.results == 0 {
                set_result(client.messages().last_mut().unwrap(), &format!("result {n}"));
            } else {
                set_result(client.messages().last_mut().unwrap(), "ok");
            }
            let messages = client.messages();
            let old = messages.len().saturating_sub(1 + 2 * self.window);
            messages.drain(1..=old);
            if self.noted && old > 0 {
                messages[0]["content"] = format!("Read on. [{n} messages are left out]").into();
            }
            self.rewrite_ids(messages, n);
        }
        provider.turns()
    }

    /// The ids that the client writes in its `n`th request.
    fn rewrite_ids(self, messages: &mut [Value], n: usize) {
        for message in messages {
            let text = message.to_string();
            let id = |id: &str| match self.ids {
                Ids::Own | Ids::Same => id.to_owned(),
                Ids::Mapped => id.replace("toolu_", "mapped_"),
                Ids::Drawn => format!("drawn_{n:04}_{}", &id[id.len() - 12..]),
            };
            let mut parts = text.split_inclusive("abcd").map(|part| {
                let from = ["toolu_", "mapped_", "drawn_"].iter().find_map(|kind| part.rfind(kind));
                let from = from.filter(|_| part.ends_with("abcd")).unwrap_or(part.len());
                format!(
                    "{}{}",
                    &part[..from],
                    if from < part.len() { id(&part[from..]) } else { String::new() }
                )
            });
            *message = serde_json::from_str(&parts.by_ref().collect::<String>()).unwrap();
        }
    }
}

fn set_result(message: &mut Value, result: &str) {
    if message["output"].is_string() {
        message["output"] = result.into();
    } else if message["content"].is_string() {
        message["content"] = result.into();
    } else {
        message["content"][0]["content"] = result.into();
    }
}

#[tokio::test]
async fn c60_a_window_of_the_newest_rounds_keeps_the_count() {
    for case in Case::all() {
        let sent = case.run(("tool_calls_limit", Key::Int(LIMIT as i128))).await;
        // The landing asks once more, or softland answers itself.
        assert!((LIMIT..=LIMIT + 3).contains(&sent), "{case:?}: {sent} requests");
    }
}

/// The newest calls tell whose they are, also where their ids come again, the newest result was
/// never seen before and the history opens in new words each time.
#[tokio::test]
async fn c48_a_window_of_two_rounds_keeps_the_count_whatever_stands_before_it() {
    for api in APIS {
        for window in [2, 3] {
            let case = Case {
                api,
                window,
                ids: Ids::Same,
                arguments: 0,
                results: 0,
                header: None,
                noted: true,
            };
            let sent = case.run(("tool_calls_limit", Key::Int(LIMIT as i128))).await;
            assert!((LIMIT..=LIMIT + 3).contains(&sent), "{case:?}: {sent} requests");
        }
    }
}

#[tokio::test]
async fn c60_a_window_of_the_newest_rounds_keeps_tokens_and_money() {
    for case in Case::all().filter(|case| case.window != 2) {
        let tokens = TOKENS.iter().sum::<u64>() * LIMIT as u64;
        let sent = case.run(("tokens_limit", Key::Int(tokens.into()))).await;
        // Tokens are estimated before a request, so that the answer may be one more.
        let is_held = (LIMIT / 2..=LIMIT + 1).contains(&sent);
        assert!(is_held, "{case:?}: {sent} requests in {tokens} tokens");
        let [input, output] = prices(case.api);
        let nano = (input * TOKENS[0] + output * TOKENS[1]) * LIMIT as u64;
        let dollars = format!("{}.{:09}", nano / 1_000_000_000, nano % 1_000_000_000);
        let sent = case.run(("cost_limit_usd", text(&dollars))).await;
        assert!((1..=LIMIT).contains(&sent), "{case:?}: {sent} requests for ${dollars}");
    }
}
