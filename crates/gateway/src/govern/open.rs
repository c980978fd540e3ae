//! The preparation of a request: finds its conversation, its policy and what its run has used, and
//! reserves money for it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use softland_session::core::policy::{OnStoreLoss, Policy};
use softland_session::core::{Digest, Facts, NanoUsd, Role};
use softland_session::wire::request::Request;
use softland_session::{Chain, Context, Opened, Out, Outline, summary, uses_tags};
use tokio::sync::OwnedMutexGuard;

use super::Asked;
use super::above::{self, parent_limit};
use super::account::{Account, Leased, Purse, Tariff};
use super::count;
use super::flow::Flow;
use super::policy::{self, Chosen};
use super::scope::{Place, Session};
use crate::body::Body;
use crate::errors::{self, Refusal};
use crate::identify::Identity;
use crate::learned::Known;
use crate::money;
use crate::pages;
use crate::pass;
use crate::route::Target;
use crate::store::{Counted, IDLE_MS, RunState};

/// A request before it is decided on.
pub(crate) struct Opening {
    pub(super) asked: Arc<Asked>,
    /// The time at which it was opened, in milliseconds since 1970.
    at: u64,
    /// Its body, joined with the history that it names.
    body: Bytes,
    chain: Option<Chain>,
    /// Its destination, after the model's route was applied.
    pub(super) target: Target,
    pub(super) outline: Outline,
    pub(super) identity: Identity,
    pub(super) chosen: Chosen,
    pub(super) place: Place,
    /// True if it has no tools, so that it is only metered.
    pub(super) metered: bool,
    /// True if it asks for a summary of its conversation, in words that are known for that.
    pub(super) asks_for_summary: bool,
    /// The first passages of the newest results.
    pub(super) results: Vec<Digest>,
    pub(super) model: Arc<str>,
    /// The model's row in the built-in tables, and its capability.
    known_model: Known,
    /// The reason why this request's money is not reserved although it is sent: its policy has no
    /// money limit, or says `on_store_loss = "open"`.
    pub(super) unheld: Option<String>,
    /// Its turn in a conversation that the provider stores, until the request ends.
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
}

type Answer = Box<Response<Body>>;

/// Results of a round by which a request for a summary is recognized, and passages of each.
const PASSAGES: usize = 2;

impl Opening {
    /// Finds the conversation, the policy and the destination of a request.
    ///
    /// # Errors
    /// Returns the response for a request that is refused.
    pub(crate) async fn of(asked: &Arc<Asked>, request: &Request<'_>) -> Result<Box<Self>, Answer> {
        let outline = Outline::of(request);
        let user_id = request.user_id.map(|id| id.unescape());
        let conversation = request.conversation.map(|id| id.unescape());
        let identity = Identity::of(&asked.parts.headers, user_id.as_deref());
        let identity = identity.in_conversation(conversation.as_deref());
        let model: Arc<str> = request.model.unescape().into();
        let (target, path) = (&asked.target, asked.parts.uri.path());
        let direct = path.starts_with("/to/");
        let header = identity.policy.as_deref();
        let mut chosen = policy::choose(target, direct, &model, header)?;
        if request.thread.is_some() && !chosen.policy.observes() {
            return Err(Box::new(thread_refused()));
        }
        // Calls that a model writes as text show only in that text.
        let tags = chosen.shaping.as_ref().map(|shaping| &shaping.shape.tags);
        let uses_tools = outline.uses_tools || tags.is_some_and(|tags| uses_tags(request, tags));
        let metered = !uses_tools;
        let place = Place::find(&asked.gate, &identity, (&outline, request), metered).await;
        let at = asked.gate.now();
        above::inherit(&mut chosen.policy, &place, at);
        if metered {
            chosen.policy = policy::metered(&chosen.policy);
        }
        let target = Target { origin: Arc::clone(&chosen.origin), ..target.clone() };
        let (asked, body, chain) = (Arc::clone(asked), asked.body.clone(), None);
        let (known_model, unheld) = (asked.gate.learned.known(&model), None);
        let asks_for_summary = summary::asks_for_summary(request);
        let results = summary::result_passages(request, PASSAGES);
        Ok(Box::new(Self {
            asks_for_summary,
            results,
            asked,
            at,
            body,
            chain,
            target,
            outline,
            identity,
            chosen,
            place,
            metered,
            model,
            known_model,
            unheld,
            turn: None,
        }))
    }

