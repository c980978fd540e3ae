//! One upstream request: its money, the head of its response, and responses that are not usable.

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName};
use softland_session::core::{Because, Reason, RequestFailure, Rung};
use softland_session::wire::request::Request;
use softland_session::wire::{Api, Splice, Tokens};
use tokio::time::Instant;

use super::unasked::{describe_refusal, explain_remark, is_packed, words_in_place};
use super::{BROKEN, GovernedRequest, SendOutcome, wait_until};
use crate::body::Body;
use crate::transport::{TransportError, UpstreamRequest, UpstreamResponse, mark_failure};
use crate::turn::account::LeaseOutcome;
use crate::{errors, pass};

/// The largest response that is read as a whole.
const WHOLE: usize = 64 << 20;

/// The largest error body that is read for the limits it states.
const REFUSAL: usize = 256 << 10;

/// The reason why a request has no money.
enum DenialReason {
    /// The money limit has no room for it.
    Limit(Because),
    /// The amount left is unknown.
    Lost,
}

/// The remark in the ledger on a response that cannot be read.
const UNREAD: &str = "estimated: the response cannot be read; the most that it can have cost";

impl GovernedRequest {
    /// Sends one request and waits for the head of its response, or for the whole response if it
    /// does not stream.
    pub(super) async fn send_request(&mut self, body: Bytes) -> SendOutcome {
        let (body, limit) = match self.with_reservation(body).await {
            Ok(reserved) => reserved,
            Err(denied) => return self.deny_request(denied),
        };
        let (body, added_limit) = self.apply_learned_limit(body, limit);
        if self.sent == 0 {
            // Later interventions concern the response.
            self.report_events();
            self.record.mark_decided();
        }
        self.sent += 1;
        // An earlier failure no longer matters.
        self.broken = None;
        let opening = &self.opening;
        let (services, target) = (&opening.asked.services, &opening.target);
        if self.sent == 1 {
            services.meter.observe_added_latency(target.began.elapsed());
        }
        // Observing also needs a response that can be read.
        self.record.record_sent(opening, &self.account, self.exchange.rung(), &body);
        self.account.mark_sent();
        let sending = opening.asked.transport.send(UpstreamRequest {
            upstream: &target.upstream,
            protocol: target.protocol,
            path: &target.path,
            headers: &opening.asked.parts.headers,
            governed: true,
            deadline: self.deadline.map(Instant::into_std),
            body,
        });
        let sent = tokio::select! {
            biased;
            () = wait_until(self.deadline) => None,
            sent = sending => Some(sent),
        };
        match sent {
            None => {
                self.expire_run(0);
                SendOutcome::Taken
            }
            Some(Err(error)) => self.take_failure(&error, error.is_late.then_some(0)),
            Some(Ok(response)) => self.take_response(response, added_limit).await,
        }
    }

    /// Gives up a request that has no money. At a limit softland answers; if the store does not
    /// respond, the request fails.
    fn deny_request(&mut self, denied: DenialReason) -> SendOutcome {
        self.drop_interventions();
        match denied {
            DenialReason::Limit(because) => {
                let id = &self.opening.target.id;
                tracing::warn!(%id, %because, "the limit has no room for a request");
                let whose =
                    if because.reason == Reason::Budget { "the account's" } else { "the run's" };
                self.broken = Some(format!("softland: {whose} limit is reached ({because})"));
                self.exchange.deny_request(&because, &mut self.out);
            }
            DenialReason::Lost => {
                let limit = self.opening.name_money_limit(self.exchange.run().policy());
                self.broken = Some(format!("softland: {limit} cannot be enforced now"));
                self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
            }
        }
        SendOutcome::Taken
    }

