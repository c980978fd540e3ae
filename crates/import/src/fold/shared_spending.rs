//! The spending that runs share. A sub-agent's money and tokens count in its caller's run, and all
//! money of a session counts in the session (`run/budget.rs` of the agent, `lease.rs` of the core).
//! Files are read independently of each other, so a first reading keeps the cost and the time of
//! each turn, and a second reading is judged by them.

use std::collections::{BTreeMap, BTreeSet};

use softland_session::core::{AccountAbove, Facts, NanoUsd};

use crate::report::{Moment, Report, RunReport, TurnSpend};

/// The identity of a run's conversation: its file, its name there, and its sub-agent.
type ConversationKey = (String, Option<String>, Option<String>);

/// The runs of sessions of which several conversations are recorded.
#[derive(Clone, Debug, Default)]
pub struct SharedSpending {
    sessions: BTreeMap<String, Timeline>,
    conversations: BTreeMap<ConversationKey, ConversationSpending>,
    /// By session, the spending of sub-agents whose calling run is not named.
    agents: BTreeMap<String, Timeline>,
    /// By session, the conversation that is not a sub-agent's.
    main_spending: BTreeMap<String, ConversationSpending>,
    below: BTreeMap<String, Timeline>,
}

/// One conversation.
#[derive(Clone, Debug, Default)]
struct ConversationSpending {
    spent: Timeline,
    /// The moments at which its runs began.
    starts: Vec<Moment>,
    /// The amounts that it holds back for its answer, each from a moment on.
    holds: Vec<(Moment, (NanoUsd, u64))>,
    name: Option<String>,
    caller: Option<String>,
}

/// Running totals of money and tokens, in the order of time.
#[derive(Clone, Debug, Default)]
struct Timeline(Vec<(Moment, u64, u64)>);

impl Timeline {
    fn from_spends(mut spends: Vec<TurnSpend>) -> Self {
        spends.sort_by_key(|spend| spend.at);
        let mut sum = (0_u64, 0_u64);
        let add = |spend: TurnSpend| {
            sum = (sum.0.saturating_add(spend.cost.0), sum.1.saturating_add(spend.tokens));
            (spend.at, sum.0, sum.1)
        };
        Self(spends.into_iter().map(add).collect())
    }

    /// Returns what was spent from `since` on and before `before`.
    fn spent_between(&self, since: Moment, before: Moment) -> (u64, u64) {
        let until = |moment: Moment| {
            let index = self.0.partition_point(|(at, ..)| *at < moment);
            index.checked_sub(1).and_then(|last| self.0.get(last)).map_or((0, 0), |s| (s.1, s.2))
        };
        let (from, to) = (until(since), until(before));
        (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1))
    }
}

const BEGIN: Moment = (0, 0);

impl SharedSpending {
    /// Collects the shared spending of a first reading; returns `None` if no run shares anything.
    #[must_use]
    pub fn from_report(report: &Report) -> Option<Self> {
        let mut sessions: BTreeMap<&str, BTreeSet<ConversationKey>> = BTreeMap::new();
        for run in &report.runs {
            sessions.entry(&run.session).or_default().insert(conversation_key(run));
        }
        sessions.retain(|_, conversations| conversations.len() > 1);
        let shared = |run: &&RunReport| sessions.contains_key(run.session.as_str());
        let runs: Vec<&RunReport> = report.runs.iter().filter(shared).collect();
        if runs.is_empty() {
            return None;
        }
        let mut trees = Self::default();
        let mut of_session: BTreeMap<&str, Vec<TurnSpend>> = BTreeMap::new();
        let mut of_agents: BTreeMap<&str, Vec<TurnSpend>> = BTreeMap::new();
        let mut of_whom: BTreeMap<ConversationKey, Vec<TurnSpend>> = BTreeMap::new();
        let mut of_name: BTreeMap<&str, Vec<TurnSpend>> = BTreeMap::new();
        let callers: BTreeMap<&str, &str> = runs
            .iter()
            .filter_map(|run| Some((run.beside.name.as_deref()?, run.beside.caller.as_deref()?)))
            .collect();
        for run in &runs {
            let spends = spends_until_end(run);
            of_session.entry(&run.session).or_default().extend(spends);
            of_whom.entry(conversation_key(run)).or_default().extend(spends);
            let own = trees.conversations.entry(conversation_key(run)).or_default();
            own.starts.extend(spends.first().map(|spend| spend.at));
            own.holds.extend(spends.iter().map(|spend| (spend.at, spend.held)));
            (own.name, own.caller) = (run.beside.name.clone(), run.beside.caller.clone());
            if run.agent.is_some() && run.beside.caller.is_none() {
                of_agents.entry(&run.session).or_default().extend(spends);
            }
            // Visits the callers, each above the one before. A ring of callers ends the walk.
            let (mut caller, mut above) = (run.beside.caller.as_deref(), BTreeSet::new());
            while let Some(name) = caller.filter(|name| above.insert(*name)) {
                of_name.entry(name).or_default().extend(spends);
                caller = callers.get(name).copied();
            }
        }
        let lines = |spends: BTreeMap<&str, Vec<TurnSpend>>| -> BTreeMap<String, Timeline> {
            let line = |(name, spends): (&str, _)| (name.to_owned(), Timeline::from_spends(spends));
            spends.into_iter().map(line).collect()
        };
        (trees.sessions, trees.agents) = (lines(of_session), lines(of_agents));
        trees.below = lines(of_name);
        for (whose, spends) in of_whom {
            if let Some(own) = trees.conversations.get_mut(&whose) {
                own.spent = Timeline::from_spends(spends);
                own.starts.sort_unstable();
                own.holds.sort_unstable();
            }
        }
        for run in runs.iter().filter(|run| run.agent.is_none()) {
            if let Some(own) = trees.conversations.get(&conversation_key(run)) {
                trees.main_spending.insert(run.session.clone(), own.clone());
            }
        }
        Some(trees)
    }

