//! What runs spend together. A sub-agent's money and tokens count in its caller's run, and all of a
//! session's money in its session (`run/purse.rs` of the agent, `lease.rs` of the core). Files are
//! read one beside the other, so that a first reading keeps what each turn came to and when, and a
//! second one is judged by it.

use std::collections::{BTreeMap, BTreeSet};

use softland_session::core::{Above, Facts, NanoUsd};

use crate::report::{Report, RunReport};

/// Place of a turn among those of others: its time, and within one time its line.
pub(super) type Moment = (u64, u64);

/// One turn, as far as others are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    pub(super) at: Moment,
    pub(super) cost: NanoUsd,
    pub(super) tokens: u64,
    /// Money and tokens that are held back for an answer behind it.
    pub(super) held: (NanoUsd, u64),
}

/// Whose run it is: its file, its name there, and its sub-agent.
type Whose = (String, Option<String>, Option<String>);

/// The runs of sessions of which several conversations are recorded.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    sessions: BTreeMap<String, Timeline>,
    conversations: BTreeMap<Whose, Own>,
    /// Of each session, what sub-agents spent whose caller's run is not named.
    agents: BTreeMap<String, Timeline>,
    /// Of each session, the conversation that is no sub-agent's.
    mains: BTreeMap<String, Own>,
    below: BTreeMap<String, Timeline>,
}

/// One conversation.
#[derive(Clone, Debug, Default)]
struct Own {
    spent: Timeline,
    /// When its runs began.
    starts: Vec<Moment>,
    /// What it holds back for its answer from then on.
    holds: Vec<(Moment, (NanoUsd, u64))>,
    name: Option<String>,
    caller: Option<String>,
}

/// Sums of money and tokens, in the order of time.
#[derive(Clone, Debug, Default)]
struct Timeline(Vec<(Moment, u64, u64)>);

impl Timeline {
    fn of(mut spends: Vec<Spend>) -> Self {
        spends.sort_by_key(|spend| spend.at);
        let mut sum = (0_u64, 0_u64);
        let add = |spend: Spend| {
            sum = (sum.0.saturating_add(spend.cost.0), sum.1.saturating_add(spend.tokens));
            (spend.at, sum.0, sum.1)
        };
        Self(spends.into_iter().map(add).collect())
    }

    /// What was spent before, since.
    fn between(&self, since: Moment, before: Moment) -> (u64, u64) {
        let until = |moment: Moment| {
            let index = self.0.partition_point(|(at, ..)| *at < moment);
            index.checked_sub(1).and_then(|last| self.0.get(last)).map_or((0, 0), |s| (s.1, s.2))
        };
        let (from, to) = (until(since), until(before));
        (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1))
    }
}

const BEGIN: Moment = (0, 0);

impl Trees {
    /// Of what a first reading found; `None` where no run shares anything with another.
    #[must_use]
    pub fn of(report: &Report) -> Option<Self> {
        let mut sessions: BTreeMap<&str, BTreeSet<Whose>> = BTreeMap::new();
        for run in &report.runs {
            sessions.entry(&run.session).or_default().insert(whose_run(run));
        }
        sessions.retain(|_, conversations| conversations.len() > 1);
        let shared = |run: &&RunReport| sessions.contains_key(run.session.as_str());
        let runs: Vec<&RunReport> = report.runs.iter().filter(shared).collect();
        if runs.is_empty() {
            return None;
        }
        let mut trees = Self::default();
        let mut of_session: BTreeMap<&str, Vec<Spend>> = BTreeMap::new();
        let mut of_agents: BTreeMap<&str, Vec<Spend>> = BTreeMap::new();
        let mut of_whom: BTreeMap<Whose, Vec<Spend>> = BTreeMap::new();
        let mut of_name: BTreeMap<&str, Vec<Spend>> = BTreeMap::new();
        let callers: BTreeMap<&str, &str> = runs
            .iter()
            .filter_map(|run| Some((run.beside.name.as_deref()?, run.beside.caller.as_deref()?)))
            .collect();
        for run in &runs {
            let spends = kept(run);
            of_session.entry(&run.session).or_default().extend(spends);
            of_whom.entry(whose_run(run)).or_default().extend(spends);
            let own = trees.conversations.entry(whose_run(run)).or_default();
            own.starts.extend(spends.first().map(|spend| spend.at));
            own.holds.extend(spends.iter().map(|spend| (spend.at, spend.held)));
            (own.name, own.caller) = (run.beside.name.clone(), run.beside.caller.clone());
            if run.agent.is_some() && run.beside.caller.is_none() {
                of_agents.entry(&run.session).or_default().extend(spends);
            }
            // Its callers, one above the other; a ring is none.
            let (mut caller, mut above) = (run.beside.caller.as_deref(), BTreeSet::new());
            while let Some(name) = caller.filter(|name| above.insert(*name)) {
                of_name.entry(name).or_default().extend(spends);
                caller = callers.get(name).copied();
            }
        }
        let lines = |spends: BTreeMap<&str, Vec<Spend>>| -> BTreeMap<String, Timeline> {
            let line = |(name, spends): (&str, _)| (name.to_owned(), Timeline::of(spends));
            spends.into_iter().map(line).collect()
        };
        (trees.sessions, trees.agents) = (lines(of_session), lines(of_agents));
        trees.below = lines(of_name);
        for (whose, spends) in of_whom {
            if let Some(own) = trees.conversations.get_mut(&whose) {
                own.spent = Timeline::of(spends);
                own.starts.sort_unstable();
                own.holds.sort_unstable();
            }
        }
        for run in runs.iter().filter(|run| run.agent.is_none()) {
            if let Some(own) = trees.conversations.get(&whose_run(run)) {
                trees.mains.insert(run.session.clone(), own.clone());
            }
        }
        Some(trees)
    }

