//! The account of one request: what it may use and has used of money, tokens and time, and the
//! facts that the session decides on.

use std::sync::Arc;
use std::time::Duration;

use softland_session::core::is_short_of_money;
use softland_session::core::lease::Amount;
use softland_session::core::models::{Model, Price};
use softland_session::core::policy::Policy;
use softland_session::core::{
    AccountAbove, Because, BudgetShortage, Facts, Millis, NanoUsd, Quantity, Reason,
};
use softland_session::price::{self, Fees, HostedToolBound};
use softland_session::wire::request::Request;
use softland_session::wire::{Api, ExtraCharges, Tokens};

use super::registration::RunRegistration;
use crate::budget::AccountBudget;
use crate::money::accounts::{
    Accounts as _, Claim, Lease, ReservationAmounts, RunReserve, Shortfall, WaitLimits,
};
use crate::money::window::is_window_account;
use crate::money::{self, InputSize, KnownAncestor, Reservation, UsageBound, WorstCase};
use crate::services::Services;
use crate::settings::Prices;
use crate::shared::{LedgerAnswer, RequestLedger};
use crate::signals::{RequestSignal, RequestSignals};
use crate::store::{CountedContext, RunState};

mod booking;

/// The accounts that a request counts in.
#[derive(Clone, Debug)]
pub(super) struct RequestAccounts {
    /// The run's account.
    pub(super) run: Arc<str>,
    /// Its session's account.
    pub(super) session: Arc<str>,
    /// The accounts of its parent and of the runs around it, each with the limit there and the
    /// amount that is held back there for an answer.
    pub(super) parents: Vec<(Arc<str>, NanoUsd, NanoUsd)>,
    /// The budgets of the account of its key.
    pub(super) budgets: Vec<AccountBudget>,
    /// Its parent's tokens, without this run's tokens of the running request.
    pub(super) tokens_above: Option<AccountAbove<u64>>,
    /// The tokens of the runs within this one, which count in its own limit.
    pub(super) nested_tokens: u64,
}

impl RequestAccounts {
    /// Returns the limit of a parent's account.
    fn limit_above(&self, account: &str) -> Option<NanoUsd> {
        let found = self.parents.iter().find(|(parent, ..)| **parent == *account);
        found.map(|(_, limit, _)| *limit)
    }
}

/// The prices of a model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tariff {
    /// The configuration's price, which takes precedence over the built-in table's.
    own: Option<Price>,
    model: Option<&'static Model>,
}

impl Tariff {
    /// Finds the prices of a model by its name and its row in the built-in table.
    pub(super) fn from_model(prices: &Prices, model: &str, row: Option<&'static Model>) -> Self {
        let own = prices.own_price(model);
        Self { own: own.or_else(|| prices.default_price().filter(|_| row.is_none())), model: row }
    }

    /// Returns the highest price at which `input` tokens can be billed.
    pub(super) fn price_at(&self, input: u64) -> Option<Price> {
        self.own.or_else(|| self.model.map(|model| model.highest_price(input)))
    }

    /// Returns the cost of a response.
    fn response_cost(&self, tokens: &Tokens, fees: &Fees, name: &str) -> Option<NanoUsd> {
        let price = self.price_at(tokens.input_total())?;
        Some(fees.bill_response(name, tokens, &price))
    }

    /// Returns the cost of the tokens of a response alone, and the price that shares it out.
    fn token_cost(&self, tokens: &Tokens, fees: &Fees) -> Option<(NanoUsd, Price)> {
        let price = self.price_at(tokens.input_total())?;
        let (served, in_one_country) = (tokens.beside.served, tokens.beside.in_one_country);
        let beside = ExtraCharges { served, in_one_country, ..ExtraCharges::default() };
        Some((fees.bill_response(self.model_name(), &Tokens { beside, ..*tokens }, &price), price))
    }

    /// Returns the model's name in the table, which determines its service tiers.
    fn model_name(&self) -> &'static str {
        self.model.map_or("", |model| model.id)
    }
}

