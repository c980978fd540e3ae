//! The preparation of a request: finds its conversation, its policy and what its run has used, and
//! reserves money for it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use softland_session::core::policy::{OnStoreLoss, Policy};
use softland_session::core::{Digest, Facts, NanoUsd, Role, Rung};
use softland_session::retold::CallPlaces;
use softland_session::summary::{Asked, NotedResults};
use softland_session::wire::request::Request;
use softland_session::{Chain, Context, Exchange, OpenedRequest, Outline, Output, summary};
use tokio::sync::OwnedMutexGuard;

use super::above::{self, parent_limit};
use super::account::{LeaseOutcome, RequestAccount, RequestAccounts, Tariff};
use super::compaction;
use super::count;
use super::new_message;
use super::policy::{self, ChosenPolicy};
use super::scope::{Conversation, Session};
use crate::body::Body;
use crate::errors::{self, Refusal};
use crate::identify::Identity;
use crate::key::ClientKey;
use crate::learned::KnownModel;
use crate::money;
use crate::pass;
use crate::request::ClientRequest;
use crate::shared::StateNote;
use crate::store::{CountedContext, IDLE_MS, RunState};
use crate::target::Target;
use crate::unmetered::{mark_unmetered, unmetered_refusal};

/// A request before it is decided on.
pub(crate) struct RequestSetup {
    pub(super) asked: Arc<ClientRequest>,
    /// The time at which it was opened, in milliseconds since 1970.
    at: u64,
    /// Its body, joined with the history that it names.
    pub(super) body: Bytes,
    chain: Option<Chain>,
    /// Its destination, after the model's route was applied.
    pub(super) target: Target,
    pub(super) outline: Outline,
    pub(super) identity: Identity,
    pub(super) chosen: ChosenPolicy,
    pub(super) place: Conversation,
    /// True if it has no tools, or compacts its history, so that it is only metered.
    pub(super) metered: bool,
    /// How it asks for a summary of its conversation, if it does.
    pub(super) asks_for_summary: Option<Asked>,
    /// True if its answer may be a summary, by its words or since it has no tools.
    pub(super) for_summary: bool,
    /// The places at which later histories may tell of this turn's calls in texts.
    pub(super) call_places: CallPlaces,
    pub(super) results: NotedResults,
    pub(super) model: Arc<str>,
    /// The model's row in the built-in tables, and its capability.
    known_model: KnownModel,
    /// The reason why the request is sent although no money is reserved for it.
    pub(super) unheld: Option<String>,
    /// Its turn in a conversation that the provider stores, until the request ends.
    pub(crate) turn: Option<OwnedMutexGuard<()>>,
}

/// A request that was decided on, before anything is sent.
pub(super) struct BegunExchange {
    pub(super) opening: Box<RequestSetup>,
    pub(super) exchange: Box<Exchange>,
    pub(super) out: Output,
    pub(super) account: RequestAccount,
    /// The run.
    pub(super) run: Digest,
    /// The output limit of the first request, if the money determines one.
    pub(super) output_limit: Option<u64>,
    /// True if the first request has its money.
    pub(super) leased: bool,
    /// The name of the run that this one continues after a long pause.
    pub(super) continues: Option<Arc<str>>,
}

type RefusedResponse = Box<Response<Body>>;

