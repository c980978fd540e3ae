//! The socket of one page. The page sends the token and receives the notebook and the conversation
//! as they are; then it receives changes and sends requests.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{MESSAGE, PAGES, ServerState};
use crate::chat::{QuestionOutcome, StoppedBy};
use crate::types::{Actor, Change, Edit, Refusal};

/// The time that a page may take to send the token, and to accept a message.
const PATIENCE: Duration = Duration::from_secs(10);
const TAKES: Duration = Duration::from_secs(60);
/// The number of pings that a page may leave unanswered. While a page is sent a lot, it is not
/// pinged. Browsers answer by themselves, whatever the page does.
const OWED: u32 = 4;
/// The number of requests of one page that may be active at a time.
const MAX_REQUESTS: usize = 64;

type SocketSink = SplitSink<WebSocket, Message>;

/// A request of a page.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PageRequest {
    Edit(Edit),
    InTurn(OrderedRequest),
    Other(OtherRequest),
}

/// A request that is begun in the order in which it arrived.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum OrderedRequest {
    RunCell { id: String },
    Ask { text: String },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum OtherRequest {
    Interrupt,
    RestartKernel,
    Stop,
    NewConversation,
    WriteAnew,
}

/// A request that is carried out beside others.
enum DeferredRequest {
    Run(String),
    Other(OtherRequest),
}

/// Serves a page until it leaves or is closed.
pub(super) async fn serve_page(shared: Arc<ServerState>, socket: WebSocket) {
    let (mut out, mut wishes) = socket.split();
    let end = match tokio::time::timeout(PATIENCE, shows_token(&shared, &mut wishes)).await {
        Ok(true) => {
            shared.pages.send_modify(|pages| *pages += 1);
            let _here = PageGuard(&shared);
            let (replies, waiting) = mpsc::channel(MAX_REQUESTS);
            // Each of them ends the other: nothing more is needed for a page that is gone.
            tokio::select! {
                end = take_requests(&shared, &mut wishes, replies) => end,
                end = send_updates(&shared, &mut out, waiting) => end,
                () = shared.leaving.cancelled() => {
                    Some((close_code::AWAY, "the notebook was closed".to_owned()))
                }
            }
        }
        Ok(false) | Err(_) => Some((
            close_code::POLICY,
            "the token of this page is needed: it is in the address that softland has printed"
                .to_owned(),
        )),
    };
    if let Some((code, reason)) = end {
        let frame = CloseFrame { code, reason: reason.into() };
        let _ = tokio::time::timeout(PATIENCE, out.send(Message::Close(Some(frame)))).await;
    }
}

/// Tells a page that the most pages are open already. If a connection were refused without this
/// message, the browser would tell its page no reason.
pub(super) async fn refuse_excess_page(mut socket: WebSocket) {
    let reason = format!("{PAGES} pages are open already, as many as there may be; close one");
    let frame = CloseFrame { code: close_code::AGAIN, reason: reason.into() };
    let _ = tokio::time::timeout(PATIENCE, socket.send(Message::Close(Some(frame)))).await;
}

/// Counts a page for as long as it is open.
struct PageGuard<'a>(&'a ServerState);

impl Drop for PageGuard<'_> {
    fn drop(&mut self) {
        self.0.pages.send_modify(|pages| *pages -= 1);
    }
}

/// The reason for closing a socket; `None` if it is gone already.
type CloseReason = Option<(u16, String)>;

/// Reads the first message, `{"token": …}`, and returns true if the token is right.
async fn shows_token(shared: &ServerState, wishes: &mut SplitStream<WebSocket>) -> bool {
    let Some(Ok(Message::Text(text))) = wishes.next().await else { return false };
    let Ok(said) = serde_json::from_str::<Value>(&text) else { return false };
    let token = said.get("token").and_then(Value::as_str).unwrap_or_default();
    tokens_match(shared.token.as_bytes(), token.as_bytes())
}