/// The account of one request.
#[derive(Debug)]
pub(super) struct RequestAccount {
    accounts: RequestAccounts,
    tariff: Tariff,
    /// The run's state before this request.
    pub(super) state: Arc<RunState>,
    /// The newest context that the provider has counted, if this request continues it.
    known: Option<KnownAncestor>,
    thinking_budget: u64,
    /// Bytes of history that the provider stores and that no body shows.
    pub(super) stored_history_bytes: u64,
    /// The registration with the run, if the request belongs to one.
    registration: Option<RunRegistration>,
    /// The amounts that the run and its session had spent before, once they are known.
    spent: Option<(NanoUsd, NanoUsd)>,
    /// The amount spent before a fork, which is still to be booked on the fork's accounts.
    spent_before: NanoUsd,
    lease: Option<Lease>,
    /// The windows of budgets in which the newest reservation counts.
    windows: Vec<Arc<str>>,
    /// The tokens that this request has used so far, in all upstream requests together.
    used: Tokens,
    cost: NanoUsd,
    /// The usage of the running upstream request so far.
    newest: UpstreamUsage,
}

/// The usage of the running upstream request.
#[derive(Clone, Debug, Default)]
struct UpstreamUsage {
    size: InputSize,
    /// The most that the request can use.
    bound: UsageBound,
    /// Input tokens of the client's own, without what the provider's tools add.
    own: u64,
    /// The service tier that the request asks for, and the price of tool uses.
    fees: Fees,
    tokens: Option<Tokens>,
    /// The most output tokens that the request can get.
    output: u64,
    /// True if the head of its response states the billed input.
    states_input: bool,
    /// The highest amount that its input can be billed.
    input: NanoUsd,
    /// A tool that the provider runs and whose results have no bound.
    unbounded: Option<String>,
}

/// The result of an attempt to reserve money for a request.
pub(super) enum LeaseOutcome {
    /// The request may be sent, with this output limit if it is not the request's own.
    Granted(Option<u64>),
    /// The named account has not enough money.
    Short(Shortfall),
    /// The amount spent is unknown, for this reason.
    Lost(String),
}

impl RequestAccount {
    pub(super) fn open_account(
        accounts: RequestAccounts,
        tariff: Tariff,
        state: Arc<RunState>,
        known: Option<CountedContext>,
        thinking_budget: u64,
    ) -> Self {
        let known = known.map(|known| {
            let [text, media, unseen] = known.shown;
            let size = InputSize { text, media, unseen, unwritten: 0 };
            KnownAncestor { tokens: known.tokens, size }
        });
        Self {
            accounts,
            tariff,
            state,
            known,
            thinking_budget,
            stored_history_bytes: 0,
            registration: None,
            spent: None,
            spent_before: NanoUsd::ZERO,
            lease: None,
            windows: Vec::new(),
            used: Tokens::default(),
            cost: NanoUsd::ZERO,
            newest: UpstreamUsage::default(),
        }
    }

    /// Notes the amount that was spent before a fork, which is booked with the first reservation.
    pub(super) fn set_spent_before(&mut self, amount: NanoUsd) {
        self.spent_before = amount;
    }

    /// Returns the accounts of the run and its session.
    pub(super) fn own_accounts(&self) -> Vec<Arc<str>> {
        vec![Arc::clone(&self.accounts.run), Arc::clone(&self.accounts.session)]
    }

    /// Sets the registration, whose run opens with the first reservation.
    pub(super) fn set_registration(&mut self, registration: Option<RunRegistration>) {
        self.registration = registration;
    }

    /// Returns true if the shared state knows of the request.
    pub(super) fn is_registered(&self) -> bool {
        self.registration.as_ref().is_some_and(RunRegistration::is_known)
    }

    /// Begins the request in its run. Returns true if the run is new, and its newest turn that had
    /// begun.
    pub(super) fn begin_request(&mut self) -> (bool, u64) {
        self.registration.as_mut().map(RunRegistration::begin_request).unwrap_or_default()
    }

