//! What is lost to the provider's prompt cache is counted and recorded, with the cause.

use serde_json::{Value, json};
use softland_session::core::policy::Policy;
use softland_session::core::{LossCause, NanoUsd};

use crate::support::{Host, Reply, question, read_json, text};

/// An answer that read and wrote so many tokens.
fn answer(read: u64, written: u64) -> Reply {
    let mut message = text();
    message["usage"] = json!({"input_tokens": 10, "output_tokens": 20,
        "cache_read_input_tokens": read, "cache_creation_input_tokens": written});
    Reply::Whole(message)
}

/// The conversation with so many questions answered, and one more.
fn asked(times: usize) -> Value {
    let mut body = question();
    let first = body["messages"][0].clone();
    let said = json!({"role": "assistant", "content": text()["content"]});
    let more = (0..times).flat_map(|_| [said.clone(), first.clone()]);
    let messages: Vec<Value> = [first.clone()].into_iter().chain(more).collect();
    body["messages"] = messages.into();
    body
}

#[tokio::test]
async fn b74_what_is_written_again_is_counted_with_its_cause() {
    let replies = vec![answer(0, 50_000), answer(50_000, 3_000), answer(10_000, 46_000)];
    let host = Host::new(Policy::default(), replies);
    for times in 0..3 {
        let sent = host.send(&asked(times), &[("x-softland-session", "s")]).await;
        assert_eq!(read_json(sent).await.0, 200);
    }
    // 43,010 tokens were in the cache: each cost $3.75 to write, and $0.30 to read, a million.
    let lost = NanoUsd(43_010 * (3_750 - 300));
    let counted = host.notes.lost.lock().unwrap().clone();
    assert_eq!(counted, [(LossCause::Edited, 43_010, lost)]);
    let wanted = json!({"cause": "edited", "tokens": 43_010, "still_read": 10_000,
        "lost_usd": lost.to_dollars(), "pause_ms": 0});
    assert_eq!(*host.notes.losses.lock().unwrap(), [wanted]);
}

#[tokio::test]
async fn other_conversations_and_requests_without_tools_lose_nothing() {
    let host = Host::new(Policy::default(), vec![answer(0, 50_000), answer(0, 50_000)]);
    for session in ["a", "b"] {
        let sent = host.send(&asked(0), &[("x-softland-session", session)]).await;
        assert_eq!(read_json(sent).await.0, 200);
    }
    let mut bare = asked(1);
    bare.as_object_mut().unwrap().remove("tools");
    let sent = host.send(&bare, &[("x-softland-session", "a")]).await;
    assert_eq!(read_json(sent).await.0, 200);
    assert!(host.notes.lost.lock().unwrap().is_empty());
}
