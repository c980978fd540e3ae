//! Finds a conversation (`docs/governing.md` §7) by the first rule that applies, from the content
//! of its history to the names that it has.
//!
//! The rules read only the [`RecallQuery`] and what is stored, so that any store can apply them where
//! the data is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use softland_session::core::Digest;

use crate::learned::ModelLessons;
use crate::store::{
    FoundConversation, Namesake, RunState, Store, StoreChanges, StoreError, StoredScope,
};

/// The time after its last request for which a conversation is found by a name that others may
/// share.
const RECENT_MS: u64 = 30 * 60 * 1000;

/// Heads of a conversation's results and answers by which a request is about it. Together they have
/// some 200 characters.
pub const QUOTED_HEADS: usize = 4;

/// Everything by which the conversation of a request may be found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecallQuery {
    /// The request's history.
    pub here: Digest,
    /// The request's history, apart from the same history of other keys.
    pub question: Digest,
    /// The time, in milliseconds since 1970.
    pub now: u64,
    /// The model that it asks.
    pub model: Arc<str>,
    /// True if the request is only metered.
    pub metered: bool,
    /// The name of the conversation, should it be a fork.
    pub fork: Arc<str>,
    /// The names of the conversation that a sub-agent works for, the first that is known wins.
    pub parents: Vec<Digest>,
    /// The clues of the history's turns, oldest first.
    pub turns: Vec<Digest>,
    /// The clues of its calls, with the number of each one's turn, the best first.
    pub calls: Vec<(Digest, usize)>,
    /// The clues of calls that it names and does not show.
    pub unshown: Vec<Digest>,
    /// The clues of compacted contexts that it shows, the newest first.
    pub sealed: Vec<Digest>,
    /// The clues of summaries that it may open with.
    pub summaries: Vec<Digest>,
    /// The clues of calls that its history tells of in texts, the newest first.
    pub told: Vec<Digest>,
    /// For a metered request: the clues of passages that it contains.
    pub passages: Vec<Digest>,
    /// For a metered request: the clues of heads of texts that it contains, each once.
    pub heads: Vec<Digest>,
    /// The clue of the names that the request carries.
    pub name: Digest,
    /// True if it names its session.
    pub is_named: bool,
    /// True if its client gives each of its conversations a name.
    pub is_client: bool,
    /// True if its user names its run.
    pub is_run: bool,
    /// Names that others may share.
    pub shared: Vec<Digest>,
    /// The digest of its tools' names.
    pub tools: Digest,
    /// The digest of its system prompt.
    pub system: Digest,
    /// True if its history opens with a known summary.
    pub opens_in_summary: bool,
    /// True if its history ends in a known summary.
    pub ends_in_summary: bool,
    /// The histories before each of its turns, and the whole one.
    pub openings: Vec<Digest>,
    /// The messages that may be a person's, with the number of turns before each.
    pub asked: Vec<(usize, Digest)>,
}

/// The stored state that concerns a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// The conversation that a sub-agent works for.
    pub parent: Option<(Arc<str>, Arc<StoredScope>)>,
    /// The request's own conversation.
    pub found: Option<Recollection>,
    /// The lessons about its model.
    pub lessons: ModelLessons,
    /// The runs of these conversations that were cancelled, each with the history in which it was.
    pub cancelled: Vec<(Arc<str>, Option<Digest>)>,
}

impl Recalled {
    /// Returns true if a run with this name is among those that were recalled.
    #[must_use]
    pub fn names_run(&self, run: &str) -> bool {
        let parent = self.parent.as_ref().map(|(_, kept)| kept);
        let scopes = self.found.as_ref().map(|found| &found.kept).into_iter().chain(parent);
        let mut runs = scopes.flat_map(|kept| kept.runs.values());
        let then = self.found.as_ref().and_then(|found| found.by.turn());
        runs.any(|state| *state.id == *run) || then.is_some_and(|turn| *turn.then.id == *run)
    }
}