    /// Adds to what a run has used itself what others of its tree and session have.
    pub(super) fn tell(&self, facts: &mut Facts, run: &Place<'_>) {
        let Place { source, session, name, agent, began, at, limits } = *run;
        let whose = (source.to_owned(), name.map(str::to_owned), agent.map(str::to_owned));
        let (Some(own), Some(all)) = (self.conversations.get(&whose), self.sessions.get(session))
        else {
            return;
        };
        let (everybody, itself) = (all.between(BEGIN, at).0, own.spent.between(BEGIN, at).0);
        facts.session_cost += NanoUsd(everybody.saturating_sub(itself));
        let agents = self.agents.get(session);
        let below = match (name.and_then(|name| self.below.get(name)), agent) {
            (Some(below), _) => below.between(BEGIN, at),
            (None, None) => agents.map_or((0, 0), |agents| agents.between(began, at)),
            (None, Some(_)) => (0, 0),
        };
        facts.cost += NanoUsd(below.0);
        facts.tokens = facts.tokens.saturating_add(below.1);
        let Some(above) = self.above(own, session, agent, began, at) else { return };
        let (money, tokens) = limits;
        facts.session_cost_held += NanoUsd(above.held.0);
        let above = above.all();
        facts.cost_above = money.map(|limit| Above { used: NanoUsd(above.0), limit });
        facts.tokens_above = tokens.map(|limit| Above { used: above.1, limit });
    }

    /// What the run has used that called it, in the end, its own use among it.
    fn above(
        &self,
        own: &Own,
        session: &str,
        agent: Option<&str>,
        began: Moment,
        at: Moment,
    ) -> Option<Use> {
        let Some(caller) = &own.caller else {
            // Nobody says which run called it: the one that was open.
            let main = self.mains.get(session).filter(|_| agent.is_some())?;
            let open = main.starts.partition_point(|start| *start <= began);
            let since = *main.starts.get(open.checked_sub(1)?)?;
            let agents = self.agents.get(session)?.between(since, at);
            let own = main.spent.between(since, at);
            return Some(Use { spent: [own, agents], held: main.held(at) });
        };
        let named =
            |name: &str| self.conversations.values().find(|own| own.name.as_deref() == Some(name));
        let (mut first, mut seen) = (named(caller)?, BTreeSet::new());
        while let Some(next) = first.caller.as_deref().filter(|name| seen.insert(*name)) {
            first = named(next)?;
        }
        let below = self.below.get(first.name.as_deref()?)?.between(BEGIN, at);
        let own = first.spent.between(BEGIN, at);
        Some(Use { spent: [own, below], held: first.held(at) })
    }
}

impl Own {
    /// What it holds back for its answer then.
    fn held(&self, at: Moment) -> (u64, u64) {
        let index = self.holds.partition_point(|(then, _)| *then < at);
        let last = index.checked_sub(1).and_then(|last| self.holds.get(last));
        last.map_or((0, 0), |(_, (money, tokens))| (money.0, *tokens))
    }
}

/// What a run above uses: spent by itself and below it, and held back for its answer.
struct Use {
    spent: [(u64, u64); 2],
    held: (u64, u64),
}

impl Use {
    fn all(&self) -> (u64, u64) {
        let add = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        self.spent.into_iter().fold(self.held, add)
    }
}

/// What a run spends until the policy would have ended it.
fn kept(run: &RunReport) -> &[Spend] {
    let spends = run.beside.spends.as_slice();
    let ended = run.what_if.as_ref().and_then(|judged| judged.ended_at_turn);
    let until = ended.and_then(|turn| usize::try_from(turn).ok()).unwrap_or(spends.len());
    spends.get(..until).unwrap_or(spends)
}

/// A run, and a moment of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) source: &'a str,
    pub(super) session: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
    pub(super) began: Moment,
    pub(super) at: Moment,
    /// Of money and of tokens.
    pub(super) limits: (Option<NanoUsd>, Option<u64>),
}

fn whose_run(run: &RunReport) -> Whose {
    (run.source.clone(), run.beside.name.clone(), run.agent.clone())
}