    /// Returns the way to the accounts. The first one opens the run.
    fn open_ledger<'a>(&mut self, services: &'a Services) -> RequestLedger<'a> {
        let opens = self.registration.as_mut().and_then(RunRegistration::take_opening);
        RequestLedger::new(services, self.spent_before, opens)
    }

    /// Notes what a reservation brought: the balances before the first one, in the order of the
    /// claims, and the run that it opened.
    fn note_answer(&mut self, services: &Services, answer: LedgerAnswer) {
        let LedgerAnswer { balances, opened, .. } = answer;
        if let (Some(registration), Some(opened)) = (&mut self.registration, opened) {
            registration.note_opened(services, opened);
        }
        if !balances.is_empty() {
            self.spent_before = NanoUsd::ZERO;
        }
        if let (None, [run, session, ..]) = (self.spent, &*balances) {
            self.spent = Some((run.spent, session.spent));
        }
    }

    /// Learns the balances of a request that has no price, and so reserves nothing.
    async fn count_unpriced(&mut self, services: &Services, policy: &Policy) {
        if self.spent.is_some() {
            return;
        }
        let ledger = self.open_ledger(services);
        let claims = self.account_claims(policy, NanoUsd::ZERO, (services.now(), None));
        let claims = claims.into_iter().map(|claim| claim.without_limits()).collect();
        let nothing = ReservationAmounts::from_exact(NanoUsd::ZERO);
        if let Ok(lease) = ledger.reserve_money(claims, nothing, WaitLimits::NONE).await {
            lease.settle_cost(NanoUsd::ZERO);
        }
        let answer = ledger.take_answer();
        self.note_answer(services, answer);
    }

    /// Returns true if the model has a price.
    pub(super) fn is_priced(&self) -> bool {
        self.tariff.price_at(0).is_some()
    }

    /// Returns the part of a request that has an unknown price of its own: audio and images as
    /// output, and answers of other models.
    pub(super) fn find_unpriceable(&self, request: &Request<'_>) -> Option<&'static str> {
        if self.tariff.own.is_some() {
            return None;
        }
        match (request.terms.speaks, request.terms.fallbacks) {
            (true, _) => Some("`modalities` other than text"),
            (_, true) => Some("`fallbacks`"),
            _ => None,
        }
    }

    /// Returns true if the newest request's bound comes from its bytes, so that a token count would
    /// improve it. Content that the body does not show is bounded by the window, whatever is
    /// counted.
    pub(super) fn is_counted_by_bytes(&self) -> bool {
        self.newest.unbounded.is_none() && self.newest.size.unseen == 0
    }

    /// Uses the provider's count of the newest request, and releases what was reserved for it.
    pub(super) fn use_count(&mut self, tokens: u64) {
        if let Some(lease) = self.lease.take() {
            lease.settle_cost(NanoUsd::ZERO);
        }
        let size = self.newest.size;
        self.known = Some(KnownAncestor { tokens: tokens.saturating_add(size.unwritten), size });
    }

    /// Returns the provider's tool that raises the newest request's bound to the whole window.
    pub(super) fn unbounded_tool(&self) -> Option<&str> {
        self.newest.unbounded.as_deref()
    }

    /// Returns what this request has cost so far; `None` if the model has no price.
    pub(super) fn cost(&self) -> Option<NanoUsd> {
        self.is_priced().then_some(self.cost)
    }

    /// Returns what the run has cost so far, this request included; `None` if the model has no
    /// price, or if the accounts have not said what the run had spent before.
    pub(super) fn run_cost(&self) -> Option<NanoUsd> {
        let (before, _) = self.spent?;
        Some(before + self.cost()?)
    }

    /// Returns the cost of the tokens of the newest response, and the price that shares it out;
    /// `None` if the model has no price.
    pub(super) fn token_cost(&self, tokens: &Tokens) -> Option<(NanoUsd, Price)> {
        self.tariff.token_cost(tokens, &self.newest.fees)
    }

    /// Returns the budgets in which the request counts.
    pub(super) fn budgets(&self) -> &[AccountBudget] {
        &self.accounts.budgets
    }

    /// Returns the windows of budgets in which the newest reservation counts.
    pub(super) fn windows(&self) -> &[Arc<str>] {
        &self.windows
    }

    /// Returns the name of the run's account.
    pub(super) fn run_account(&self) -> &Arc<str> {
        &self.accounts.run
    }

    pub(super) fn used(&self) -> Tokens {
        self.used
    }

    /// Returns the highest price of `input` tokens, in the service tier of the newest request.
    fn highest_price(&self, input: u64) -> Option<Price> {
        let price = self.tariff.price_at(input)?;
        Some(price.scaled_by(self.newest.fees.max_thousandths(self.tariff.model_name())))
    }

    fn billed_cost(&self, tokens: &Tokens) -> Option<NanoUsd> {
        self.tariff.response_cost(tokens, &self.newest.fees, self.tariff.model_name())
    }

    /// Computes the most that a request can use. The content that the provider's tools add counts
    /// for every request; `uses` is the number of tool uses for a request that sets no limit.
    fn count_request(&self, request: &Request<'_>, uses: Option<u64>) -> UpstreamUsage {
        let window = money::context_window(self.tariff.model);
        let size = InputSize::from_request(request).with_history(self.stored_history_bytes);
        let hosted = HostedToolBound::from_request(request, uses);
        let own = money::input_bound(self.known, size, window);
        let bound = UsageBound {
            input: hosted.max_billed_input(own, window),
            output: money::output_bound(request.max_tokens.map(|m| m.value), self.tariff.model),
            writes: money::cache_writes(request),
            fees: hosted.fees,
        };
        // Tool content and a compaction are billed in addition to what the head states.
        let states_input = size.unseen == 0
            && !request.terms.manages_context
            && hosted == HostedToolBound::default();
        let unbounded = if size.unseen > 0 { None } else { hosted.unbounded };
        let (output, fees) = (bound.output, Fees::from_request(request));
        UpstreamUsage {
            size,
            bound,
            own,
            fees,
            output,
            states_input,
            unbounded,
            ..UpstreamUsage::default()
        }
    }

    /// Returns the facts at this time for the request that [`reserve_worst_case`](Self::reserve_worst_case) was last
    /// called for. `short` is an account that has not enough money for it.
    pub(super) fn current_facts(&self, now: u64, short: Option<&Shortfall>) -> Facts {
        let bound = self.newest.bound;
        let price = self.highest_price(bound.input);
        let total = self.used.input_total().saturating_add(self.used.output);
        let spent = self.spent.unwrap_or_default();
        let mut facts = Facts {
            tokens: self
                .state
                .tokens
                .saturating_add(total)
                .saturating_add(self.accounts.nested_tokens),
            cost: spent.0 + self.cost,
            session_cost: spent.1 + self.cost,
            elapsed: Millis(self.state.active_at(now)),
            next_input: money::input_estimate(self.known, self.newest.size),
            thinking_budget: self.thinking_budget,
            tool_refusals: self.state.tool_refusals,
            tokens_above: self
                .accounts
                .tokens_above
                .map(|above| AccountAbove { used: above.used.saturating_add(total), ..above }),
            is_budgeted: !self.accounts.budgets.is_empty(),
            ..Facts::default()
        };
        if let Some(price) = price {
            facts.next_input_cost = bound.input_cost(&price);
            facts.reserve_input_cost = self.answer_input();
            facts.output_pico = price.output;
        }
        if let Some(short) = short {
            // Money that others hold counts as spent, but is not reported as spent.
            let gone = short.limit.saturating_sub(short.remaining_amount());
            let held = gone.saturating_sub(short.spent);
            if short.account == self.accounts.session {
                facts.session_cost = facts.session_cost.max(short.spent);
                facts.session_cost_held = held;
            } else if short.account == self.accounts.run {
                facts.cost = facts.cost.max(short.spent);
                facts.cost_held = held;
            } else if let Some(because) = self.budget_cause(short) {
                let Because { used, limit, needed, .. } = because;
                facts.budget = Some(BudgetShortage { used, limit, needed });
            } else if let Some(limit) = self.accounts.limit_above(&short.account) {
                facts.cost_above = Some(AccountAbove {
                    used: limit.saturating_sub(short.remaining_amount()),
                    limit,
                });
            }
        }
        facts
    }

    /// Returns the cause for not sending a request: an account has not enough money.
    pub(super) fn denial_cause(&self, policy: &Policy, short: &Shortfall) -> Because {
        if let Some(because) = self.budget_cause(short) {
            return because;
        }
        let money = |limit: Option<NanoUsd>| limit.unwrap_or(short.limit);
        let (reason, limit) = if short.account == self.accounts.session {
            (Reason::SessionCost, money(policy.session_cost_limit_usd))
        } else if short.account == self.accounts.run {
            (Reason::Cost, money(policy.cost_limit_usd))
        } else {
            (Reason::Cost, money(self.accounts.limit_above(&short.account)))
        };
        let needed = Some(short.least);
        Because {
            needed,
            ..Because::new(reason, Quantity::Money(short.spent), Quantity::Money(limit))
        }
    }

    /// Reserves the worst case of an upstream request. With `waits`, it waits for others to settle,
    /// and tells them when the wait gets long.
    pub(super) async fn reserve_worst_case(
        &mut self,
        services: &Services,
        request: &Request<'_>,
        policy: &Policy,
        exploring: bool,
        waits: Option<&RequestSignals>,
    ) -> LeaseOutcome {
        self.settle_usage();
        self.newest = self.count_request(request, self.hosted_uses_limit(policy, request.api));
        let (bound, output) = (self.newest.bound, self.newest.output);
        let Some(price) = self.highest_price(bound.input) else {
            self.count_unpriced(services, policy).await;
            return LeaseOutcome::Granted(None);
        };
        self.newest.input = bound.input_cost(&price);
        let answer =
            self.answer_input() + NanoUsd::from_tokens(policy.reserve_tokens, price.output);
        let held = if exploring { answer } else { NanoUsd::ZERO };
        let reserve =
            Amount { money: answer, tokens: self.newest.own.saturating_add(policy.reserve_tokens) };
        let holds = exploring.then(|| RunReserve { run: self.state.id.clone(), amount: reserve });
        let claims = self.account_claims(policy, held, (services.now(), holds));
        let floor = policy.reserve_tokens.max(request.api.min_output_tokens());
        let want = WorstCase {
            input: bound.input_cost(&price),
            output: bound.output,
            output_pico: price.output,
            floor: floor.saturating_add(self.thinking_budget),
            input_tokens: (!self.accounts.budgets.is_empty()).then_some(bound.input),
            stream: request.stream && waits.is_some(),
        };
        let ledger = self.open_ledger(services);
        let reserved = match waits {
            Some(signals) => {
                money::reserve_worst_case(&ledger, claims, want, || {
                    signals.send_signal(RequestSignal::EndSilence)
                })
                .await
            }
            None => money::reserve_now(&ledger, claims, want).await,
        };
        let mut answer = ledger.take_answer();
        let unanswered = answer.unanswered.take();
        self.note_answer(services, answer);
        match reserved {
            Reservation::Granted { lease, output_limit } => {
                let accounts = lease.grant().accounts.iter();
                self.windows = accounts.filter(|name| is_window_account(name)).cloned().collect();
                self.lease = Some(lease);
                self.newest.output = output_limit.unwrap_or(output);
                LeaseOutcome::Granted(output_limit)
            }
            Reservation::Land(short) | Reservation::Busy(short) => LeaseOutcome::Short(short),
            Reservation::Lost(refusal) => {
                let most = Amount {
                    money: want.input + NanoUsd::from_tokens(output, price.output),
                    tokens: bound.input.saturating_add(output),
                };
                self.lease = unanswered.map(|wanted| services.unbooked.lend(wanted, most));
                LeaseOutcome::Lost(refusal.to_string())
            }
        }
    }

    /// Returns true if the run would land for want of money before anything was spent.
    pub(super) fn is_short_at_first(&self, now: u64, policy: &Policy) -> bool {
        let facts = self.current_facts(now, None);
        let spent = facts.cost.max(facts.session_cost);
        spent == NanoUsd::ZERO && is_short_of_money(&facts, policy)
    }

    /// Returns the highest price of the input of the run's answer, in which no tool is used any
    /// more.
    fn answer_input(&self) -> NanoUsd {
        let own = self.newest.own;
        self.highest_price(own)
            .map_or(NanoUsd::ZERO, |price| NanoUsd::from_tokens(own, price.input))
    }

    /// Returns how often the provider's tools may be used in a request that sets no limit. The
    /// number is the same for the whole run, since it follows from the run's money limit.
    pub(super) fn hosted_uses_limit(&self, policy: &Policy, api: Api) -> Option<u64> {
        let own = [policy.cost_limit_usd, policy.session_cost_limit_usd];
        let above = self.accounts.parents.iter().map(|(_, limit, _)| Some(*limit));
        let limit = own.into_iter().chain(above).flatten().min();
        let limit = limit.filter(|_| !policy.is_observing() && api != Api::Chat)?;
        let price = self.tariff.price_at(u64::MAX)?;
        Some(price::uses_under(limit, price.highest_input(false), api))
    }

    /// Returns the claims of a request at this time, in milliseconds since 1970. `held` is what its
    /// run and its session hold back, and the last part what its run holds back in budgets.
    fn account_claims(
        &self,
        policy: &Policy,
        held: NanoUsd,
        (at, holds): (u64, Option<RunReserve>),
    ) -> Vec<Claim> {
        let enforced = !policy.is_observing();
        let limit = |limit: Option<NanoUsd>| {
            limit.filter(|_| enforced).map(|limit| limit.saturating_sub(held))
        };
        let claim = |account: &Arc<str>, limit| Claim::new(Arc::clone(account), limit);
        let mut claims = vec![
            claim(&self.accounts.run, limit(policy.cost_limit_usd)),
            claim(&self.accounts.session, limit(policy.session_cost_limit_usd)),
        ];
        let parents = self.accounts.parents.iter();
        claims.extend(parents.map(|(account, limit, held)| {
            claim(account, enforced.then(|| limit.saturating_sub(*held)))
        }));
        claims.extend(self.accounts.budgets.iter().map(|budget| {
            let claim = budget.claim_at(at, holds.clone());
            if enforced { claim } else { claim.without_limits() }
        }));
        claims
    }

    /// Returns the provider's count of the newest request, for the next request's bound.
    pub(super) fn counted_context(&self, tokens: Tokens) -> (u64, [u64; 3]) {
        let InputSize { text, media, unseen, .. } = self.newest.size;
        (tokens.input_total().saturating_add(tokens.output), [text, media, unseen])
    }

    /// Returns the time until the run's limit. `open` is true while the run explores: then the time
    /// held back for its answer is subtracted.
    pub(super) fn time_left(&self, policy: &Policy, now: u64, open: bool) -> Option<Duration> {
        let limit = policy.time_limit.filter(|_| !policy.is_observing())?;
        let held = if open { policy.reserve_time.0.min(limit.0 / 2) } else { 0 };
        let left = (limit.0 - held).saturating_sub(self.state.active_at(now));
        Some(Duration::from_millis(left))
    }

    /// Returns the cause for ending the run at its time limit.
    pub(super) fn time_is_up(&self, policy: &Policy, now: u64) -> Option<Because> {
        let limit = policy.time_limit?;
        let used = Quantity::Time(Millis(self.state.active_at(now)));
        Some(Because::new(Reason::Time, used, Quantity::Time(limit)))
    }
}
