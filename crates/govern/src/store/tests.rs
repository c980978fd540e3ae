use softland_session::core::{CarriedUsage, PinnedRecord};

use super::*;

fn digest(text: &str) -> Digest {
    Digest::from_bytes(text.as_bytes())
}

fn state(id: &str, tokens: u64) -> RunState {
    RunState { id: id.into(), tokens, ..RunState::default() }
}

#[tokio::test]
async fn a_turn_finds_its_conversation_and_a_second_child_is_a_fork() {
    let store = MemoryStore::default();
    let changes = StoreChanges {
        run: Some((digest("run"), state("r1", 5))),
        clues: vec![digest("a")],
        ..StoreChanges::default()
    };
    store.apply_changes("s", changes).await.unwrap();
    let (one, other) = (digest("one"), digest("other"));
    let found = store.find_conversation(&[digest("x"), digest("a")], one).await.unwrap().unwrap();
    assert_eq!((&*found.scope, found.fork, found.then.tokens), ("s", false, 5));
    assert_eq!(found.clue, 1);
    assert!(
        !store.find_conversation(&[digest("a")], one).await.unwrap().unwrap().fork,
        "a retry is no fork"
    );
    assert!(store.find_conversation(&[digest("a")], other).await.unwrap().unwrap().fork);
    assert_eq!(store.find_conversation(&[digest("x")], one).await.unwrap(), None);
    assert_eq!(store.count_known(&[digest("a"), digest("x"), digest("a")]).await.unwrap(), 1);
}

#[tokio::test]
async fn tokens_add_up_and_the_rest_is_replaced() {
    let store = MemoryStore::default();
    for tokens in [5, 7] {
        let run = Some((digest("run"), state("r1", tokens)));
        store.apply_changes("s", StoreChanges { run, ..StoreChanges::default() }).await.unwrap();
    }
    let scope = store.load_scope("s").await.unwrap();
    assert_eq!(scope.runs[&digest("run")].tokens, 12);
    assert_eq!(*store.load_scope("t").await.unwrap(), StoredScope::default());
}

#[tokio::test]
async fn a_conversation_is_bounded() {
    let store = MemoryStore::default();
    for n in 0..1000_u64 {
        let run = RunState { last: n, ..state("r", 1) };
        let key = digest(&n.to_string());
        let seen = SeenResult {
            digest: key,
            chars: 1,
            failed: false,
            sent_back: false,
            unfinished: false,
        };
        let results = (0..10).map(|m| (digest(&format!("{n}.{m}")), seen)).collect();
        let changes = StoreChanges { run: Some((key, run)), results, ..StoreChanges::default() };
        store.apply_changes("s", changes).await.unwrap();
    }
    let scope = store.load_scope("s").await.unwrap();
    assert!(scope.runs.len() <= 64 && scope.results.len() <= 4096);
    assert!(scope.runs.contains_key(&digest("999")), "the newest stay");
}

#[test]
fn idle_gaps_do_not_count_against_time() {
    let mut run = RunState { begun: 0, last: 1000, active: 500, ..RunState::default() };
    assert_eq!(run.active_at(3000), 2500);
    run.continue_at(3000);
    assert_eq!((run.active, run.last), (2500, 3000));
    assert_eq!(run.active_at(3000 + IDLE_MS + 1), 2500);
}

fn pinned(decided: usize) -> Box<PinnedRecord> {
    use softland_session::core::{Because, FactDecision, Quantity, Reason, policy::Policy};
    let because = Because::new(Reason::Turns, Quantity::Count(1), Quantity::Count(1));
    let decided = (0..decided as u64)
        .map(|round| FactDecision { round, lands: false, because: because.clone() })
        .collect();
    Box::new(PinnedRecord {
        decided,
        ..PinnedRecord::new(Policy::built_in("coding").expect("one of ours"))
    })
}

fn face(n: u64) -> Namesake {
    let [tools, system, opening] = ["tools", "system", "opening"].map(digest);
    Namesake {
        scope: "s".into(),
        root: "s".into(),
        tools,
        system,
        opening,
        asked: None,
        answered: true,
        last: n,
    }
}