    /// Takes a response. `added_limit` is the output limit of the request, if the client's own has
    /// none.
    async fn take_response(
        &mut self,
        mut response: UpstreamResponse,
        added_limit: Option<u64>,
    ) -> SendOutcome {
        self.record.set_status(response.status.as_u16());
        if !response.status.is_success() {
            return match added_limit {
                Some(limit) if response.status == StatusCode::BAD_REQUEST => {
                    self.take_limit_refusal(response, limit).await
                }
                _ => self.pass_refusal(response).await,
            };
        }
        let packed = is_packed(&response.headers);
        let streams = tokio::select! {
            biased;
            () = wait_until(self.deadline) => None,
            streams = self.is_stream(&mut response) => Some(streams),
        };
        let Some(streams) = streams else {
            self.expire_run(0);
            return SendOutcome::Taken;
        };
        if packed || streams != self.exchange.is_streaming() {
            return self.pass_unread(response, packed).await;
        }
        if streams {
            return SendOutcome::Streams(Box::new(response));
        }
        let status = response.status;
        let whole = tokio::select! {
            biased;
            () = wait_until(self.deadline) => None,
            whole = response.read_whole(WHOLE) => Some(whole),
        };
        let bytes = match whole {
            None => {
                self.expire_run(response.received_bytes());
                return SendOutcome::Taken;
            }
            Some(Err(error)) => return self.take_failure(&error, Some(response.received_bytes())),
            Some(Ok(bytes)) => bytes,
        };
        self.headers = response.headers;
        let unchanged = self.is_observed() || self.opening.target.is_compaction_request();
        self.verbatim = unchanged.then(|| bytes.clone());
        if let Err(error) = self.exchange.push_whole(&bytes, &mut self.out) {
            if self.is_hidden() {
                self.fail_response(Some(error.to_string()));
                return SendOutcome::Taken;
            }
            // The body is no message of the protocol, so it is left to the client and the upstream.
            tracing::warn!(id = %self.opening.target.id, %error, "passed on ungoverned");
            match error.is_told_by_provider() {
                true => {
                    let remark = explain_remark(BROKEN, &error.to_string());
                    self.bill_unfinished(Tokens::default(), 0, &remark);
                }
                false => self.book_unread(),
            }
            let mut answer = http::Response::new(Body::from_bytes(bytes));
            *answer.status_mut() = status;
            *answer.headers_mut() = self.response_head(&self.headers);
            // Only the upstream may state the content type.
            if !self.headers.contains_key(CONTENT_TYPE) {
                answer.headers_mut().remove(CONTENT_TYPE);
            }
            return SendOutcome::Passes(Box::new(answer));
        }
        SendOutcome::Taken
    }

    /// Passes on a response in a form that was not requested, or fails if the client does not see
    /// it.
    async fn pass_unread(&mut self, mut response: UpstreamResponse, packed: bool) -> SendOutcome {
        let id = &self.opening.target.id;
        // Names only: a value may be a credential. The iterator itself would print values, too.
        let headers: Vec<_> = response.headers.keys().map(HeaderName::as_str).collect();
        tracing::warn!(%id, ?headers, "cannot be read as it was asked for");
        let words = match packed {
            true => None,
            false => words_in_place(&mut response).await,
        };
        let why = words.as_ref().map(|words| format!("the provider's answer is an error: {words}"));
        match &why {
            Some(why) => {
                self.bill_unfinished(Tokens::default(), 0, &explain_remark(BROKEN, why));
            }
            None => self.book_unread(),
        }
        if self.is_hidden() {
            let form = || format!("upstream {} answered in another form", self.upstream_name());
            self.broken = Some(why.unwrap_or_else(form));
            self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
            return SendOutcome::Taken;
        }
        let mut answer = pass::respond_with_upstream(response);
        self.add_headers(answer.headers_mut());
        SendOutcome::Passes(Box::new(answer))
    }

    /// Books the worst case for a response whose cost cannot be read.
    fn book_unread(&mut self) {
        let cost = self.account.book_reserved();
        let run = &self.account.state.id;
        self.record.record_billed((&self.opening, run), Tokens::default(), cost, Some(UNREAD));
    }

    /// Handles an error response whose body was not read, and records its words.
    async fn pass_refusal(&mut self, mut response: UpstreamResponse) -> SendOutcome {
        let words = match is_packed(&response.headers) {
            true => String::new(),
            false => self.refusal_words(&mut response).await,
        };
        self.take_refusal(pass::respond_with_upstream(response), &words)
    }

    /// Handles an error response with these words. For the client's own request, the client gets it; a request that
    /// softland added takes the next rung.
    fn take_refusal(&mut self, mut answer: http::Response<Body>, words: &str) -> SendOutcome {
        self.account.release_unbilled();
        self.record_refused(&explain_remark("", words));
        let (rung, status) = (self.exchange.rung(), answer.status());
        let ours = self.sent > 1 || matches!(rung, Some(Rung::None | Rung::Respond | Rung::Refuse));
        if status == StatusCode::BAD_REQUEST && ours {
            self.opening.learn_refusal(rung);
        }
        if self.is_hidden() || (ours && status == StatusCode::BAD_REQUEST) {
            self.broken =
                Some(format!("upstream {} answered {status}: {words}", self.upstream_name()));
            self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
            return SendOutcome::Taken;
        }
        self.add_headers(answer.headers_mut());
        SendOutcome::Passes(Box::new(answer))
    }

    /// Handles a 400 to a request whose output limit softland added. If the error is about that
    /// limit, the request is sent again as the provider wants it.
    async fn take_limit_refusal(
        &mut self,
        mut response: UpstreamResponse,
        limit: u64,
    ) -> SendOutcome {
        let body = match response.read_whole(REFUSAL).await {
            Ok(body) => body,
            Err(error) => return self.take_failure(&error, None),
        };
        if !self.opening.learn_limit(limit, &String::from_utf8_lossy(&body)) {
            let status = response.status;
            let mut answer = pass::respond_with_upstream(response);
            let words = describe_refusal(self.opening.asked.active.api, status, &body);
            *answer.body_mut() = Body::from_bytes(body);
            return self.take_refusal(answer, &words);
        }
        let model = &self.opening.model;
        tracing::info!(id = %self.opening.target.id, %model, "another output limit is tried");
        self.account.release_unbilled();
        self.record_unbilled();
        // The error answered nothing: the request is as it was before.
        (self.sent, self.leased) = (self.sent - 1, false);
        SendOutcome::Taken
    }

