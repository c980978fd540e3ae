//! A fake engine for the tests of this crate: a server that gives the answers it is told to.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::client::EngineClient;

/// A server on loopback, and the requests that it has been asked.
pub(crate) struct FakeEngine {
    pub(crate) client: EngineClient,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeEngine {
    /// Starts a server that answers each request, told as `POST path`, with a status of success and
    /// this body.
    pub(crate) async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start_with_status(move |request, _| (200, answer(request))).await
    }

    /// Starts a server that answers each request, told as `POST path` and its body, with this status
    /// and this body.
    pub(crate) async fn start_with_status(
        answer: impl Fn(&str, &str) -> (u16, Vec<u8>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client =
            EngineClient::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (request, asked) = read_request(&mut stream).await;
                seen.lock().unwrap().push(request.clone());
                let (status, body) = answer(&request, &asked);
                let head = format!(
                    "HTTP/1.1 {status} \r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&body).await.unwrap();
            }
        });
        Self { client, asked }
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a request to its end. Returns its method and path, and its body.
async fn read_request(stream: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                let mut words = head.split(' ');
                let request = format!("{} {}", words.next().unwrap(), words.next().unwrap());
                return (request, body.to_owned());
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return (String::new(), String::new());
        }
    }
}
