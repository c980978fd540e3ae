//! A tiny kernel of the tests' own: Jupyter's protocol over ZeroMQ, written from the protocol's
//! documents and not with the crate's code, so that signing, channels and order are really tried.
//!
//! Its language: one command a line.

use ring::hmac;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

struct Kernel {
    key: hmac::Key,
    iopub: PubSocket,
    count: u64,
    number: u64,
    /// The messages of a cell's threads: those told in the next cell, and those told behind the
    /// cell's end.
    threads: Vec<Told>,
    late: Vec<Told>,
}

/// A message about a request, to be told later.
type Told = (Heard, &'static str, Value);

/// One message: who it is from, its header and its content.
#[derive(Clone)]
struct Heard {
    peer: Vec<u8>,
    header: Value,
    content: Value,
}

pub(crate) async fn run(connection: &str) {
    let info: Value = serde_json::from_slice(&std::fs::read(connection).unwrap()).unwrap();
    let url = |name: &str| format!("tcp://127.0.0.1:{}", info[name]);
    let (mut shell, mut control) = (RouterSocket::new(), RouterSocket::new());
    let mut iopub = PubSocket::new();
    iopub.bind(&url("iopub_port")).await.unwrap();
    control.bind(&url("control_port")).await.unwrap();
    shell.bind(&url("shell_port")).await.unwrap();
    let mut heart = RouterSocket::new();
    heart.bind(&url("hb_port")).await.unwrap();
    tokio::spawn(async move {
        loop {
            let beat = heart.recv().await.unwrap();
            heart.send(beat).await.unwrap();
        }
    });
    let key = hmac::Key::new(hmac::HMAC_SHA256, info["key"].as_str().unwrap().as_bytes());
    let (threads, late) = (Vec::new(), Vec::new());
    let mut kernel = Kernel { key, iopub, count: 0, number: 0, threads, late };
    let mut interrupts = signal(SignalKind::interrupt()).unwrap();
    loop {
        tokio::select! {
            frames = shell.recv() => {
                let heard = kernel.open(frames.unwrap());
                kernel.status(&heard, "busy").await;
                let reply = match heard.header["msg_type"].as_str().unwrap() {
                    "kernel_info_request" => ("kernel_info_reply", json!({ "status": "ok" })),
                    "execute_request" => {
                        let done = tokio::select! {
                            done = kernel.execute(&heard) => done,
                            _ = interrupts.recv() => None,
                        };
                        let reply = match done {
                            Some(reply) => reply,
                            None => kernel.fails(&heard, "KeyboardInterrupt").await,
                        };
                        ("execute_reply", reply)
                    }
                    other => panic!("{other}"),
                };
                // As real kernels do: the reply may come before the last outputs are heard.
                let frames = kernel.seal(&heard, reply.0, &reply.1, Some(&heard.peer));
                shell.send(frames).await.unwrap();
                kernel.status(&heard, "idle").await;
                for (of, kind, content) in std::mem::take(&mut kernel.late) {
                    kernel.tell(&of, kind, content).await;
                }
            }
            frames = control.recv() => {
                let heard = kernel.open(frames.unwrap());
                assert_eq!(heard.header["msg_type"], "shutdown_request");
                std::process::exit(0);
            }
            _ = interrupts.recv() => {}
        }
    }
}

impl Kernel {
    async fn execute(&mut self, heard: &Heard) -> Option<Value> {
        assert_eq!(heard.content["allow_stdin"], false);
        self.count += 1;
        let input = json!({ "code": heard.content["code"], "execution_count": self.count });
        self.tell(heard, "execute_input", input).await;
        for (of, kind, content) in std::mem::take(&mut self.threads) {
            self.tell(&of, kind, content).await;
        }
        for line in heard.content["code"].as_str().unwrap().lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let shown = |id: &str, text: &str| json!({ "data": { "text/plain": text }, "metadata": {}, "transient": { "display_id": id } });
            let (kind, content) = match word {
                "print" => ("stream", json!({ "name": "stdout", "text": format!("{rest}\n") })),
                "raw" => (
                    "stream",
                    json!({ "name": "stdout", "text": serde_json::from_str::<String>(rest).unwrap() }),
                ),
                "warn" => ("stream", json!({ "name": "stderr", "text": format!("{rest}\n") })),
                "flood" => (
                    "stream",
                    json!({ "name": "stdout", "text": "é".repeat(rest.parse().unwrap()) }),
                ),
                "show" => ("display_data", shown("it", rest)),
                "again" => ("update_display_data", shown("it", rest)),
                "picture" => {
                    let picture = "x".repeat(rest.parse().unwrap());
                    let data = json!({ "image/png": picture, "text/plain": "a picture" });
                    ("display_data", json!({ "data": data, "metadata": {} }))
                }
                "clear" => ("clear_output", json!({ "wait": rest == "wait" })),
                "result" => (
                    "execute_result",
                    json!({ "execution_count": self.count, "data": { "text/plain": rest }, "metadata": {} }),
                ),
                "thread" => {
                    let text = json!({ "name": "stdout", "text": format!("{rest}\n") });
                    self.threads.push((heard.clone(), "stream", text));
                    continue;
                }
                "late" => {
                    let text = json!({ "name": "stdout", "text": format!("{rest}\n") });
                    self.late.push((heard.clone(), "stream", text));
                    continue;
                }
                "late_again" => {
                    self.late.push((heard.clone(), "update_display_data", shown("it", rest)));
                    continue;
                }
                "forged" => {
                    let other = hmac::Key::new(hmac::HMAC_SHA256, b"another key");
                    let own = std::mem::replace(&mut self.key, other);
                    self.tell(heard, "stream", json!({ "name": "stdout", "text": "forged" })).await;
                    self.key = own;
                    continue;
                }
                // A text that is no text, as Python's JSON has it.
                "half" => {
                    let content = r#"{"ename":"Half","evalue":"a\ud800b","traceback":["\udc00"]}"#;
                    let frames = self.seal_text(heard, "error", content, None);
                    self.iopub.send(frames).await.unwrap();
                    continue;
                }
                "process" => {
                    let number = format!("{}\n", std::process::id());
                    ("stream", json!({ "name": "stdout", "text": number }))
                }
                // Told in the reply alone.
                "reply" => {
                    return Some(json!({ "status": "error", "ename": rest, "evalue": "why",
                        "traceback": ["here"], "execution_count": self.count }));
                }
                "abort" => return Some(json!({ "status": "aborted" })),
                "fail" => return Some(self.fails(heard, rest).await),
                "die" => std::process::exit(rest.parse().unwrap()),
                "hang" => std::future::pending().await,
                other => panic!("{other}"),
            };
            self.tell(heard, kind, content).await;
        }
        Some(json!({ "status": "ok", "execution_count": self.count }))
    }

    async fn fails(&mut self, heard: &Heard, name: &str) -> Value {
        let error = json!({ "ename": name, "evalue": "why", "traceback": ["here", "there"] });
        self.tell(heard, "error", error).await;
        json!({ "status": "error", "execution_count": self.count })
    }

    async fn status(&mut self, heard: &Heard, state: &str) {
        self.tell(heard, "status", json!({ "execution_state": state })).await;
    }

    async fn tell(&mut self, heard: &Heard, kind: &str, content: Value) {
        let frames = self.seal(heard, kind, &content, None);
        self.iopub.send(frames).await.unwrap();
    }

    fn seal(
        &mut self,
        heard: &Heard,
        kind: &str,
        content: &Value,
        peer: Option<&[u8]>,
    ) -> ZmqMessage {
        self.seal_text(heard, kind, &content.to_string(), peer)
    }

    fn seal_text(
        &mut self,
        heard: &Heard,
        kind: &str,
        content: &str,
        peer: Option<&[u8]>,
    ) -> ZmqMessage {
        self.number += 1;
        let header = json!({
            "msg_id": format!("tiny-{}", self.number), "session": "tiny", "username": "tiny",
            "date": "2026-01-01T00:00:00Z", "msg_type": kind, "version": "5.3",
        });
        let parts = [header.to_string(), heard.header.to_string(), json!({}).to_string()];
        let parts: Vec<Vec<u8>> =
            parts.into_iter().chain([content.to_owned()]).map(String::into_bytes).collect();
        let tag = hmac::sign(&self.key, &parts.concat());
        let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let topic = peer.map_or_else(|| kind.as_bytes().to_vec(), <[u8]>::to_vec);
        let mut frames = ZmqMessage::from(topic);
        frames.push_back(b"<IDS|MSG>".to_vec().into());
        frames.push_back(signature.into_bytes().into());
        for part in parts {
            frames.push_back(part.into());
        }
        frames
    }

    fn open(&self, frames: ZmqMessage) -> Heard {
        let frames = frames.into_vec();
        let [peer, delimiter, signature, parts @ ..] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!(&delimiter[..], b"<IDS|MSG>");
        let tag = hmac::sign(&self.key, &parts[..4].concat());
        let wanted: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(signature, wanted.as_bytes(), "signed with the key");
        let json = |part: &[u8]| serde_json::from_slice(part).unwrap();
        Heard { peer: peer.to_vec(), header: json(&parts[0]), content: json(&parts[3]) }
    }
}
