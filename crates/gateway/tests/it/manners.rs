//! Clients that treat their history as real ones do, and a model that never tires of calling tools:
//! the calls that are run for one human message never exceed its limit. And honest neighbours, each
//! of which has a count of its own.
//!
//! `SOFTLAND_CASES` sets the number of clients that are drawn, `SOFTLAND_SEED` draws one of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

mod client;
mod model;
mod neighbours;

use std::panic::{AssertUnwindSafe, catch_unwind};

use client::{Manner, Session};
use model::{Model, Temper};

/// Clients where nobody says how many.
const CASES: u64 = 60;

#[test]
fn the_calls_of_one_human_message_never_exceed_its_limit() {
    let read = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let only: Option<u64> = read("SOFTLAND_SEED");
    let cases = read("SOFTLAND_CASES").unwrap_or(CASES);
    let failed: Vec<String> = only
        .map_or(0..cases, |seed| seed..seed + 1)
        .filter_map(|seed| {
            let manner = Manner::drawn(seed);
            let outcome = catch_unwind(AssertUnwindSafe(|| run(&manner)));
            let why = outcome.err()?;
            let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
            Some(format!("seed {seed}: {why}\n{manner:?}"))
        })
        .collect();
    let shown: Vec<_> = failed.iter().take(5).cloned().collect();
    assert!(failed.is_empty(), "{} of {cases}:\n{}", failed.len(), shown.join("\n"));
}

fn run(manner: &Manner) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let temper = Temper { ids: manner.ids, most: manner.batch, answers_after: None };
        let model = Model::new(temper).await;
        let (gateway, time) = model.governed(manner.limit).await;
        let mut session = Session::new(manner, "Look at the notes and say what is in them.");
        let first = session.lands(&gateway, &time).await;
        assert!(first <= manner.limit, "{first} calls of {}", manner.limit);
        assert!(first > 0, "no call was made");
        // A chat that has landed goes on.
        time.passes(5000);
        session.asks("And what follows from that?");
        let second = session.lands(&gateway, &time).await;
        assert!(second <= manner.limit, "{second} calls of {} for the second", manner.limit);
        assert!(second > 0, "the chat does not go on");
    });
}