impl RequestSetup {
    /// Finds the conversation, the policy and the destination of a request.
    ///
    /// # Errors
    /// Returns the response for a request that is refused.
    pub(crate) async fn open_request(
        asked: &Arc<ClientRequest>,
        request: &Request<'_>,
    ) -> Result<Box<Self>, RefusedResponse> {
        let outline = Outline::from_request(request);
        let user_id = request.user_id.map(|id| id.unescape());
        let conversation = request.conversation.map(|id| id.unescape());
        let identity = Identity::from_headers(&asked.parts.headers, user_id.as_deref());
        let identity = identity.in_conversation(conversation.as_deref());
        let identity = identity.with_key(asked.target.key.as_deref());
        let model: Arc<str> = request.model.unescape().into();
        let target = &asked.target;
        let header = identity.policy.as_deref();
        let mut chosen = policy::choose_policy(target, &model, header)?;
        if request.thread.is_some() && !chosen.policy.is_observing() {
            return Err(Box::new(refuse_thread()));
        }
        // Calls that a model writes as text show in its text alone, and instructions may speak of
        // them in any words.
        let uses_tools = outline.uses_tools || chosen.shaping.is_some();
        // A history that is compacted is the conversation's own.
        let compacts = target.is_compaction_request();
        let (metered, beside) = (!uses_tools || compacts, !uses_tools && !compacts);
        let place =
            Conversation::find_for(&asked.services, &identity, (&outline, request), beside).await;
        let at = asked.services.now();
        above::inherit_limits(&mut chosen.policy, &place, at);
        above::inherit_from_around(&mut chosen.policy, &asked.around);
        if metered {
            chosen.policy = policy::metered_policy(&chosen.policy);
        }
        let target = Target { upstream: Arc::clone(&chosen.upstream), ..target.clone() };
        let (asked, body, chain) = (Arc::clone(asked), asked.active.body.clone(), None);
        let (known_model, unheld) = (asked.services.models.find_model(&model), None);
        let asks_for_summary = summary::asks_for_summary(request);
        let for_summary = asks_for_summary.is_some() || place.is_summary_candidate(&outline);
        let results = NotedResults::from_request(request);
        let call_places = match metered {
            true => CallPlaces::default(),
            false => CallPlaces::from_request(request, &outline),
        };
        Ok(Box::new(Self {
            asks_for_summary,
            for_summary,
            call_places,
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
    pub(crate) fn set_joined_body(&mut self, (body, chain): (Bytes, Option<Chain>)) {
        (self.body, self.chain) = (body, chain);
    }

    /// Returns the number of bytes of history that no body shows, since the provider stores them.
    pub(super) fn stored_history_bytes(&self) -> u64 {
        self.chain.as_ref().map_or(0, |chain| chain.stored_history_bytes() as u64)
    }

    fn session_context(&self) -> Context {
        let policy = self.chosen.policy.clone();
        let KnownModel { row, capability } = self.known_model;
        let capability = self.place.lessons.apply_to(capability);
        let mut context = Context::from_row(Role::Gateway, policy, row, capability);
        context.api = self.asked.active.api;
        context.asked_at = self.at / 1000;
        context.window = Some(money::context_window(row));
        context.chain.clone_from(&self.chain);
        context.shape = self.chosen.shaping.as_ref().map(|shaping| Arc::clone(&shaping.shape));
        // A request that is only metered is no part of the conversation whose name it carries.
        if !self.metered {
            context.records.clone_from(&self.place.kept.pins);
        }
        context
    }

    fn fold_history<'a>(&'a self, request: &'a Request<'a>) -> OpenedRequest<'a> {
        let remembered = if self.metered {
            Default::default()
        } else {
            self.place.remembered_past(&self.identity, &self.outline, self.at)
        };
        OpenedRequest::read_history(request, self.body.clone(), self.session_context(), remembered)
    }

    /// Returns the request with its governed history, for counting its tokens.
    pub(crate) fn governed_body(&self, request: &Request<'_>) -> Bytes {
        let facts = Facts::default();
        self.fold_history(request).into_exchange(&facts, &mut Output::default()).governed_body()
    }

    /// Reserves the request's worst case, and decides what is sent.
    ///
    /// # Errors
    /// Returns the response for a request that is refused.
    pub(crate) async fn begin_exchange(
        mut self: Box<Self>,
        request: &Request<'_>,
    ) -> Result<Box<BegunExchange>, RefusedResponse> {
        let mut opened = self.fold_history(request);
        let here = opened.newest_position().map_or(Digest::EMPTY, |here| here.run);
        let (run, policy) =
            (self.place.run_key(here, opened.goes_on()), opened.run_policy().clone());
        if self.is_cancelled(&run, request) {
            return Err(Box::new(refuse_cancelled(&self.asked.target)));
        }
        let (state, continues) = self.current_state(&run, self.at);
        // Others may have added to the conversation since.
        let known = self.counted_context(&state).filter(|_| !request.elsewhere);
        let tariff =
            Tariff::from_model(&self.target.settings.prices, &self.model, self.known_model.row);
        let accounts = self.request_accounts(&run, &state);
        let (budget, spent_before) = (self.outline.thinking_budget, self.fork_cost(&state));
        let mut account = RequestAccount::open_account(accounts, tariff, state, known, budget);
        account.set_spent_before(spent_before);
        let registration =
            self.register_run((&run, &account.state.id), &policy, continues.as_ref());
        account.set_registration(registration);
        self.check_limits(&account, request, &policy)?;
        let leased = self.reserve_worst_case(&mut account, request, &policy).await;
        let mut unheld = None;
        if let LeaseOutcome::Short(short) = &leased {
            let (id, model, tool) = (&self.target.id, &self.model, account.unbounded_tool());
            tracing::warn!(%id, %model, %short, tool, "a limit of money or tokens has no room for a request");
            let budget = account.exhausted_budget(short);
            if let Some(refused) = self.refuse_over_budget(budget.as_ref(), &policy) {
                return Err(Box::new(refused));
            }
            let budget = budget.map(|budget| budget.to_sentence());
            opened.set_remark(budget.or_else(|| tool.map(unbounded_remark)));
        }
        if self.target.is_compaction_request() {
            compaction::check_money(&self.target, self.name_money_limit(&policy), &leased)?;
        } else {
            opened.bound_uses(account.hosted_uses_limit(&policy, request.api));
        }
        // Bodies that are sent from here on show only what is new.
        account.stored_history_bytes = self.stored_history_bytes();
        let (short, output_limit, leased) = match leased {
            LeaseOutcome::Granted(limit) => (None, limit, true),
            LeaseOutcome::Short(short) => (Some(short), None, false),
            LeaseOutcome::Lost(why) if self.requires_reservation(&policy) => {
                return Err(Box::new(self.refuse_lost_store(&policy, &why)));
            }
            LeaseOutcome::Lost(why) => {
                unheld = Some(self.note_unheld(&policy, &why));
                (None, None, true)
            }
        };
        let mut facts = account.current_facts(self.at, short.as_ref());
        opened.set_context_digest(self.outline.here);
        facts.stale = self.count_vain(&account.state);
        if self.metered {
            facts.reserve_input_cost = NanoUsd::ZERO;
        }
        let mut out = Output::bytes_only();
        let exchange = Box::new(opened.into_exchange(&facts, &mut out));
        self.note_unknown_history();
        self.count_repinned(&here, exchange.run().used().turns);
        self.unheld = unheld;
        // The stored state has been read, and is not held for the length of a stream.
        self.place.release_stored();
        let opening = self;
        Ok(Box::new(BegunExchange {
            opening,
            exchange,
            out,
            account,
            run,
            output_limit,
            leased,
            continues,
        }))
    }

    /// Checks that the limits of a request can be held.
    ///
    /// # Errors
    /// Returns the response for a request whose limits cannot be enforced.
    fn check_limits(
        &self,
        account: &RequestAccount,
        request: &Request<'_>,
        policy: &Policy,
    ) -> Result<(), RefusedResponse> {
        if !account.is_priced() && self.limits_money(policy) {
            return Err(Box::new(self.refuse_unpriced(policy)));
        }
        if let Some(what) = account.find_unpriceable(request)
            && self.limits_money(policy)
        {
            return Err(Box::new(self.refuse_unpriceable(policy, what)));
        }
        if let Some(member) = uncounted_search(request)
            && !policy.is_observing()
            && policy.tool_limits.contains_key(SEARCH)
        {
            return Err(Box::new(refuse_search(&self.asked.target, member)));
        }
        if let Some(why) = &self.place.lost
            && self.requires_reservation(policy)
        {
            // The store's answer may concern an account that is not the run's.
            return Err(Box::new(self.refuse_lost_store(policy, why)));
        }
        Ok(())
    }

    /// Refuses a request for something that has no known price.
    fn refuse_unpriceable(&self, policy: &Policy, what: &str) -> Response<Body> {
        let limit = self.name_money_limit(policy);
        let message = format!(
            "softland: no price is known of {what}, so {limit} cannot be enforced; add a [[price]] for \
             the model to the config"
        );
        Refusal::new(StatusCode::BAD_REQUEST, self.target.protocol, message).to_response()
    }

    fn refuse_unpriced(&self, policy: &Policy) -> Response<Body> {
        let (model, limit) = (&self.model, self.name_money_limit(policy));
        let message = format!(
            "softland: no price is known of the model `{model}`, so {limit} cannot be enforced; add a \
             [[price]] for it to the config"
        );
        Refusal::new(StatusCode::BAD_REQUEST, self.target.protocol, message).to_response()
    }

    fn refuse_lost_store(&self, policy: &Policy, why: &str) -> Response<Body> {
        let limit = self.name_money_limit(policy);
        let message = format!("softland: {limit} cannot be enforced now: {why}");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, self.target.protocol, message).to_response()
    }

    /// Reserves the request's worst case. If that exceeds a limit, the provider is asked for a
    /// token count; a count cannot bring back what is spent or held by others.
    async fn reserve_worst_case(
        &self,
        account: &mut RequestAccount,
        request: &Request<'_>,
        policy: &Policy,
    ) -> LeaseOutcome {
        let services = &self.asked.services;
        // A request that is only metered is not followed by an answer: nothing is held back for it.
        let (explores, signals) = (!self.metered, Some(&self.asked.active.signals));
        let leased = account.reserve_worst_case(services, request, policy, explores, signals).await;
        let is_short = match &leased {
            LeaseOutcome::Short(short) => (short.spent, short.reserved) == Default::default(),
            LeaseOutcome::Granted(_) => explores && account.is_short_at_first(self.at, policy),
            LeaseOutcome::Lost(_) => false,
        };
        if !is_short || !account.is_counted_by_bytes() {
            return leased;
        }
        let Some(tokens) = count::ask_provider(&self.asked, &self.target, request).await else {
            return leased;
        };
        account.use_count(tokens);
        account.reserve_worst_case(services, request, policy, explores, signals).await
    }

    /// Passes on a request for something whose response is no turn of a run, and shows no cost.
    pub(crate) async fn pass_ungoverned(&self, member: &str) -> Response<Body> {
        let (asked, target) = (&self.asked, &self.target);
        let allowed = target.settings.allow_unmetered;
        if self.limits_money(&self.chosen.policy) && !allowed {
            return unmetered_refusal(target, &format!(" with `{member}`")).to_response();
        }
        tracing::warn!(id = %target.id, member, "passed on ungoverned");
        mark_unmetered(pass::pass_with_body(asked, target, asked.active.body.clone()).await)
    }

    /// Returns true if the request is refused while the store does not respond, for its limits.
    pub(super) fn requires_reservation(&self, policy: &Policy) -> bool {
        self.limits_money(policy) && policy.on_store_loss == OnStoreLoss::Closed
    }

    /// Notes that a request is sent although the amount left is unknown. Returns the remark for the
    /// ledger.
    pub(super) fn note_unheld(&self, policy: &Policy, why: &str) -> String {
        self.asked.services.meter.count_event("accounts_lost");
        let id = &self.target.id;
        if self.limits_money(policy) {
            let limit = self.name_money_limit(policy);
            tracing::error!(%id, why, "{limit} is not enforced, as on_store_loss permits");
            return format!("{limit} was not held (on_store_loss = \"open\"): {why}");
        }
        tracing::warn!(%id, why, "not counted in its accounts");
        format!("not counted in its accounts: {why}")
    }

    /// Returns the state of the run now, and the name of the run that it continues after a long
    /// pause.
    fn current_state(&self, run: &Digest, now: u64) -> (Arc<RunState>, Option<Arc<str>>) {
        let services = &self.asked.services;
        let kept = self.place.run_state(run);
        let Some(kept) = kept.filter(|_| !self.metered) else {
            let id = services.names.next_run();
            let (begun, last) = (now, now);
            let new = RunState { id, begun, last, ..RunState::default() };
            return (Arc::new(new), None);
        };
        let over = kept.ended || self.place.find_cancelled(&kept.id).is_some();
        if now.saturating_sub(kept.last) <= IDLE_MS && !over {
            return (kept, None);
        }
        let again = RunState { id: services.names.next_run(), ended: false, ..(*kept).clone() };
        (Arc::new(again), Some(Arc::clone(&kept.id)))
    }

    /// Returns true if the run was cancelled and no user message has come since, or if the run's
    /// parent was cancelled.
    fn is_cancelled(&self, run: &Digest, request: &Request<'_>) -> bool {
        let own = self.place.run_state(run).filter(|_| !self.metered);
        let own = own.and_then(|state| self.place.find_cancelled(&state.id));
        own.is_some_and(|here| {
            here == Some(self.outline.here) || !new_message::has_new_message(request)
        }) || self.parent_run().is_some_and(|parent| self.place.find_cancelled(&parent).is_some())
    }

    /// Learns from a 400 to this rung.
    pub(super) fn learn_refusal(&mut self, rung: Option<Rung>) {
        if self.place.lessons.learn_refusal(&self.model, rung) {
            self.share_lessons();
        }
    }

    /// Learns from a 400 to an output limit. Returns true if another limit is worth a try.
    pub(super) fn learn_limit(&mut self, limit: u64, error: &str) -> bool {
        let before = self.place.lessons;
        let learned = self.place.lessons.learn_limit(limit, error);
        if self.place.lessons != before {
            self.share_lessons();
        }
        learned
    }

    fn share_lessons(&self) {
        let (model, lessons) = (Arc::clone(&self.model), self.place.lessons);
        self.asked.services.state.take_note(StateNote::Learned { model, lessons });
    }

    /// Returns the parent run, if this request's run is a sub-agent.
    pub(super) fn parent_run(&self) -> Option<Arc<str>> {
        let (_, kept) = self.place.parent.as_ref()?;
        Some(kept.runs.get(&kept.newest?)?.id.clone())
    }

    /// Returns the newest counted context that this request continues: of its run, or, if the run
    /// begins, of one before it in the conversation.
    fn counted_context(&self, state: &RunState) -> Option<CountedContext> {
        if self.metered || state.known.is_some() {
            let here = |known: &CountedContext| {
                let before = self.outline.answered.iter().any(|turn| turn.before == known.context);
                before || self.outline.here == known.context
            };
            return state.known.filter(here);
        }
        let before: HashSet<Digest> =
            self.outline.answered.iter().map(|turn| turn.before).collect();
        let goes_on = |known: &CountedContext| {
            before.contains(&known.context) || self.outline.here == known.context
        };
        self.place.counted_contexts().filter(goes_on).max_by_key(|known| known.tokens)
    }

    /// Returns how often this same context was answered in vain.
    fn count_vain(&self, state: &RunState) -> u64 {
        let same = state.vain.filter(|(context, _)| *context == self.outline.here);
        same.map_or(0, |(_, times)| times)
    }

    fn request_accounts(&self, run: &Digest, state: &RunState) -> RequestAccounts {
        let scope = &self.place.scope;
        let session: Arc<str> = match &self.place.session {
            Session::Named(name) => self.scope_account("session:", name),
            Session::Alone => ["session:", scope].concat().into(),
        };
        let parent = self.parent_money();
        let shares = parent.as_ref().filter(|_| self.own_limit().is_none());
        let own = match (&self.identity.run, shares) {
            (Some(given), _) => self.scope_account("run:given:", given),
            (None, Some((account, ..))) => account.clone(),
            (None, None) if self.metered => {
                self.account_beside().unwrap_or_else(|| session.clone())
            }
            (None, None) if state.account.is_empty() => format!("run:{scope}:{run}").into(),
            (None, None) => Arc::clone(&state.account),
        };
        let parent = parent.filter(|(account, ..)| *account != own);
        let parents = parent.into_iter().chain(self.enclosing_run_limits()).collect();
        let (tokens_above, nested_tokens) = (self.tokens_above(), self.asked.nested_tokens);
        let budgets = self.target.settings.key_budgets(self.target.key.as_deref());
        RequestAccounts { run: own, session, parents, budgets, tokens_above, nested_tokens }
    }

    /// Returns the account of something that a client has named, apart from the accounts of the
    /// same name under other keys.
    pub(super) fn scope_account(&self, kind: &str, name: &str) -> Arc<str> {
        ClientKey::scope_name(self.target.key.as_deref(), &[kind, name].concat()).into()
    }

    /// Returns the account of the run to which a title or a summary belongs.
    fn account_beside(&self) -> Option<Arc<str>> {
        let newest = self.place.run_state(&self.place.kept.newest?)?;
        Some(newest.account.clone()).filter(|account| !account.is_empty())
    }

    /// Returns the money limit that a sub-agent has of its own, not of its parent's.
    fn own_limit(&self) -> Option<NanoUsd> {
        let settings = &self.target.settings;
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
        let prices = &self.target.settings.prices;
        let context = state.known.map_or(0, |known| known.tokens);
        let held = prices.find_price(None, &self.model, context).map_or(NanoUsd::ZERO, |price| {
            NanoUsd::from_tokens(context, price.input)
                + NanoUsd::from_tokens(pinned.policy.reserve_tokens, price.output)
        });
        Some((state.account.clone(), limit, held))
    }

    /// Returns what was spent before a fork, if its new account does not have it yet.
    fn fork_cost(&self, state: &RunState) -> NanoUsd {
        if self.place.is_fresh_fork() { state.cost } else { NanoUsd::ZERO }
    }
}

/// Returns the remark in an answer for want of money on the tool that is the cause.
fn unbounded_remark(tool: &str) -> String {
    format!(
        "The request declares `{tool}`, which the provider runs: what it brings has no documented \
         bound, so that the whole context window is counted for it."
    )
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

fn refuse_search(target: &Target, member: &str) -> Response<Body> {
    let message = format!(
        "softland: the tool_limits of `{SEARCH}` cannot be enforced: by `{member}` the Chat \
         Completions API searches before the answer and does not say how often; use the `{SEARCH}` \
         tool of the Responses API instead"
    );
    Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message).to_response()
}

/// Returns the response for a client whose run was cancelled. SDKs do not send the request again.
pub(super) fn refuse_cancelled(target: &Target) -> Response<Body> {
    let message = "softland: a person cancelled this run on softland's pages; a new message begins \
                   a new run";
    let refusal = Refusal::new(StatusCode::BAD_REQUEST, target.protocol, message);
    errors::without_retry(refusal.to_response())
}

/// Refuses a request whose history the provider stores, in the form that makes the vendor's SDK
/// (`anthropic` for Python, `tool_runner`) send the whole history.
fn refuse_thread() -> Response<Body> {
    let details = BTreeMap::from([
        ("error_code", serde_json::json!("thread_unsupported_request")),
        ("unsupported", serde_json::json!(["thread"])),
    ]);
    let message = "softland: `thread` is not supported here; send the whole history";
    let kind = "invalid_request_error";
    errors::anthropic_error_with(
        StatusCode::BAD_REQUEST,
        kind,
        message,
        &serde_json::json!(details),
    )
}
