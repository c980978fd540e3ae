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

use super::{MESSAGE, PAGES, Shared};
use crate::chat::{Asked, StoppedBy};
use crate::types::{By, Change, Edit, Refused};

/// The time that a page may take to send the token, and to accept a message.
const PATIENCE: Duration = Duration::from_secs(10);
const TAKES: Duration = Duration::from_secs(60);
/// The number of pings that a page may leave unanswered. While a page is sent a lot, it is not
/// pinged. Browsers answer by themselves, whatever the page does.
const OWED: u32 = 4;
/// The number of requests of one page that may be active at a time.
const WISHES: usize = 64;

type Out = SplitSink<WebSocket, Message>;

/// A request of a page.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Wish {
    Edit(Edit),
    InTurn(InTurn),
    Other(Other),
}

/// A request that is begun in the order in which it arrived.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum InTurn {
    RunCell { id: String },
    Ask { text: String },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Other {
    Interrupt,
    RestartKernel,
    Stop,
    NewConversation,
    WriteAnew,
}

/// A request that is carried out beside others.
enum Later {
    Run(String),
    Other(Other),
}

/// Serves a page until it leaves or is closed.
pub(super) async fn talk(shared: Arc<Shared>, socket: WebSocket) {
    let (mut out, mut wishes) = socket.split();
    let end = match tokio::time::timeout(PATIENCE, shows_token(&shared, &mut wishes)).await {
        Ok(true) => {
            shared.pages.send_modify(|pages| *pages += 1);
            let _here = Here(&shared);
            let (replies, waiting) = mpsc::channel(WISHES);
            // Each of them ends the other: nothing more is needed for a page that is gone.
            tokio::select! {
                end = hear(&shared, &mut wishes, replies) => end,
                end = tell(&shared, &mut out, waiting) => end,
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
pub(super) async fn refuse(mut socket: WebSocket) {
    let reason = format!("{PAGES} pages are open already, as many as there may be; close one");
    let frame = CloseFrame { code: close_code::AGAIN, reason: reason.into() };
    let _ = tokio::time::timeout(PATIENCE, socket.send(Message::Close(Some(frame)))).await;
}

/// Counts a page for as long as it is open.
struct Here<'a>(&'a Shared);

impl Drop for Here<'_> {
    fn drop(&mut self) {
        self.0.pages.send_modify(|pages| *pages -= 1);
    }
}

/// The reason for closing a socket; `None` if it is gone already.
type End = Option<(u16, String)>;

/// Reads the first message, `{"token": …}`, and returns true if the token is right.
async fn shows_token(shared: &Shared, wishes: &mut SplitStream<WebSocket>) -> bool {
    let Some(Ok(Message::Text(text))) = wishes.next().await else { return false };
    let Ok(said) = serde_json::from_str::<Value>(&text) else { return false };
    let token = said.get("token").and_then(Value::as_str).unwrap_or_default();
    same(shared.token.as_bytes(), token.as_bytes())
}

/// Takes the requests of a page. Each request is carried out on its own, so that a long-running
/// cell delays nothing else. Edits, runs of cells and questions are begun in the order in which
/// they arrived.
async fn hear(
    shared: &Arc<Shared>,
    wishes: &mut SplitStream<WebSocket>,
    replies: mpsc::Sender<String>,
) -> End {
    let under_way = Arc::new(Semaphore::new(WISHES));
    let (runs, asked) = mpsc::channel(WISHES);
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
        let (n, wish) = match read(&text) {
            Ok(read) => read,
            Err(why) => return Some((close_code::INVALID, why)),
        };
        let wish = match wish {
            Ok(Wish::Edit(edit)) => {
                let _ = replies.send(reply(n, &edited(shared, edit).await)).await;
                continue;
            }
            Ok(Wish::InTurn(InTurn::Ask { text })) => {
                let _ = replies.send(reply(n, &ask(shared, &text))).await;
                continue;
            }
            Ok(Wish::InTurn(InTurn::RunCell { id })) => Later::Run(id),
            Ok(Wish::Other(wish)) => Later::Other(wish),
            Err(why) => {
                let _ = replies.send(reply(n, &refused(why))).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&under_way).try_acquire_owned() else {
            let many = format!("{WISHES} wishes of this page are under way already");
            let _ = replies.send(reply(n, &refused(many))).await;
            continue;
        };
        match wish {
            Later::Run(id) => {
                let _ = runs.send((n, id, permit)).await;
            }
            Later::Other(wish) => {
                let (shared, replies) = (Arc::clone(shared), replies.clone());
                tokio::spawn(async move {
                    let done = fulfil(&shared, wish).await;
                    let _ = replies.send(reply(n, &done)).await;
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
    shared: Arc<Shared>,
    mut asked: mpsc::Receiver<(u64, String, OwnedSemaphorePermit)>,
    replies: mpsc::Sender<String>,
) {
    while let Some((n, id, permit)) = asked.recv().await {
        let begun = match shared.room.begin_run(&id, By::Human).await {
            Ok(begun) => begun,
            Err(no) => {
                let _ = replies.send(reply(n, &Err(json!(no)))).await;
                continue;
            }
        };
        let (room, replies) = (Arc::clone(&shared.room), replies.clone());
        let ended = async move {
            // The outputs are sent as changes.
            let done = room.end_of(begun).await.map_err(|no| json!(no)).map(|ran| {
                json!({"ok": ran.ok, "still_running": ran.still_running, "seconds": ran.seconds})
            });
            let _ = replies.send(reply(n, &done)).await;
            drop(permit);
        };
        tokio::spawn(ended);
    }
}

/// Returns the number of a message, and its request.
fn read(text: &str) -> Result<(u64, Result<Wish, String>), String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    let n = value.get("n").and_then(Value::as_u64);
    let n = n.ok_or_else(|| "a message needs a number `n`".to_owned())?;
    let word = value.get("do").and_then(Value::as_str).unwrap_or_default().to_owned();
    let wish = Wish::deserialize(value).map_err(|_| {
        let word: String = word.chars().take(40).collect();
        format!("`{word}` is nothing that can be done, or is not asked for as it must be")
    });
    Ok((n, wish))
}

/// The result of a request, or the reason why it was refused.
type Outcome = Result<Value, Value>;

async fn edited(shared: &Shared, edit: Edit) -> Outcome {
    shared.room.edit(edit, By::Human).await.map(|done| json!(done)).map_err(|no| json!(no))
}

fn ask(shared: &Shared, text: &str) -> Outcome {
    match shared.chat.ask(text) {
        Ok(asked) => Ok(json!({"joined": asked == Asked::Joined})),
        Err(why) => refused(why),
    }
}

async fn fulfil(shared: &Shared, wish: Other) -> Outcome {
    let no = |refused: Refused| json!(refused);
    match wish {
        Other::Interrupt => {
            shared.room.interrupt().await;
            Ok(json!({}))
        }
        Other::RestartKernel => shared.room.restart().await.map(|()| json!({})).map_err(no),
        Other::NewConversation => match shared.chat.anew() {
            Ok(()) => Ok(json!({})),
            Err(why) => refused(why),
        },
        Other::WriteAnew => shared.room.write_anew().await.map(|()| json!({})).map_err(no),
        Other::Stop => Ok(json!({"stopped": shared.stop(StoppedBy::User).await})),
    }
}

fn refused(why: String) -> Outcome {
    Err(json!({"code": "invalid", "message": why, "cell": null}))
}

fn reply(n: u64, outcome: &Outcome) -> String {
    match outcome {
        Ok(done) => json!({"reply": n, "ok": done}).to_string(),
        Err(no) => json!({"reply": n, "refused": no}).to_string(),
    }
}

/// Sends the page the current state, and then the changes. A page that falls behind is sent
/// everything again.
async fn tell(shared: &Shared, out: &mut Out, mut replies: mpsc::Receiver<String>) -> End {
    let mut beat = tokio::time::interval(shared.beat);
    loop {
        let (state, mut changes) = shared.room.watch();
        let (events, mut said) = shared.chat.watch();
        let chat = events.join(",");
        let running = shared.chat.is_running();
        let text = format!(r#"{{"state":{},"chat":[{chat}],"asked":{running}}}"#, json!(state));
        drop((state, events, chat));
        send(out, Message::Text(text.into())).await?;
        loop {
            let message = tokio::select! {
                biased;
                // Pings come first: a page that is sent a lot must not be taken for one that is
                // gone.
                _ = beat.tick() => {
                    send(out, Message::Ping(Default::default())).await?;
                    continue;
                }
                change = changes.recv() => match behind(change) {
                    Next::Tell(change) => json!({"change": &*change as &Change}).to_string(),
                    Next::Anew => break,
                    Next::Over => return Some((close_code::AWAY, "the notebook was closed".into())),
                },
                event = said.recv() => match behind(event) {
                    Next::Tell(event) => format!(r#"{{"event":{event}}}"#),
                    Next::Anew => break,
                    Next::Over => return None,
                },
                Some(reply) = replies.recv() => reply,
            };
            send(out, Message::Text(message.into())).await?;
        }
    }
}

enum Next<T> {
    Tell(T),
    Anew,
    Over,
}

fn behind<T>(got: Result<T, RecvError>) -> Next<T> {
    match got {
        Ok(next) => Next::Tell(next),
        Err(RecvError::Lagged(_)) => Next::Anew,
        Err(RecvError::Closed) => Next::Over,
    }
}

/// Sends a message; returns `None` if the page does not accept it in time.
async fn send(out: &mut Out, message: Message) -> Option<()> {
    tokio::time::timeout(TAKES, out.send(message)).await.ok()?.ok()
}

/// Compares two values in a time that reveals only the length of the given one.
fn same(wanted: &[u8], given: &[u8]) -> bool {
    let zipped = wanted.iter().zip(given.iter().chain(std::iter::repeat(&0)));
    let differ = zipped.fold(0_u8, |differ, (wanted, given)| differ | (wanted ^ given));
    (std::hint::black_box(differ) == 0) & (wanted.len() == given.len()) & !wanted.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_read_or_refused() {
        let wish = |text: &str| read(text).map(|(_, wish)| wish);
        assert!(matches!(
            wish(r#"{"n":1,"do":"create_cell","type":"code","source":"1"}"#),
            Ok(Ok(Wish::Edit(Edit::CreateCell { index: None, .. })))
        ));
        assert!(matches!(wish(r#"{"n":2,"do":"stop"}"#), Ok(Ok(Wish::Other(Other::Stop)))));
        assert!(matches!(wish(r#"{"n":3,"do":"ask"}"#), Ok(Err(_))));
        assert!(matches!(wish(r#"{"n":3,"do":"format"}"#), Ok(Err(_))));
        assert!(wish("[]").is_err() && wish("{").is_err());
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(same(b"abc", b"abc"));
        for wrong in [&b"ab"[..], b"abcd", b"abd", b"", b"abc\0"] {
            assert!(!same(b"abc", wrong));
        }
        assert!(!same(b"", b""));
    }
}