    /// Adds the use of other runs of the tree and session to a run's own use.
    pub(super) fn add_shared_use(&self, facts: &mut Facts, run: &RunMoment<'_>) {
        let RunMoment { source, session, name, agent, began, at, limits } = *run;
        let whose = (source.to_owned(), name.map(str::to_owned), agent.map(str::to_owned));
        let (Some(own), Some(all)) = (self.conversations.get(&whose), self.sessions.get(session))
        else {
            return;
        };
        let (everybody, itself) =
            (all.spent_between(BEGIN, at).0, own.spent.spent_between(BEGIN, at).0);
        facts.session_cost += NanoUsd(everybody.saturating_sub(itself));
        let agents = self.agents.get(session);
        let below = match (name.and_then(|name| self.below.get(name)), agent) {
            (Some(below), _) => below.spent_between(BEGIN, at),
            (None, None) => agents.map_or((0, 0), |agents| agents.spent_between(began, at)),
            (None, Some(_)) => (0, 0),
        };
        facts.cost += NanoUsd(below.0);
        facts.tokens = facts.tokens.saturating_add(below.1);
        let Some(above) = self.find_caller_use(own, session, agent, began, at) else { return };
        let (money, tokens) = limits;
        facts.session_cost_held += NanoUsd(above.held.0);
        let above = above.total();
        facts.cost_above = money.map(|limit| AccountAbove { used: NanoUsd(above.0), limit });
        facts.tokens_above = tokens.map(|limit| AccountAbove { used: above.1, limit });
    }

    /// Returns the use of the outermost caller of a run, the run's own use included.
    fn find_caller_use(
        &self,
        own: &ConversationSpending,
        session: &str,
        agent: Option<&str>,
        began: Moment,
        at: Moment,
    ) -> Option<CallerUse> {
        let Some(caller) = &own.caller else {
            // The calling run is not recorded: take the one that was open.
            let main = self.main_spending.get(session).filter(|_| agent.is_some())?;
            let open = main.starts.partition_point(|start| *start <= began);
            let since = *main.starts.get(open.checked_sub(1)?)?;
            let agents = self.agents.get(session)?.spent_between(since, at);
            let own = main.spent.spent_between(since, at);
            return Some(CallerUse { spent: [own, agents], held: main.held_at(at) });
        };
        let named =
            |name: &str| self.conversations.values().find(|own| own.name.as_deref() == Some(name));
        let (mut first, mut seen) = (named(caller)?, BTreeSet::new());
        while let Some(next) = first.caller.as_deref().filter(|name| seen.insert(*name)) {
            first = named(next)?;
        }
        let below = self.below.get(first.name.as_deref()?)?.spent_between(BEGIN, at);
        let own = first.spent.spent_between(BEGIN, at);
        Some(CallerUse { spent: [own, below], held: first.held_at(at) })
    }
}

impl ConversationSpending {
    /// Returns the amounts that the conversation holds back for its answer at `at`.
    fn held_at(&self, at: Moment) -> (u64, u64) {
        let index = self.holds.partition_point(|(then, _)| *then < at);
        let last = index.checked_sub(1).and_then(|last| self.holds.get(last));
        last.map_or((0, 0), |(_, (money, tokens))| (money.0, *tokens))
    }
}

/// The use of a run above: spent by itself and below it, and held back for its answer.
struct CallerUse {
    spent: [(u64, u64); 2],
    held: (u64, u64),
}

impl CallerUse {
    fn total(&self) -> (u64, u64) {
        let add = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        self.spent.into_iter().fold(self.held, add)
    }
}

/// Returns the spending of a run up to the turn after which the policy would have ended it.
fn spends_until_end(run: &RunReport) -> &[TurnSpend] {
    let spends = run.beside.spends.as_slice();
    let ended = run.what_if.as_ref().and_then(|judged| judged.ended_at_turn);
    let until = ended.and_then(|turn| usize::try_from(turn).ok()).unwrap_or(spends.len());
    spends.get(..until).unwrap_or(spends)
}

/// A run, and a moment of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunMoment<'a> {
    pub(super) source: &'a str,
    pub(super) session: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
    pub(super) began: Moment,
    pub(super) at: Moment,
    /// The limits of money and of tokens.
    pub(super) limits: (Option<NanoUsd>, Option<u64>),
}

fn conversation_key(run: &RunReport) -> ConversationKey {
    (run.source.clone(), run.beside.name.clone(), run.agent.clone())
}
