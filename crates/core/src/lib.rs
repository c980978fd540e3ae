//! The policy of agent runs, and the state it is applied to.
//!
//! A run's state is a fold over its transcript ([`Transcript`]): the same code serves a live
//! loop, a gateway that sees whole histories, and a replay of recorded sessions. What a
//! transcript cannot show (money, time) comes in as [`Facts`]; what is decided goes out as
//! values that carry their reason ([`Because`]).
//!
//! Nothing here reads a clock, a file or the network, knows a provider's words, spawns a thread
//! or draws a random number.
#![no_std]

extern crate alloc;

mod addition;
mod because;
mod context_watch;
mod digest;
mod event;
mod human;
pub mod identity;
mod ladder;
pub mod lease;
pub mod lines;
pub mod models;
mod money;
mod nearest;
mod outcome;
mod pinned;
pub mod policy;
mod prompt_cache;
mod rules;
mod run;
mod rung;
pub mod tables;
mod time;
mod transcript;
mod turn;
mod used;
mod waste;

pub use addition::{Addition, AdditionKind, LinePlace};
pub use because::{Because, Quantity, Reason};
pub use context_watch::ContextWatch;
pub use digest::Digest;
pub use event::{
    AccountAbove, BudgetShortage, Call, Facts, FinishedTurn, LineRoom, Stop, ToolResult,
    UserMessage, UserText, VisibleText,
};
pub use human::Arrival;
pub use ladder::{Ladder, LadderSettings, NextAction, RequestFailure, Tail};
pub use money::{NanoUsd, ParseMoneyError};
pub use nearest::{find_nearest, near_distance};
pub use outcome::{Outcome, Remaining, RunEnding};
pub use pinned::{CarriedUsage, FactDecision, PinnedRecord, PinnedRecords};
pub use prompt_cache::{
    CacheChange, CacheTurn, LEAST_REWRITE, LossCause, PromptCache, Rewrite, SpendClasses,
    TurnTokens,
};
pub use rules::cost::is_short_of_money;
pub use rules::trivial::looks_trivial;
pub use rules::{Evidence, Signal, SignalKind};
pub use run::{Admission, AdmittedCalls, Phase, RequestAllowance, Role, Run};
pub use rung::Rung;
pub use time::{Millis, ParseTimeError};
pub use transcript::{MessageEffects, MessagePosition, Transcript};
pub use turn::{TurnClass, classify_turn, is_known_answer_tool};
pub use used::RunUsage;
pub use waste::{RecordedLoop, unite_signals};