    /// Replaces the body by the one that was joined with its history.
    pub(crate) fn join(&mut self, (body, chain): (Bytes, Option<Chain>)) {
        (self.body, self.chain) = (body, chain);
    }

    /// Returns the number of bytes of history that no body shows, since the provider stores them.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.chain.as_ref().map_or(0, |chain| chain.kept_bytes() as u64)
    }

    fn context(&self) -> Context {
        let policy = self.chosen.policy.clone();
        let Known { row, capability } = self.known_model;
        let capability = self.asked.gate.learned.of(&self.model, capability);
        let mut context = Context::of_row(Role::Gateway, policy, row, capability);
        context.api = self.asked.api;
        context.asked_at = self.at / 1000;
        context.window = Some(money::window(row));
        context.chain.clone_from(&self.chain);
        context.shape = self.chosen.shaping.as_ref().map(|shaping| Arc::clone(&shaping.shape));
        // A request that is only metered is no part of the conversation whose name it carries.
        if !self.metered {
            context.records.clone_from(&self.place.kept.pins);
        }
        context
    }

    fn opened<'a>(&'a self, request: &'a Request<'a>) -> Opened<'a> {
        let remembered = if self.metered {
            Default::default()
        } else {
            self.place.remembered(&self.identity, &self.outline, self.at)
        };
        Opened::fold(request, self.body.clone(), self.context(), remembered)
    }

    /// Returns the request with its governed history, for counting its tokens.
    pub(crate) fn governed(&self, request: &Request<'_>) -> Bytes {
        let facts = Facts::default();
        self.opened(request).begin(&facts, &mut Out::default()).governed()
    }

    /// Reserves the request's worst case, and decides what is sent.
    ///
    /// # Errors
    /// Returns the response for a request that is refused.
    pub(crate) async fn begin(
        mut self: Box<Self>,
        request: &Request<'_>,
    ) -> Result<Box<Flow>, Answer> {
        let gate = Arc::clone(&self.asked.gate);
        let mut opened = self.opened(request);
        let here = opened.here().map_or(Digest::EMPTY, |here| here.run);
        let (run, policy) = (self.place.run(here, opened.goes_on()), opened.policy().clone());
        if self.is_cancelled(&run, request) {
            return Err(Box::new(cancelled(&self.asked.target)));
        }
        let (state, continues) = self.state(&run, self.at);
        // Others may have added to the conversation since.
        let known = self.known(&state).filter(|_| !request.elsewhere);
        let tariff =
            Tariff::of(&self.target.live.settings.prices, &self.model, self.known_model.row);
        let purse = self.purse(&run, &state);
        self.carry_fork(&purse, &state).await;
        let budget = self.outline.thinking_budget;
        let mut account = Account::open(&gate, purse, tariff, state, known, budget).await;
        if !account.is_priced() && limits_money(&policy, &self.place) {
            return Err(Box::new(unpriced(&self.asked.target, &self.model)));
        }
        if let Some(what) = account.unpriceable(request)
            && limits_money(&policy, &self.place)
        {
            return Err(Box::new(unpriceable(&self.asked.target, what)));
        }
        if let Some(member) = uncounted_search(request)
            && !policy.observes()
            && policy.tool_limits.contains_key(SEARCH)
        {
            return Err(Box::new(search_refused(&self.asked.target, member)));
        }
        if let Some(why) = &self.place.lost
            && self.insists_on_money(&policy)
        {
            // The store's answer may concern an account that is not the run's.
            return Err(Box::new(store_lost(&self.asked.target, why)));
        }
        let leased = self.reserve(&mut account, request, &policy).await;
        let mut unheld = None;
        if let Leased::Short(short) = &leased {
            let (id, model, tool) = (&self.target.id, &self.model, account.unbounded());
            tracing::warn!(%id, %model, %short, tool, "a limit of money has no room for a request");
            opened.remark(tool.map(unbounded));
        }
        opened.bound_uses(account.added_uses(&policy, request.api));
        // Bodies that are sent from here on show only what is new.
        account.kept_bytes = self.kept_bytes();
        let (short, output_limit, leased) = match leased {
            Leased::Granted(limit) => (None, limit, true),
            Leased::Short(short) => (Some(short), None, false),
            Leased::Lost(why) if self.insists_on_money(&policy) => {
                return Err(Box::new(store_lost(&self.asked.target, &why)));
            }
            Leased::Lost(why) => {
                unheld = Some(self.goes_unheld(&policy, &why));
                (None, None, true)
            }
        };
        let mut facts = account.facts(self.at, short.as_ref());
        facts.stale = self.vain(&account.state);
        if self.metered {
            facts.reserve_input_cost = NanoUsd::ZERO;
        }
        let mut out = Out::quiet();
        let exchange = Box::new(opened.begin(&facts, &mut out));
        self.count_repinned(&here, exchange.run().used().turns);
        self.unheld = unheld;
        // The stored state has been read, and is not held for the length of a stream.
        self.place.let_go();
        let money = (output_limit, leased);
        Ok(Box::new(Flow::new(self, exchange, out, account, run, money, continues)))
    }

    /// Reserves the request's worst case. If that exceeds a limit, the provider is asked for a
    /// token count; a count cannot bring back what is spent or held by others.
    async fn reserve(
        &self,
        account: &mut Account,
        request: &Request<'_>,
        policy: &Policy,
    ) -> Leased {
        let gate = &self.asked.gate;
        // A request that is only metered is not followed by an answer: nothing is held back for it.
        let (explores, told) = (!self.metered, Some(&self.asked.told));
        let leased = account.reserve(gate, request, policy, explores, told).await;
        let is_short = match &leased {
            Leased::Short(short) => (short.spent, short.reserved) == Default::default(),
            Leased::Granted(_) => explores && account.is_short_at_first(self.at, policy),
            Leased::Lost(_) => false,
        };
        if !is_short || !account.is_counted_by_bytes() {
            return leased;
        }
        let Some(tokens) = count::ask(self, request).await else { return leased };
        account.counted_to(tokens);
        account.reserve(gate, request, policy, explores, told).await
    }

    /// Passes on a request for something that cannot be followed: its response is no turn of a run,
    /// and shows no cost.
    pub(crate) async fn apart(&self, member: &str) -> Response<Body> {
        let (asked, target) = (&self.asked, &self.target);
        let allowed = target.live.settings.allow_unmetered;
        if limits_money(&self.chosen.policy, &self.place) && !allowed {
            return pass::refusal(target, &format!(" with `{member}`")).response();
        }
        tracing::warn!(id = %target.id, member, "passed on ungoverned");
        let (parts, body) = (asked.parts.clone(), asked.body.clone());
        pass::as_unmetered(pass::whole(&asked.gate, target, parts, body).await)
    }

    /// Counts a run whose turns were answered before, but which the store does not know. Its lines
    /// are made by the current policy, and text that stood behind a turn (`governing.md` §1) is not
    /// sent again.
    fn count_repinned(&self, run: &Digest, turns: u64) {
        let known = self.place.is_changed() || self.place.kept.pins.contains_key(run);
        if self.metered || turns == 0 || known {
            return;
        }
        self.asked.gate.metrics.event("repinned");
        tracing::info!(id = %self.target.id, turns, "the store knows nothing of this run's turns");
    }

    /// Returns true if the request is refused while the store does not respond: under a money
    /// limit, unless the policy says otherwise.
    pub(super) fn insists_on_money(&self, policy: &Policy) -> bool {
        limits_money(policy, &self.place) && policy.on_store_loss == OnStoreLoss::Closed
    }

    /// Notes that a request is sent although the amount left is unknown. Returns the remark for the
    /// ledger.
    pub(super) fn goes_unheld(&self, policy: &Policy, why: &str) -> String {
        self.asked.gate.metrics.event("accounts_lost");
        let id = &self.target.id;
        if limits_money(policy, &self.place) {
            tracing::error!(%id, why, "its cost limit is not held, as on_store_loss says");
            return format!("its cost limit was not held (on_store_loss = \"open\"): {why}");
        }
        tracing::warn!(%id, why, "not counted in its accounts");
        format!("not counted in its accounts: {why}")
    }

    /// Returns the state of the run now, and the name of the run that it continues after a long
    /// pause.
    fn state(&self, run: &Digest, now: u64) -> (Arc<RunState>, Option<Arc<str>>) {
        let gate = &self.asked.gate;
        let kept = self.place.state(run);
        let Some(kept) = kept.filter(|_| !self.metered) else {
            let id = gate.names.run();
            let (begun, last) = (now, now);
            let new = RunState { id, begun, last, ..RunState::default() };
            return (Arc::new(new), None);
        };
        let over = kept.ended || gate.runs.cancelled(&kept.id).is_some();
        if now.saturating_sub(kept.last) <= IDLE_MS && !over {
            return (kept, None);
        }
        let again = RunState { id: gate.names.run(), ended: false, ..(*kept).clone() };
        (Arc::new(again), Some(Arc::clone(&kept.id)))
    }

    /// Returns true if the run was cancelled and no user message has come since, or if the run's
    /// parent was cancelled.
    fn is_cancelled(&self, run: &Digest, request: &Request<'_>) -> bool {
        let runs = &self.asked.gate.runs;
        let own = self.place.state(run).filter(|_| !self.metered);
        let own = own.and_then(|state| runs.cancelled(&state.id));
        own.is_some_and(|here| here == Some(self.outline.here) || !pages::asks(request))
            || self.parent_run().is_some_and(|parent| runs.cancelled(&parent).is_some())
    }

    /// Returns the parent run, if this request's run is a sub-agent.
    pub(super) fn parent_run(&self) -> Option<Arc<str>> {
        let (_, kept) = self.place.parent.as_ref()?;
        Some(kept.runs.get(&kept.newest?)?.id.clone())
    }

    /// Returns the body, joined with the history that it names.
    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the newest counted context that this request continues: of its run, or, if the run
    /// begins, of one before it in the conversation.
    fn known(&self, state: &RunState) -> Option<Counted> {
        if self.metered || state.known.is_some() {
            let here = |known: &Counted| {
                let before = self.outline.answered.iter().any(|turn| turn.before == known.context);
                before || self.outline.here == known.context
            };
            return state.known.filter(here);
        }
        let before: HashSet<Digest> =
            self.outline.answered.iter().map(|turn| turn.before).collect();
        let goes_on =
            |known: &Counted| before.contains(&known.context) || self.outline.here == known.context;
        self.place.counted().filter(goes_on).max_by_key(|known| known.tokens)
    }

    /// Returns how often this same context was answered in vain.
    fn vain(&self, state: &RunState) -> u64 {
        let same = state.vain.filter(|(context, _)| *context == self.outline.here);
        same.map_or(0, |(_, times)| times)
    }

    fn purse(&self, run: &Digest, state: &RunState) -> Purse {
        let scope = &self.place.scope;
        let session: Arc<str> = match &self.place.session {
            Session::Named(name) => ["session:", name].concat().into(),
            Session::Alone => ["session:", scope].concat().into(),
        };
        let parent = self.parent_money();
        let shares = parent.as_ref().filter(|_| self.own_limit().is_none());
        let own = match (&self.identity.run, shares) {
            (Some(given), _) => format!("run:given:{given}").into(),
            (None, Some((account, ..))) => account.clone(),
            (None, None) if self.metered => self.beside().unwrap_or_else(|| session.clone()),
            (None, None) if state.account.is_empty() => format!("run:{scope}:{run}").into(),
            (None, None) => Arc::clone(&state.account),
        };
        let parent = parent.filter(|(account, ..)| *account != own);
        let tokens_above = above::tokens(&self.place).filter(|_| !self.metered);
        Purse { run: own, session, parent, tokens_above }
    }

    /// Returns the account of the run to which a title or a summary belongs.
    fn beside(&self) -> Option<Arc<str>> {
        let newest = self.place.state(&self.place.kept.newest?)?;
        Some(newest.account.clone()).filter(|account| !account.is_empty())
    }

    /// Returns the money limit that a sub-agent has of its own, not of its parent's.
    fn own_limit(&self) -> Option<NanoUsd> {
        let settings = &self.target.live.settings;
        let own = settings.policies.get(&self.chosen.name)?;
        own.cost_limit_usd.filter(|own| parent_limit(&self.place) != Some(*own))
    }

    /// Returns the account of a sub-agent's parent, its limit, and the amount that the parent holds
    /// back for its own answer.
    fn parent_money(&self) -> Option<(Arc<str>, NanoUsd, NanoUsd)> {
        let (_, kept) = self.place.parent.as_ref()?;
        let newest = kept.newest?;
        let (state, pinned) = (kept.runs.get(&newest)?, kept.pins.get(&newest)?);
        let limit = pinned.policy.cost_limit_usd?;
        let prices = &self.target.live.settings.prices;
        let context = state.known.map_or(0, |known| known.tokens);
        let held = prices.of(None, &self.model, context).map_or(NanoUsd::ZERO, |price| {
            NanoUsd::of_tokens(context, price.input)
                + NanoUsd::of_tokens(pinned.policy.reserve_tokens, price.output)
        });
        Some((state.account.clone(), limit, held))
    }

    /// Books what was spent before a fork on the fork's new account.
    async fn carry_fork(&self, purse: &Purse, state: &RunState) {
        if !self.place.is_fresh_fork() || state.cost == NanoUsd::ZERO {
            return;
        }
        let claim =
            |account: &Arc<str>| crate::accounts::Claim { account: account.clone(), limit: None };
        let claims = vec![claim(&purse.run), claim(&purse.session)];
        let ask = crate::accounts::Ask::exactly(NanoUsd::ZERO);
        let none = crate::accounts::Patience::NONE;
        if let Ok(lease) = self.asked.gate.accounts.reserve(claims, ask, none).await {
            lease.settle(state.cost);
        }
    }
}

