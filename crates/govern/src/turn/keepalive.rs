//! Keeps a stream alive whose request waits for money that others hold (`docs/governing.md` §5):
//! the head is sent first, and the response follows when it exists.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::BodyExt as _;
use softland_session::wire::{Api, anthropic, chat, responses};

use super::head;
use crate::body::{Body, BodySender};
use crate::request::ClientRequest;

/// The interval between two keepalives.
const EVERY: Duration = Duration::from_secs(5);
/// The largest error body that is converted to an event.
const ERROR: usize = 64 << 10;

/// A response that is still being made.
pub(super) type PendingResponse = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Returns a stream that sends only comments until `making` resolves.
pub(super) fn keep_alive(asked: &Arc<ClientRequest>, making: PendingResponse) -> Response<Body> {
    let (sender, body) = Body::channel(4);
    tokio::spawn(relay_pending(Arc::clone(asked), making, sender));
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    head::disable_buffering(asked, response.headers_mut());
    response
}

async fn relay_pending(asked: Arc<ClientRequest>, mut making: PendingResponse, client: BodySender) {
    let api = asked.active.api;
    let response = loop {
        // A comment: clients' readers skip it, and no event may come before the message's head.
        if client.send(Bytes::from_static(b": softland wait\n\n")).await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            () = client.closed() => return,
            // The run was cancelled through the pages or the API.
            () = asked.active.signals.wait_stop() => return,
            response = &mut making => break response,
            () = tokio::time::sleep(EVERY) => {}
        }
    };
    let (head, mut body) = response.into_parts();
    if !head.status.is_success() {
        let mut whole = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(bytes) = frame.into_data() else { continue };
            whole.extend_from_slice(&bytes);
            if whole.len() > ERROR {
                break;
            }
        }
        let event = error_event(api, head.status.as_u16(), &whole);
        if client.send(Bytes::from(event)).await.is_ok() {
            client.finish();
        }
        return;
    }
    loop {
        match body.frame().await {
            None => return client.finish(),
            // Dropped without `finish`, the client's stream breaks off, too.
            Some(Err(_)) => return,
            Some(Ok(frame)) => {
                let Ok(bytes) = frame.into_data() else { continue };
                if client.send(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Converts the body of an error to the error event of a stream.
fn error_event(api: Api, status: u16, body: &[u8]) -> Vec<u8> {
    let (kind, message) = match api {
        Api::Anthropic => {
            let error = anthropic::ApiError::from_response(status, body);
            (error.kind, error.message)
        }
        Api::Chat => {
            let error = chat::ApiError::from_response(status, body);
            (error.kind, error.message)
        }
        Api::Responses => {
            let error = responses::ApiError::from_response(status, body);
            let code = [error.code, error.type_name].into_iter().find(|word| !word.is_empty());
            (code.unwrap_or_else(|| "server_error".to_owned()), error.message)
        }
    };
    softland_session::error_event(api, &kind, &message)
}
