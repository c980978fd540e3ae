//! The same case through a gateway that only observes and past it: both sides see the same bytes.

use std::path::PathBuf;

use serde_json::json;
use softland_session::core::policy::{Mode, Policy};
use softland_sim::{Config, Scenario};

use super::play::Play;
use super::talk::{self, Talk};
use crate::adversary::case::{Ask, Case};
use crate::support::reading::{End, read};
use crate::support::sim::Simulated;
use crate::support::{self, Message, Running};

/// Plays a case both ways.
pub(crate) async fn observed(case: &Case, seed: u64) {
    let Some(Ask::Say(_, policy)) = case.asks.first() else { panic!("a case begins with an ask") };
    let policy = Policy { mode: Mode::Observe, ..Policy::clone(policy) };
    let talk = Talk::of(case);
    let mut sides = Vec::new();
    for observes in [true, false] {
        let mut config = Config::new(Scenario::Scripted(case.turns.clone()));
        config.piece_bytes = case.manner.piece_bytes;
        config.aliases = talk::aliases(case);
        let upstream = Simulated::of(config).await;
        let log = PathBuf::from("unused");
        let mut settings = Play::settings(&upstream, &policy, &log);
        settings.log.events = None;
        let gateway = Running::with(settings).await;
        let to = if observes { gateway.address.to_string() } else { upstream.url[7..].to_owned() };
        let mut said = Vec::new();
        let mut messages = vec![json!({"role": "user", "content": "What is it?"})];
        for _ in 0..6 {
            let body = talk.body(&talk.head(), &messages);
            let request = format!(
                "POST {} HTTP/1.1\r\nhost: {to}\r\n{}\r\ncontent-length: {}\r\n\r\n{body}",
                talk.path(),
                talk.headers().join("\r\n"),
                body.len()
            );
            let mut wire = support::Wire::to(to.parse().unwrap()).await;
            wire.send(request).await;
            let Some((mut message, whole)) = raw(&mut wire).await else { break };
            let (status, text) = (message.status(), message.text().to_owned());
            said.push((status, text, whole));
            if !whole || status != 200 {
                continue;
            }
            message.headers.retain(|(name, _)| name == "content-type");
            let reply = read(&message);
            if reply.end != End::Whole {
                continue;
            }
            if reply.calls().is_empty() {
                break;
            }
            messages.extend(talk.turn(&reply));
            messages.extend(talk.results(&reply));
        }
        sides.push((said, upstream.refused()));
    }
    // The simulator's clock goes on between the two.
    for (_, text, _) in sides.iter_mut().flat_map(|side| &mut side.0) {
        *text = without_times(text);
    }
    // A message that broke off is no message: who waits for all of it is told so.
    let broke = |(status, _, whole): &(u16, String, bool)| !*whole || *status == 502;
    let whole = case.manner.whole;
    for side in &mut sides {
        side.0.iter_mut().filter(|said| whole && broke(said)).for_each(|said| said.1.clear());
        side.0.iter_mut().filter(|said| whole && broke(said)).for_each(|said| said.0 = 502);
        side.0.iter_mut().filter(|said| whole && broke(said)).for_each(|said| said.2 = true);
    }
    assert_eq!(sides[0], sides[1], "seed {seed}: {policy:?}");
}

/// A response without the times at which it was made.
fn without_times(text: &str) -> String {
    let mut pieces = text.split("\"created");
    let mut kept = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, value) = piece.split_once(':').unwrap_or((piece, ""));
        kept.push_str("\"created");
        kept.push_str(name);
        kept.push_str(value.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    kept
}

/// A response, and whether it came to its end.
async fn raw(wire: &mut support::Wire) -> Option<(Message, bool)> {
    let mut message = wire.head().await?;
    if message.header("transfer-encoding").is_some() {
        loop {
            match wire.chunk().await {
                None => return Some((message, false)),
                Some(chunk) if chunk.is_empty() => return Some((message, true)),
                Some(chunk) => message.body.extend(chunk),
            }
        }
    }
    let length: usize = message.header("content-length")?.parse().unwrap();
    while wire.read.len() < length && wire.more().await {}
    let whole = wire.read.len() >= length;
    message.body.append(&mut wire.read);
    Some((message, whole))
}