fn limits_money(policy: &Policy, place: &Place) -> bool {
    !policy.observes() && (policy.limits_money() || parent_limit(place).is_some())
}

/// Returns the remark in an answer for want of money on the tool that is the cause.
fn unbounded(tool: &str) -> String {
    format!(
        "The request declares `{tool}`, which the provider runs: what it brings has no documented \
         bound, so that the whole context window is counted for it."
    )
}

/// Refuses a request for something that has no known price.
fn unpriceable(target: &Target, what: &str) -> Response<Body> {
    let message = format!(
        "softland: no price is known of {what}, so the cost limit cannot be held; add a [[price]] \
         for the model to the gateway's config"
    );
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message).response()
}

fn unpriced(target: &Target, model: &str) -> Response<Body> {
    let message = format!(
        "softland: no price is known of the model `{model}`, so its cost limit cannot be held; \
         add a [[price]] for it to the gateway's config"
    );
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message).response()
}

/// The name under which web searches are counted.
const SEARCH: &str = "web_search";

/// Returns the member by which a request makes its provider search the web in a way that no
/// response counts.
fn uncounted_search(request: &Request<'_>) -> Option<&'static str> {
    let terms = &request.terms;
    let model = request.model.unescape();
    let searches = model.contains("-search-preview") || model.contains("-search-api");
    let asked = [
        (terms.search, "web_search_options"),
        (terms.live_search, "search_parameters"),
        (terms.plugins, "plugins"),
        (request.api == softland_session::wire::Api::Chat && searches, "model"),
    ];
    asked.into_iter().find(|(asked, _)| *asked).map(|(_, member)| member)
}

fn search_refused(target: &Target, member: &str) -> Response<Body> {
    let message = format!(
        "softland: the tool_limits of `{SEARCH}` cannot be held: by `{member}` the Chat Completions \
         API searches before the answer and does not say how often; use the `{SEARCH}` tool of the \
         Responses API instead"
    );
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message).response()
}

fn store_lost(target: &Target, why: &str) -> Response<Body> {
    let message = format!("softland: the cost limit cannot be held now: {why}");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, target.protocol, message).response()
}

/// Returns the response for a client whose run was cancelled. SDKs do not send the request again.
pub(super) fn cancelled(target: &Target) -> Response<Body> {
    let message = "softland: this run was cancelled by whoever watches it; a new message begins a \
                   new run";
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message);
    errors::without_retry(refusal.response())
}

/// Refuses a request whose history the provider stores, in the form that makes the vendor's SDK
/// (`anthropic` for Python, `tool_runner`) send the whole history.
fn thread_refused() -> Response<Body> {
    let details = BTreeMap::from([
        ("error_code", serde_json::json!("thread_unsupported_request")),
        ("unsupported", serde_json::json!(["thread"])),
    ]);
    let message = "softland: `thread` is not supported here; send the whole history";
    let kind = "invalid_request_error";
    errors::anthropic_with(StatusCode::BAD_REQUEST, kind, message, &serde_json::json!(details))
}
