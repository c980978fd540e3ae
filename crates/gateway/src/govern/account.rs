//! What one request may use and has used: its accounts of money, its run's tokens and time, and
//! the facts that the session decides on.

use std::sync::Arc;
use std::time::Duration;

use softland_session::core::is_short_of_money;
use softland_session::core::models::{Model, Price};
use softland_session::core::policy::Policy;
use softland_session::core::{Above, Because, Facts, Limit, Millis, NanoUsd, Reason};
use softland_session::price::{self, Brought, Fees};
use softland_session::wire::request::Request;
use softland_session::wire::{Api, Tokens};

use super::{Told, Word};
use crate::accounts::{Claim, Lease, Short};
use crate::gate::Gate;
use crate::money::{self, Bound, Known, Reserved, Size, Want};
use crate::settings::Prices;
use crate::store::{Counted, RunState};

/// The accounts that a request counts in.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    /// The run's.
    pub(super) run: Arc<str>,
    /// Its session's.
    pub(super) session: Arc<str>,
    /// Its parent's, with the parent's limit and what the parent holds back for its answer.
    pub(super) parent: Option<(Arc<str>, NanoUsd, NanoUsd)>,
    /// Its parent's tokens, this run's apart that are under way.
    pub(super) tokens_above: Option<Above<u64>>,
}

/// What a model costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tariff {
    /// The configuration's price, before the table's.
    own: Option<Price>,
    model: Option<&'static Model>,
}

impl Tariff {
    /// By the model's name, and its row in the built-in table.
    pub(super) fn of(prices: &Prices, model: &str, row: Option<&'static Model>) -> Self {
        let own = prices.own(model);
        Self { own: own.or_else(|| prices.of_any().filter(|_| row.is_none())), model: row }
    }

    /// The dearest that so much input can be billed at.
    pub(super) fn at(&self, input: u64) -> Option<Price> {
        self.own.or_else(|| self.model.map(|model| model.dearest(input)))
    }

    /// What a response is billed.
    fn cost(&self, tokens: &Tokens, fees: &Fees, name: &str) -> Option<NanoUsd> {
        let price = self.at(tokens.input_total())?;
        Some(fees.billed(name, tokens, &price))
    }

    /// The model's name in the table, by which its tiers are known.
    fn name(&self) -> &'static str {
        self.model.map_or("", |model| model.id)
    }
}

/// One request's account.
#[derive(Debug)]
pub(super) struct Account {
    purse: Purse,
    tariff: Tariff,
    /// The run's state before this request.
    pub(super) state: Arc<RunState>,
    /// The newest context that the provider has counted, if this request goes on from it.
    known: Option<Known>,
    thinking_budget: u64,
    /// Bytes of history that the provider has, and no body shows.
    pub(super) kept_bytes: u64,
    /// What the run and its session had spent before.
    spent: (NanoUsd, NanoUsd),
    lease: Option<Lease>,
    /// What this request has used so far, all upstream requests together.
    used: Tokens,
    cost: NanoUsd,
    /// What the upstream request under way is billed so far.
    newest: Counting,
}

/// The upstream request under way.
#[derive(Clone, Debug, Default)]
struct Counting {
    size: Size,
    /// The most that it can use.
    bound: Bound,
    /// Input tokens of the client's own, without what the provider's tools bring.
    own: u64,
    /// How it asks to be served, and what uses of tools cost.
    fees: Fees,
    tokens: Option<Tokens>,
    /// The most output that it can get.
    output: u64,
    /// Whether the head of its response says what its input is billed.
    firm: bool,
    /// The dearest that its input can be billed.
    input: NanoUsd,
    /// A tool of the provider's whose results have no bound.
    unbounded: Option<String>,
}

/// What has become of the wish to send a request.
pub(super) enum Leased {
    /// It may be sent, with this output limit where it is not the request's own.
    Granted(Option<u64>),
    /// There is not enough, for the account that is named.
    Short(Short),
    /// There is no telling.
    Lost(String),
}

impl Account {
    pub(super) async fn open(
        gate: &Gate,
        purse: Purse,
        tariff: Tariff,
        state: Arc<RunState>,
        known: Option<Counted>,
        thinking_budget: u64,
    ) -> Self {
        let names = [&*purse.run, &*purse.session];
        let spent = match gate.accounts.balance(&names).await.as_deref() {
            Ok([run, session]) => (run.spent, session.spent),
            _ => (NanoUsd::ZERO, NanoUsd::ZERO),
        };
        let known = known.map(|known| {
            let [text, media, unseen] = known.shown;
            let size = Size { text, media, unseen, unwritten: 0 };
            Known { tokens: known.tokens, size }
        });
        Self {
            purse,
            tariff,
            state,
            known,
            thinking_budget,
            kept_bytes: 0,
            spent,
            lease: None,
            used: Tokens::default(),
            cost: NanoUsd::ZERO,
            newest: Counting::default(),
        }
    }