/// A conversation that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recollection {
    /// Its name.
    pub scope: Arc<str>,
    /// Its stored state.
    pub kept: Arc<StoredScope>,
    /// The rule that found it.
    pub by: FoundBy,
}

/// The rule that found a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundBy {
    /// Its last turn was answered at the same position.
    Content(FoundTurn),
    /// The newest known of its calls is at this index of the query.
    Calls {
        /// The turn.
        turn: FoundTurn,
        /// The index in [`RecallQuery::calls`].
        index: usize,
        /// The number of turns before that call's that are known.
        known: usize,
    },
    /// An older turn is at this index from the newest, which is not counted.
    Prefix {
        /// The turn.
        turn: FoundTurn,
        /// The index.
        index: usize,
    },
    /// A summary stands for everything up to its newest turn.
    Compacted,
    /// A summary at this index of the query.
    Summary(usize),
    /// One of its names; the flag is true if the history contains everything that it began with.
    Name(bool),
    /// Its beginning is asked again.
    Again,
    /// The content of a metered request is about it, or, if the flag is false, only its name.
    Beside(bool),
}

impl FoundBy {
    /// Returns the turn from which the history continues, if the rule names one.
    #[must_use]
    pub fn turn(&self) -> Option<&FoundTurn> {
        match self {
            Self::Content(turn) | Self::Calls { turn, .. } | Self::Prefix { turn, .. } => {
                Some(turn)
            }
            Self::Compacted | Self::Summary(_) | Self::Name(_) | Self::Again | Self::Beside(_) => {
                None
            }
        }
    }
}

/// A turn from which a history continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundTurn {
    /// The run.
    pub run: Digest,
    /// The state of the run at that turn.
    pub then: Arc<RunState>,
    /// True if the history is a fork.
    pub fork: bool,
}

/// Applies the rules to a store, one look-up after the other. Lessons and cancellations are not its.
///
/// # Errors
/// Returns the store's error.
pub async fn recall_from(store: &dyn Store, query: RecallQuery) -> Result<Recalled, StoreError> {
    let search = RecallSearch { store, query: &query };
    let parent = search.find_parent().await?;
    let found = search.find_conversation().await?;
    Ok(Recalled { parent, found, ..Recalled::default() })
}

struct RecallSearch<'a> {
    store: &'a dyn Store,
    query: &'a RecallQuery,
}