/// Takes the requests of a page. Each request is carried out on its own, so that a long-running
/// cell delays nothing else. Edits, runs of cells and questions are begun in the order in which
/// they arrived.
async fn take_requests(
    shared: &Arc<ServerState>,
    wishes: &mut SplitStream<WebSocket>,
    replies: mpsc::Sender<String>,
) -> CloseReason {
    let under_way = Arc::new(Semaphore::new(MAX_REQUESTS));
    let (runs, asked) = mpsc::channel(MAX_REQUESTS);
    tokio::spawn(begin_runs(Arc::clone(shared), asked, replies.clone()));
    let patience = shared.beat * OWED;
    // A page that has left without a message is like one that stays and says nothing.
    while let Ok(Some(message)) = tokio::time::timeout(patience, wishes.next()).await {
        let text = match message {
            Ok(Message::Text(text)) => text,
            Ok(Message::Close(_)) => return None,
            Ok(Message::Binary(_)) => {
                return Some((close_code::UNSUPPORTED, "only text is taken".to_owned()));
            }
            Ok(Message::Ping(_) | Message::Pong(_)) => continue,
            Err(_) => {
                let most = format!("a message has at most {MESSAGE} bytes");
                return Some((close_code::SIZE, most));
            }
        };
        let (n, wish) = match parse_request(&text) {
            Ok(read) => read,
            Err(why) => return Some((close_code::INVALID, why)),
        };
        let wish = match wish {
            Ok(PageRequest::Edit(edit)) => {
                let _ = replies.send(format_reply(n, &make_edit(shared, edit).await)).await;
                continue;
            }
            Ok(PageRequest::InTurn(OrderedRequest::Ask { text })) => {
                let _ = replies.send(format_reply(n, &ask_assistant(shared, &text))).await;
                continue;
            }
            Ok(PageRequest::InTurn(OrderedRequest::RunCell { id })) => DeferredRequest::Run(id),
            Ok(PageRequest::Other(wish)) => DeferredRequest::Other(wish),
            Err(why) => {
                let _ = replies.send(format_reply(n, &invalid_request(why))).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&under_way).try_acquire_owned() else {
            let many = format!("{MAX_REQUESTS} requests of this page are running already");
            let _ = replies.send(format_reply(n, &invalid_request(many))).await;
            continue;
        };
        match wish {
            DeferredRequest::Run(id) => {
                let _ = runs.send((n, id, permit)).await;
            }
            DeferredRequest::Other(wish) => {
                let (shared, replies) = (Arc::clone(shared), replies.clone());
                tokio::spawn(async move {
                    let done = fulfil_request(&shared, wish).await;
                    let _ = replies.send(format_reply(n, &done)).await;
                    drop(permit);
                });
            }
        }
    }
    None
}

/// Begins runs of cells one after another. Cells that need each other run in the order in which
/// they were requested, even if the first one has to wait for its kernel.
async fn begin_runs(
    shared: Arc<ServerState>,
    mut asked: mpsc::Receiver<(u64, String, OwnedSemaphorePermit)>,
    replies: mpsc::Sender<String>,
) {
    while let Some((n, id, permit)) = asked.recv().await {
        let begun = match shared.notebook.begin_run(&id, Actor::Human).await {
            Ok(begun) => begun,
            Err(no) => {
                let _ = replies.send(format_reply(n, &Err(json!(no)))).await;
                continue;
            }
        };
        let (notebook, replies) = (Arc::clone(&shared.notebook), replies.clone());
        let ended = async move {
            // The outputs are sent as changes.
            let done = notebook.wait_for_run(begun).await.map_err(|no| json!(no)).map(|ran| {
                json!({"ok": ran.ok, "still_running": ran.still_running, "seconds": ran.seconds})
            });
            let _ = replies.send(format_reply(n, &done)).await;
            drop(permit);
        };
        tokio::spawn(ended);
    }
}

/// Returns the number of a message, and its request.
fn parse_request(text: &str) -> Result<(u64, Result<PageRequest, String>), String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let n = value.get("n").and_then(Value::as_u64);
    let n = n.ok_or_else(|| "a message needs a number `n`".to_owned())?;
    let word = value.get("do").and_then(Value::as_str).unwrap_or_default().to_owned();
    let wish = PageRequest::deserialize(value).map_err(|_| {
        let word: String = word.chars().take(40).collect();
        format!("`{word}` is not a known request, or its members are wrong")
    });
    Ok((n, wish))
}

/// The result of a request, or the reason why it was refused.
type RequestOutcome = Result<Value, Value>;

async fn make_edit(shared: &ServerState, edit: Edit) -> RequestOutcome {
    shared
        .notebook
        .apply_edit(edit, Actor::Human)
        .await
        .map(|done| json!(done))
        .map_err(|no| json!(no))
}

fn ask_assistant(shared: &ServerState, text: &str) -> RequestOutcome {
    match shared.chat.ask_question(text) {
        Ok(asked) => Ok(json!({"joined": asked == QuestionOutcome::Joined})),
        Err(why) => invalid_request(why),
    }
}