    /// Reads again what run and session have spent: others may have spent of it meanwhile.
    pub(super) async fn look_again(&mut self, gate: &Gate) {
        let names = [&*self.purse.run, &*self.purse.session];
        if let Ok([run, session]) = gate.accounts.balance(&names).await.as_deref() {
            self.spent = (run.spent.less(self.cost), session.spent.less(self.cost));
        }
    }

    /// Whether the model has a price.
    pub(super) fn is_priced(&self) -> bool {
        self.tariff.at(0).is_some()
    }

    /// What a request asks for that has a price of its own, which nobody here knows: sound and
    /// images as output, and answers of other models.
    pub(super) fn unpriceable(&self, request: &Request<'_>) -> Option<&'static str> {
        if self.tariff.own.is_some() {
            return None;
        }
        match (request.terms.speaks, request.terms.fallbacks) {
            (true, _) => Some("`modalities` other than text"),
            (_, true) => Some("`fallbacks`"),
            _ => None,
        }
    }

    /// Whether the bound of the newest request is by its bytes: a count would bring a better one.
    /// What it does not show is the window, whatever is counted.
    pub(super) fn is_counted_by_bytes(&self) -> bool {
        self.newest.unbounded.is_none() && self.newest.size.unseen == 0
    }

    /// The provider has counted the newest request: what was reserved for it is free again.
    pub(super) fn counted_to(&mut self, tokens: u64) {
        if let Some(lease) = self.lease.take() {
            lease.settle(NanoUsd::ZERO);
        }
        let size = self.newest.size;
        self.known = Some(Known { tokens: tokens.saturating_add(size.unwritten), size });
    }

    /// A tool of the provider's that makes the newest request's bound the window.
    pub(super) fn unbounded(&self) -> Option<&str> {
        self.newest.unbounded.as_deref()
    }

    /// What this request has cost so far; `None` where the model has no price.
    pub(super) fn cost(&self) -> Option<NanoUsd> {
        self.is_priced().then_some(self.cost)
    }

    /// The account that the run has.
    pub(super) fn run_account(&self) -> &Arc<str> {
        &self.purse.run
    }

    pub(super) fn used(&self) -> Tokens {
        self.used
    }

    /// The dearest price of so much input, served as the newest request asks for.
    fn price(&self, input: u64) -> Option<Price> {
        let price = self.tariff.at(input)?;
        Some(price.times(self.newest.fees.at_most(self.tariff.name())))
    }

    fn billed(&self, tokens: &Tokens) -> Option<NanoUsd> {
        self.tariff.cost(tokens, &self.newest.fees, self.tariff.name())
    }

    /// The most that a request can use. What the provider's tools bring is its own for every
    /// request; `uses`: how often they may be used where the request does not say.
    fn count(&self, request: &Request<'_>, uses: Option<u64>) -> Counting {
        let window = money::window(self.tariff.model);
        let size = Size::of(request).behind(self.kept_bytes);
        let brought = Brought::of(request, uses);
        let own = money::input_bound(self.known, size, window);
        let bound = Bound {
            input: brought.input(own, window),
            output: money::output_bound(request.max_tokens.map(|m| m.value), self.tariff.model),
            writes: money::writes(request),
            fees: brought.fees,
        };
        // What tools bring, and a compaction, is billed beside what the head says.
        let firm =
            size.unseen == 0 && !request.terms.manages_context && brought == Brought::default();
        let unbounded = if size.unseen > 0 { None } else { brought.unbounded };
        let (output, fees) = (bound.output, Fees::of(request));
        Counting { size, bound, own, fees, output, firm, unbounded, ..Counting::default() }
    }

    /// The facts that hold now for the request that [`reserve`](Self::reserve) was last asked for.
    /// `short`: an account that has not enough for it.
    pub(super) fn facts(&self, now: u64, short: Option<&Short>) -> Facts {
        let bound = self.newest.bound;
        let price = self.price(bound.input);
        let total = self.used.input_total().saturating_add(self.used.output);
        let mut facts = Facts {
            tokens: self.state.tokens.saturating_add(total),
            cost: self.spent.0 + self.cost,
            session_cost: self.spent.1 + self.cost,
            elapsed: Millis(self.state.active_at(now)),
            next_input: money::input_estimate(self.known, self.newest.size),
            thinking_budget: self.thinking_budget,
            tool_refusals: self.state.tool_refusals,
            tokens_above: self
                .purse
                .tokens_above
                .map(|above| Above { used: above.used.saturating_add(total), ..above }),
            ..Facts::default()
        };
        if let Some(price) = price {
            facts.next_input_cost = bound.input_cost(&price);
            facts.reserve_input_cost = self.answer_input();
            facts.output_pico = price.output;
        }
        if let Some(short) = short {
            // What others hold is as good as spent, and is not told as spent.
            let gone = short.limit.less(short.left());
            let held = gone.less(short.spent);
            if short.account == self.purse.session {
                facts.session_cost = facts.session_cost.max(short.spent);
                facts.session_cost_held = held;
            } else if short.account == self.purse.run {
                facts.cost = facts.cost.max(short.spent);
                facts.cost_held = held;
            } else if let Some((_, limit, _)) = self.purse.parent {
                facts.cost_above = Some(Above { used: limit.less(short.left()), limit });
            }
        }
        facts
    }

    /// Why a request is not sent: an account has not enough for it.
    pub(super) fn denied(&self, policy: &Policy, short: &Short) -> Because {
        let money = |limit: Option<NanoUsd>| limit.unwrap_or(short.limit);
        let (reason, limit) = if short.account == self.purse.session {
            (Reason::SessionCost, money(policy.session_cost_limit_usd))
        } else if short.account == self.purse.run {
            (Reason::Cost, money(policy.cost_limit_usd))
        } else {
            (Reason::Cost, money(self.purse.parent.as_ref().map(|(_, limit, _)| *limit)))
        };
        let needed = Some(short.least);
        Because { needed, ..Because::new(reason, Limit::Money(short.spent), Limit::Money(limit)) }
    }

    /// Reserves the worst case of an upstream request. `waits`: whether others may be waited for.
    pub(super) async fn reserve(
        &mut self,
        gate: &Gate,
        request: &Request<'_>,
        policy: &Policy,
        exploring: bool,
        waits: Option<&Told>,
    ) -> Leased {
        self.settle();
        self.newest = self.count(request, self.added_uses(policy, request.api));
        let (bound, output) = (self.newest.bound, self.newest.output);
        let Some(price) = self.price(bound.input) else { return Leased::Granted(None) };
        self.newest.input = bound.input_cost(&price);
        let answer = self.answer_input() + NanoUsd::of_tokens(policy.reserve_tokens, price.output);
        let held = if exploring { answer } else { NanoUsd::ZERO };
        let claims = self.claims(policy, held);
        let floor = policy.reserve_tokens.max(request.api.least_output());
        let want = Want {
            input: bound.input_cost(&price),
            output: bound.output,
            output_pico: price.output,
            floor: floor.saturating_add(self.thinking_budget),
            stream: request.stream && waits.is_some(),
        };
        let reserved = match waits {
            Some(told) => {
                money::reserve(&*gate.accounts, claims, want, || told.say(Word::Loud)).await
            }
            None => money::reserve_now(&*gate.accounts, claims, want).await,
        };
        match reserved {
            Reserved::Granted { lease, output_limit } => {
                self.lease = Some(lease);
                self.newest.output = output_limit.unwrap_or(output);
                Leased::Granted(output_limit)
            }
            Reserved::Land(short) | Reserved::Busy(short) => Leased::Short(short),
            Reserved::Lost(refusal) => Leased::Lost(refusal.to_string()),
        }
    }

    /// Whether the run would land for want of money before anything was spent.
    pub(super) fn is_short_at_first(&self, now: u64, policy: &Policy) -> bool {
        let facts = self.facts(now, None);
        let spent = facts.cost.max(facts.session_cost);
        spent == NanoUsd::ZERO && is_short_of_money(&facts, policy)
    }

    /// What the run's answer may be billed for its input: by then no tool is used any more.
    fn answer_input(&self) -> NanoUsd {
        let own = self.newest.own;
        self.price(own).map_or(NanoUsd::ZERO, |price| NanoUsd::of_tokens(own, price.input))
    }

    /// How often the provider's tools may be used in a request that does not say: the same for the
    /// whole run, since it follows from its limit of money.
    pub(super) fn added_uses(&self, policy: &Policy, api: Api) -> Option<u64> {
        let own = [policy.cost_limit_usd, policy.session_cost_limit_usd];
        let above = self.purse.parent.as_ref().map(|(_, limit, _)| *limit);
        let limit = own.into_iter().chain([above]).flatten().min();
        let limit = limit.filter(|_| !policy.observes() && api != Api::Chat)?;
        let price = self.tariff.at(u64::MAX)?;
        Some(price::uses_under(limit, price.dearest_input(false), api))
    }

    fn claims(&self, policy: &Policy, held: NanoUsd) -> Vec<Claim> {
        let enforced = !policy.observes();
        let limit =
            |limit: Option<NanoUsd>| limit.filter(|_| enforced).map(|limit| limit.less(held));
        let claim = |account: &Arc<str>, limit| Claim { account: account.clone(), limit };
        let mut claims = vec![
            claim(&self.purse.run, limit(policy.cost_limit_usd)),
            claim(&self.purse.session, limit(policy.session_cost_limit_usd)),
        ];
        if let Some((account, limit, held)) = &self.purse.parent {
            claims.push(claim(account, enforced.then(|| limit.less(*held))));
        }
        claims
    }

    /// The head of the response says what its input is billed: from here on the worst case is
    /// only a matter of its output, and others can have the rest. True once that is done.
    pub(super) fn head(&mut self, tokens: Tokens) -> bool {
        if tokens.input_total() == 0 {
            return false;
        }
        if let (Some(cost), Some(lease)) = (self.billed(&tokens), &mut self.lease) {
            lease.received(cost);
        }
        let worst = Tokens { output: self.newest.output, ..tokens };
        if let (true, Some(cost), Some(lease)) =
            (self.newest.firm, self.billed(&worst), &mut self.lease)
        {
            lease.lower(cost);
        }
        true
    }

    /// It has ended, and cost this much.
    pub(super) fn add(&mut self, tokens: Tokens) -> Option<NanoUsd> {
        self.newest.tokens = Some(tokens);
        self.settle()
    }

    /// Nothing was billed: the request did not get through.
    pub(super) fn nothing(&mut self) {
        self.newest.tokens = None;
        if let Some(lease) = self.lease.take() {
            lease.settle(NanoUsd::ZERO);
        }
    }

    /// It was sent, and given up or cut before anything said what it costs: the provider has read
    /// it, and bills that, and the `output` tokens of which something came. What it wrote beside,
    /// if anything, nobody knows. Its tokens are estimated, its cost is bounded.
    pub(super) fn unanswered(&mut self, output: u64) -> (Tokens, Option<NanoUsd>) {
        let output = output.min(self.newest.output);
        let tokens = self.estimated(output);
        let Some(price) = self.price(self.newest.bound.input) else { return (tokens, None) };
        let cost = self.newest.input + NanoUsd::of_tokens(output, price.output);
        self.cost += cost;
        if let Some(lease) = self.lease.take() {
            lease.settle(cost);
        }
        (tokens, Some(cost))
    }

    /// What the newest upstream request has at most, before anything came of it: an estimate of its
    /// input, and what is held for it.
    pub(super) fn worst(&self) -> (Tokens, Option<NanoUsd>) {
        let input = money::input_estimate(self.known, self.newest.size);
        let tokens = Tokens { input, ..Tokens::default() };
        (tokens, self.lease.as_ref().map(Lease::reserved))
    }

    /// Counts the tokens of a request whose answer does not say them.
    pub(super) fn estimated(&mut self, output: u64) -> Tokens {
        let input = money::input_estimate(self.known, self.newest.size);
        let tokens = Tokens { input, output, ..Tokens::default() };
        self.used = self.used.plus(tokens);
        tokens
    }

    /// It was answered in a form that nobody here can read: all that was held for it may have been
    /// billed.
    pub(super) fn unread(&mut self) -> Option<NanoUsd> {
        let lease = self.lease.take()?;
        let cost = lease.reserved();
        self.cost += cost;
        lease.settle(cost);
        Some(cost)
    }

    /// Books what the newest upstream request came to.
    pub(super) fn settle(&mut self) -> Option<NanoUsd> {
        let tokens = self.newest.tokens.take()?;
        let cost = self.billed(&tokens);
        self.used = self.used.plus(tokens);
        self.cost += cost.unwrap_or(NanoUsd::ZERO);
        if let Some(lease) = self.lease.take() {
            lease.settle(cost.unwrap_or(NanoUsd::ZERO));
        }
        cost
    }

    /// What the provider has counted of the newest request, for the next one's bound.
    pub(super) fn counted(&self, tokens: Tokens) -> (u64, [u64; 3]) {
        let Size { text, media, unseen, .. } = self.newest.size;
        (tokens.input_total().saturating_add(tokens.output), [text, media, unseen])
    }

    /// When the run's time is over: while it explores, what is held back for its answer apart.
    pub(super) fn time_left(&self, policy: &Policy, now: u64, open: bool) -> Option<Duration> {
        let limit = policy.time_limit.filter(|_| !policy.observes())?;
        let held = if open { policy.reserve_time.0.min(limit.0 / 2) } else { 0 };
        let left = (limit.0 - held).saturating_sub(self.state.active_at(now));
        Some(Duration::from_millis(left))
    }

    /// Why the run's time is over.
    pub(super) fn time_is_up(&self, policy: &Policy, now: u64) -> Option<Because> {
        let limit = policy.time_limit?;
        let used = Limit::Time(Millis(self.state.active_at(now)));
        Some(Because::new(Reason::Time, used, Limit::Time(limit)))
    }
}