#[tokio::test]
async fn those_who_go_by_a_name_are_told_in_order_and_bounded() {
    let store = MemoryStore::default();
    for n in (0..100).chain([3]) {
        let scope: Arc<str> = format!("s{n}").into();
        let named = Some((vec![digest("name")], Namesake { scope: Arc::clone(&scope), ..face(n) }));
        store
            .apply_changes(&scope, StoreChanges { named, ..StoreChanges::default() })
            .await
            .unwrap();
    }
    let faces = store.find_named(digest("name")).await.unwrap();
    assert!(faces.len() <= 32, "{}", faces.len());
    let newest: Vec<&str> = faces.iter().rev().take(3).map(|face| &*face.scope).collect();
    assert_eq!(newest, ["s3", "s99", "s98"]);
    assert!(store.find_named(digest("another")).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_was_kept_comes_back_as_it_was() {
    let store = MemoryStore::default();
    let mut expected = StoredScope::default();
    for n in [7_u64, 3, 9, 3, 1] {
        let key = digest(&n.to_string());
        let tail = StoredTail {
            shown: "kt".into(),
            messages: format!("{{{n}}}"),
            before: digest("b"),
            own: None,
        };
        let seen = SeenResult {
            digest: digest("seen"),
            chars: n,
            failed: true,
            sent_back: false,
            unfinished: false,
        };
        let mut by_tool = BTreeMap::new();
        by_tool.insert(format!("tool {n}"), n);
        let used = RunUsage { calls: n, by_tool, ..RunUsage::default() };
        let carried = vec![CarriedUsage { place: key, used: used.clone() }];
        let pin = PinnedRecord { looked: Some(n), carried, ..*pinned(2) };
        let pin = Box::new(pin);
        let known = CountedContext { context: key, tokens: n, shown: [n, 2, 3] };
        let state = RunState {
            id: format!("run {n}").into(),
            account: format!("account {n}").into(),
            cost: NanoUsd(n),
            ended: n == 9,
            begun: n,
            last: n + 1,
            active: n + 2,
            tool_refusals: n + 3,
            vain: Some((key, n)),
            known: Some(known),
            key,
            used,
            row: 3,
            ..state("", n)
        };
        let changes = StoreChanges {
            pins: [(key, pin.clone())].into(),
            tails: vec![(key, tail.clone())],
            results: vec![(key, seen)],
            run: Some((key, RunState { id: state.id.clone(), ..state.clone() })),
            child_tokens: Some((key, 100)),
            asked: vec![key],
            named: Some((vec![digest("name")], face(n))),
            clues: Vec::new(),
            past_clues: None,
            untaken: None,
            cache: None,
        };
        let before = expected.runs.get(&key).map(|run| (run.tokens + 100, run.cost));
        let (tokens, cost) = before.unwrap_or_default();
        let state = RunState { tokens: tokens + n, cost: cost + NanoUsd(n), ..state };
        expected.pins.insert(key, pin);
        expected.tails.insert(key, tail);
        expected.results.entry(key).or_insert(seen);
        expected.runs.insert(key, Arc::new(state));
        expected.newest = Some(key);
        expected.asked.retain(|asked| *asked != key);
        expected.asked.push(key);
        expected.face = Some(face(n));
        store.apply_changes("s", changes).await.unwrap();
        assert_eq!(*store.load_scope("s").await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_record_that_looked_less_far_does_not_win() {
    let store = MemoryStore::default();
    let key = digest("run");
    for looked in [Some(4), Some(2), None] {
        let pins = [(key, Box::new(PinnedRecord { looked, ..*pinned(0) }))].into();
        store.apply_changes("s", StoreChanges { pins, ..StoreChanges::default() }).await.unwrap();
    }
    assert_eq!(store.load_scope("s").await.unwrap().pins[&key].looked, Some(4));
}

/// Returns the changes of a request of an unnamed conversation.
fn changes(n: u64, turn_of: u64) -> StoreChanges {
    let key = digest(&format!("run {n}"));
    let account = format!("run:conv-{n}:{key:?}").into();
    let pins = [(key, pinned(0))].into();
    let state = RunState { account, last: turn_of, ..state(&format!("run_{n:020}"), 1) };
    StoreChanges {
        pins,
        run: Some((key, state)),
        clues: ["turn", "call"].map(|clue| digest(&format!("{clue} {n}.{turn_of}"))).into(),
        ..StoreChanges::default()
    }
}

#[tokio::test]
async fn many_conversations_are_bounded_and_the_newest_stay() {
    let store = MemoryStore::default();
    for n in 0..10_000 {
        for turn in 0..4 {
            store.apply_changes(&format!("conv-{n}"), changes(n, turn)).await.unwrap();
        }
    }
    let (scopes, clues, bytes) = store.sizes();
    assert!((3600..=4096).contains(&scopes), "{scopes}");
    assert!((50_000..=56_000).contains(&clues), "{clues}");
    assert!(bytes / scopes < 1200, "{} bytes a conversation", bytes / scopes);
    assert!(store.load_scope("conv-9999").await.unwrap().newest.is_some());
    assert_eq!(*store.load_scope("conv-1").await.unwrap(), StoredScope::default());
    let found =
        store.find_conversation(&[digest("turn 9999.3")], digest("x")).await.unwrap().unwrap();
    assert_eq!((&*found.scope, found.then.tokens), ("conv-9999", 4));
}

#[tokio::test]
async fn large_conversations_are_bounded_by_their_bytes() {
    let store = MemoryStore::default();
    let large = "x".repeat(1 << 20);
    for n in 0..100 {
        let tail = StoredTail {
            shown: String::new(),
            messages: large.clone(),
            before: digest("b"),
            own: None,
        };
        let changes = StoreChanges { tails: vec![(digest("t"), tail)], ..changes(n, 0) };
        store.apply_changes(&format!("conv-{n}"), changes).await.unwrap();
        assert!(store.sizes().2 <= (32 << 20), "{n}");
    }
    assert!(store.sizes().0 >= 28, "not more is forgotten than has to be");
    assert!(!store.load_scope("conv-99").await.unwrap().tails.is_empty());
}