    /// Changes the output limit of a body, which is `limit`, to the form that the model is known to
    /// accept. Returns the body, and its limit if the client's own body has none.
    fn apply_learned_limit(&self, body: Bytes, limit: Option<u64>) -> (Bytes, Option<u64>) {
        let added = limit.filter(|_| self.exchange.request().max_tokens.is_none());
        let (Some(limit), Some(lesson)) = (added, self.opening.place.lessons.limit) else {
            return (body, added);
        };
        let api = self.opening.asked.active.api;
        let value = limit.min(lesson.most);
        match write_limit(api, &body, value, lesson.completion) {
            Some(changed) => (changed, Some(value)),
            None => {
                tracing::warn!(id = %self.opening.target.id, limit, "has an output limit as it is");
                (body, added)
            }
        }
    }

    /// Handles a missing or incomplete response. `received` is the number of body bytes that
    /// arrived of a response that is billed.
    fn take_failure(&mut self, error: &TransportError, received: Option<u64>) -> SendOutcome {
        tracing::warn!(id = %self.opening.target.id, %error, "no response");
        match received {
            Some(received) => {
                let remark = explain_remark(BROKEN, &error.to_string());
                self.bill_unfinished(self.exchange.tokens_so_far(), received, &remark);
            }
            None => {
                self.account.release_unbilled();
                self.record_refused(&explain_remark("", &error.to_string()));
            }
        }
        if self.is_hidden() {
            self.broken = Some(error.to_string());
            self.exchange.fail_request(RequestFailure::Provider, &mut self.out);
            return SendOutcome::Taken;
        }
        let protocol = self.opening.target.protocol;
        let mut answer = errors::protocol_error(protocol, error.status, &error.to_string());
        self.add_headers(answer.headers_mut());
        SendOutcome::Passes(Box::new(mark_failure(answer)))
    }

    pub(super) fn upstream_name(&self) -> &str {
        &self.opening.target.upstream
    }

    /// Returns true if the running request is softland's own, which follows one that the client's
    /// led to.
    pub(super) fn is_hidden(&self) -> bool {
        self.sent > 1
    }

    /// Makes sure that a request has its money, and limits its output to what the money pays for.
    /// Returns its body and output limit.
    async fn with_reservation(
        &mut self,
        body: Bytes,
    ) -> Result<(Bytes, Option<u64>), DenialReason> {
        let first = self.sent == 0 && self.leased;
        let asked = self.exchange.sent_output_limit();
        if first && self.output_limit.is_none() {
            return Ok((body, asked));
        }
        let limit = if first {
            self.output_limit
        } else {
            let services = self.opening.asked.services.clone();
            // A body without a reservation is not sent. This one was made from a request.
            let Ok(request) = Request::from_body(self.opening.asked.active.api, &body) else {
                return Err(DenialReason::Lost);
            };
            let policy = self.exchange.run().policy().clone();
            // The client's first request may wait for money that others hold.
            let waits = (self.sent == 0).then_some(&self.opening.asked.active.signals);
            match self.account.reserve_worst_case(&services, &request, &policy, false, waits).await
            {
                LeaseOutcome::Granted(limit) => limit,
                LeaseOutcome::Short(short) => {
                    self.record.record_denial(
                        &self.opening,
                        &self.account.state.id,
                        &short.to_string(),
                    );
                    return Err(DenialReason::Limit(self.account.denial_cause(&policy, &short)));
                }
                LeaseOutcome::Lost(why) if self.opening.requires_reservation(&policy) => {
                    self.record.record_denial(&self.opening, &self.account.state.id, &why);
                    return Err(DenialReason::Lost);
                }
                LeaseOutcome::Lost(why) => {
                    self.opening.unheld = Some(self.opening.note_unheld(&policy, &why));
                    None
                }
            }
        };
        let lower = limit.filter(|limit| asked.is_none_or(|asked| *limit < asked));
        let Some(limit) = lower else { return Ok((body, asked)) };
        let limit = limit.max(self.opening.asked.active.api.min_output_tokens());
        Ok((self.exchange.body_with_output_limit(limit), Some(limit)))
    }
}

/// Returns the body with this output limit in place of its own. With `completion`, Chat Completions
/// names it `max_completion_tokens`.
fn write_limit(api: Api, body: &Bytes, value: u64, completion: bool) -> Option<Bytes> {
    let written = Request::from_body(api, body).ok()?.max_tokens?;
    let mut splice = Splice::new();
    if completion && api == Api::Chat {
        splice.replace(written.member, format!("\"max_completion_tokens\":{value}"));
    } else {
        splice.replace(written.span, value.to_string());
    }
    splice.apply(body).ok().map(Bytes::from)
}
