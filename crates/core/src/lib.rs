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
mod rules;
mod run;
mod rung;
pub mod tables;
mod time;
mod transcript;
mod turn;
mod used;

pub use addition::{Addition, AdditionKind, Place};
pub use because::{Because, Limit, Reason};
pub use digest::Digest;
pub use event::{Above, Call, Facts, Finished, Stop, Text, ToolResult, User, UserText};
pub use human::Arrival;
pub use ladder::{Failure, Ladder, Next, Setting, Tail};
pub use money::{NanoUsd, NoMoney};
pub use nearest::{near, nearest};
pub use outcome::{Ended, Outcome, Remaining};
pub use pinned::{Carried, Decided, Pinned, Records};
pub use rules::cost::is_short_of_money;
pub use rules::trivial::looks as looks_trivial;
pub use rules::{Evidence, Signal, SignalKind};
pub use run::{Admission, Admitted, Advice, Phase, Role, Run};
pub use rung::Rung;
pub use time::{Millis, NoTime};
pub use transcript::{Here, Step, Transcript};
pub use turn::{Class, classify, known_answer_tool};
pub use used::Used;