async fn fulfil_request(shared: &ServerState, wish: OtherRequest) -> RequestOutcome {
    let no = |refused: Refusal| json!(refused);
    match wish {
        OtherRequest::Interrupt => {
            shared.notebook.interrupt_cells().await;
            Ok(json!({}))
        }
        OtherRequest::RestartKernel => {
            shared.notebook.restart_kernel().await.map(|()| json!({})).map_err(no)
        }
        OtherRequest::NewConversation => match shared.chat.begin_conversation() {
            Ok(()) => Ok(json!({})),
            Err(why) => invalid_request(why),
        },
        OtherRequest::WriteAnew => {
            shared.notebook.rewrite_file().await.map(|()| json!({})).map_err(no)
        }
        OtherRequest::Stop => Ok(json!({"stopped": shared.stop_assistant(StoppedBy::User).await})),
    }
}

fn invalid_request(why: String) -> RequestOutcome {
    Err(json!({"code": "invalid", "message": why, "cell": null}))
}

fn format_reply(n: u64, outcome: &RequestOutcome) -> String {
    match outcome {
        Ok(done) => json!({"reply": n, "ok": done}).to_string(),
        Err(no) => json!({"reply": n, "refused": no}).to_string(),
    }
}

/// Sends the page the current state, and then the changes. A page that falls behind is sent
/// everything again.
async fn send_updates(
    shared: &ServerState,
    out: &mut SocketSink,
    mut replies: mpsc::Receiver<String>,
) -> CloseReason {
    let mut beat = tokio::time::interval(shared.beat);
    loop {
        let (state, mut changes) = shared.notebook.watch();
        let (events, mut said) = shared.chat.watch();
        let chat = events.join(",");
        let running = shared.chat.is_running();
        let text = format!(r#"{{"state":{},"chat":[{chat}],"asked":{running}}}"#, json!(state));
        drop((state, events, chat));
        send_message(out, Message::Text(text.into())).await?;
        loop {
            let message = tokio::select! {
                biased;
                // Pings come first: a page that is sent a lot must not be taken for one that is
                // gone.
                _ = beat.tick() => {
                    send_message(out, Message::Ping(Default::default())).await?;
                    continue;
                }
                change = changes.recv() => match classify_received(change) {
                    NextEvent::Tell(change) => json!({"change": &*change as &Change}).to_string(),
                    NextEvent::Anew => break,
                    NextEvent::Over => return Some((close_code::AWAY, "the notebook was closed".into())),
                },
                event = said.recv() => match classify_received(event) {
                    NextEvent::Tell(event) => format!(r#"{{"event":{event}}}"#),
                    NextEvent::Anew => break,
                    NextEvent::Over => return None,
                },
                Some(reply) = replies.recv() => reply,
            };
            send_message(out, Message::Text(message.into())).await?;
        }
    }
}

enum NextEvent<T> {
    Tell(T),
    Anew,
    Over,
}

fn classify_received<T>(got: Result<T, RecvError>) -> NextEvent<T> {
    match got {
        Ok(next) => NextEvent::Tell(next),
        Err(RecvError::Lagged(_)) => NextEvent::Anew,
        Err(RecvError::Closed) => NextEvent::Over,
    }
}

/// Sends a message; returns `None` if the page does not accept it in time.
async fn send_message(out: &mut SocketSink, message: Message) -> Option<()> {
    tokio::time::timeout(TAKES, out.send(message)).await.ok()?.ok()
}

/// Compares two values in a time that reveals only the length of the given one.
fn tokens_match(wanted: &[u8], given: &[u8]) -> bool {
    let zipped = wanted.iter().zip(given.iter().chain(std::iter::repeat(&0)));
    let differ = zipped.fold(0_u8, |differ, (wanted, given)| differ | (wanted ^ given));
    (std::hint::black_box(differ) == 0) & (wanted.len() == given.len()) & !wanted.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_read_or_refused() {
        let wish = |text: &str| parse_request(text).map(|(_, wish)| wish);
        assert!(matches!(
            wish(r#"{"n":1,"do":"create_cell","type":"code","source":"1"}"#),
            Ok(Ok(PageRequest::Edit(Edit::CreateCell { index: None, .. })))
        ));
        assert!(matches!(
            wish(r#"{"n":2,"do":"stop"}"#),
            Ok(Ok(PageRequest::Other(OtherRequest::Stop)))
        ));
        assert!(matches!(wish(r#"{"n":3,"do":"ask"}"#), Ok(Err(_))));
        assert!(matches!(wish(r#"{"n":3,"do":"format"}"#), Ok(Err(_))));
        assert!(wish("[]").is_err() && wish("{").is_err());
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(tokens_match(b"abc", b"abc"));
        for wrong in [&b"ab"[..], b"abcd", b"abd", b"", b"abc\0"] {
            assert!(!tokens_match(b"abc", wrong));
        }
        assert!(!tokens_match(b"", b""));
    }
}