impl RecallSearch<'_> {
    /// Finds the conversation of a sub-agent's parent: the session's own agent.
    async fn find_parent(&self) -> Result<Option<(Arc<str>, Arc<StoredScope>)>, StoreError> {
        for name in &self.query.parents {
            if let Some(face) = self.store.find_named(*name).await?.pop() {
                let kept = self.store.load_scope(&face.scope).await?;
                return Ok(Some((face.scope, kept)));
            }
        }
        Ok(None)
    }

    /// Finds the conversation. A request that is only metered belongs to the conversation that its
    /// content is about, or to the newest of its name, if any.
    async fn find_conversation(&self) -> Result<Option<Recollection>, StoreError> {
        if let Some(found) = self.by_content().await? {
            return Ok(Some(found));
        }
        if self.query.metered {
            return self.find_beside().await;
        }
        if let Some(found) = self.by_calls().await? {
            return Ok(Some(found));
        }
        for clues in [&self.query.unshown, &self.query.sealed] {
            if let Some(found) = self.find_clue(clues).await? {
                return Ok(Some(self.load(found.scope, FoundBy::Compacted).await?));
            }
        }
        if let Some(found) = self.find_clue(&self.query.summaries).await? {
            return Ok(Some(self.load(found.scope, FoundBy::Summary(found.clue)).await?));
        }
        if let Some(found) = self.find_clue(&self.query.told).await? {
            return Ok(Some(self.load(found.scope, FoundBy::Compacted).await?));
        }
        if let Some(found) = self.by_name().await? {
            return Ok(Some(found));
        }
        if let Some(found) = self.by_prefix().await? {
            return Ok(Some(found));
        }
        self.by_repeated_question().await
    }

    /// Finds a conversation whose last turn was answered at the same position.
    async fn by_content(&self) -> Result<Option<Recollection>, StoreError> {
        let Some(clue) = self.query.turns.last() else { return Ok(None) };
        let Some(found) = self.find_clue(&[*clue]).await? else { return Ok(None) };
        if self.query.ends_in_summary {
            // Everything behind that turn has gone into the summary.
            return Ok(Some(self.load(found.scope, FoundBy::Compacted).await?));
        }
        Ok(Some(self.continue_from(found, FoundBy::Content).await?))
    }

    /// Finds a conversation by its newest calls, whatever stands before them.
    async fn by_calls(&self) -> Result<Option<Recollection>, StoreError> {
        let clues: Vec<Digest> = self.query.calls.iter().map(|(clue, _)| *clue).collect();
        let Some(found) = self.find_clue(&clues).await? else { return Ok(None) };
        let index = found.clue;
        let turn = self.query.calls.get(index).map_or(0, |(_, turn)| *turn);
        let before = self.query.turns.get(..turn).unwrap_or_default();
        let known = self.store.count_known(before).await?;
        Ok(Some(self.continue_from(found, |turn| FoundBy::Calls { turn, index, known }).await?))
    }

    /// Finds the only conversation of one of its names that may have become this history.
    async fn by_name(&self) -> Result<Option<Recollection>, StoreError> {
        let query = self.query;
        let faces = self.find_namesakes().await?;
        // A question that was never answered is asked again, and so is the beginning of a run that
        // the user named.
        let again =
            |face: &&Namesake| face.opening == query.here && (query.is_run || !face.answered);
        if let Some(face) = faces.iter().rev().find(again) {
            return Ok(Some(self.load(Arc::clone(&face.scope), FoundBy::Again).await?));
        }
        let own = faces.into_iter().filter(|face| query.is_client || self.may_have_become(face));
        let mut face = self.single_match(own);
        for name in &query.shared {
            if face.is_none() {
                let faces = self.store.find_named(*name).await?;
                face =
                    self.single_match(faces.into_iter().filter(|face| self.may_have_become(face)));
            }
        }
        let Some(face) = face else { return Ok(None) };
        // If the opening is the whole history, the conversation begins anew.
        let by = match query.here == face.opening {
            true => FoundBy::Again,
            false => FoundBy::Name(self.is_whole(&face)),
        };
        Ok(Some(self.load(face.scope, by).await?))
    }

    /// Finds a conversation from which the history departs after a turn. What stands behind that
    /// turn comes from elsewhere.
    async fn by_prefix(&self) -> Result<Option<Recollection>, StoreError> {
        let clues: Vec<Digest> = self.query.turns.iter().rev().skip(1).copied().collect();
        let Some(found) = self.find_clue(&clues).await? else { return Ok(None) };
        let index = found.clue;
        Ok(Some(self.continue_from(found, |turn| FoundBy::Prefix { turn, index }).await?))
    }

    /// Finds a first request that brought no turn and is repeated: without a name, only its content
    /// identifies it.
    async fn by_repeated_question(&self) -> Result<Option<Recollection>, StoreError> {
        if self.query.is_named || !self.query.turns.is_empty() {
            return Ok(None);
        }
        match self.store.take_unanswered(self.query.question).await? {
            Some(scope) => Ok(Some(self.load(scope, FoundBy::Again).await?)),
            None => Ok(None),
        }
    }

    async fn find_beside(&self) -> Result<Option<Recollection>, StoreError> {
        let calls: Vec<Digest> = self.query.calls.iter().map(|(clue, _)| *clue).collect();
        for clues in [&calls, &self.query.passages] {
            if let Some(found) = self.find_clue(clues).await? {
                return Ok(Some(self.load(found.scope, FoundBy::Beside(true)).await?));
            }
        }
        if let Some(scope) = self.store.find_quoted(&self.query.heads, QUOTED_HEADS).await? {
            return Ok(Some(self.load(scope, FoundBy::Beside(true)).await?));
        }
        match self.find_namesakes().await?.pop() {
            Some(face) => Ok(Some(self.load(face.scope, FoundBy::Beside(false)).await?)),
            None => Ok(None),
        }
    }

    /// Continues the conversation that was found, or begins a fork of it.
    async fn continue_from(
        &self,
        found: FoundConversation,
        by: impl FnOnce(FoundTurn) -> FoundBy,
    ) -> Result<Recollection, StoreError> {
        let FoundConversation { mut scope, fork, then, run, .. } = found;
        if fork {
            let kept = self.store.load_scope(&scope).await?;
            scope = Arc::clone(&self.query.fork);
            self.store_fork(&scope, &kept).await?;
        }
        self.load(scope, by(FoundTurn { run, then, fork })).await
    }

    async fn store_fork(&self, scope: &Arc<str>, kept: &StoredScope) -> Result<(), StoreError> {
        let names = self.query.is_named.then_some(self.query.name).into_iter();
        let face = kept.face.clone().map(|face| Namesake { scope: Arc::clone(scope), ..face });
        let changes = StoreChanges {
            pins: kept.pins.clone(),
            tails: kept.tails.clone().into_iter().collect(),
            results: kept.results.clone().into_iter().collect(),
            asked: kept.asked.clone(),
            named: face.map(|face| (names.collect(), face)),
            cache: Some(kept.cache),
            ..StoreChanges::default()
        };
        self.store.apply_changes(scope, changes).await
    }

    /// Returns the newest of these, if they are one conversation and its forks, of the same
    /// program.
    fn single_match(&self, faces: impl Iterator<Item = Namesake>) -> Option<Namesake> {
        let same = |face: &Namesake| {
            face.answered && face.tools == self.query.tools && face.system == self.query.system
        };
        let mut newest: Option<Namesake> = None;
        for face in faces.filter(same) {
            if newest.as_ref().is_some_and(|other| other.root != face.root) {
                return None;
            }
            newest = Some(face);
        }
        newest
    }

    /// Returns true if the history contains everything that a conversation began with.
    fn is_whole(&self, face: &Namesake) -> bool {
        self.query.openings.contains(&face.opening)
    }

    /// Returns true if a conversation with a shared name may have become this history: it is
    /// recent, and the history opens with a summary, or with a question that a person asked at its
    /// beginning and then continues in a new way.
    fn may_have_become(&self, face: &Namesake) -> bool {
        let recent = self.query.now.saturating_sub(face.last) <= RECENT_MS;
        recent && (self.query.opens_in_summary || self.continues_from(face))
    }

    fn continues_from(&self, face: &Namesake) -> bool {
        let mut asked = self.query.asked.iter();
        let Some(first) = asked.find(|(_, ask)| Some(*ask) == face.asked) else { return false };
        asked.next().is_some() || self.query.turns.len() > first.0
    }

    async fn find_namesakes(&self) -> Result<Vec<Namesake>, StoreError> {
        match self.query.is_named {
            true => self.store.find_named(self.query.name).await,
            false => Ok(Vec::new()),
        }
    }

    async fn find_clue(&self, clues: &[Digest]) -> Result<Option<FoundConversation>, StoreError> {
        self.store.find_conversation(clues, self.query.here).await
    }

    async fn load(&self, scope: Arc<str>, by: FoundBy) -> Result<Recollection, StoreError> {
        let kept = self.store.load_scope(&scope).await?;
        Ok(Recollection { scope, kept, by })
    }
}
