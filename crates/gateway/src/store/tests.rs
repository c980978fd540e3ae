use super::*;

fn digest(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

fn turn(before: &str) -> Answered {
    Answered { before: digest(before), calls: None }
}

fn state(id: &str, tokens: u64) -> RunState {
    RunState { id: id.to_owned(), tokens, ..RunState::default() }
}

#[tokio::test]
async fn a_turn_finds_its_conversation_and_a_second_child_is_a_fork() {
    let store = MemoryStore::default();
    let changes = Changes {
        run: Some((digest("run"), state("r1", 5))),
        turn: Some(turn("a")),
        ..Changes::default()
    };
    store.keep("s", changes).await.unwrap();
    let (one, other) = (digest("one"), digest("other"));
    let found = store.find(&[turn("x"), turn("a")], one).await.unwrap().unwrap();
    assert_eq!((found.scope.as_str(), found.fork, found.then.tokens), ("s", false, 5));
    assert!(!store.find(&[turn("a")], one).await.unwrap().unwrap().fork, "a retry is no fork");
    assert!(store.find(&[turn("a")], other).await.unwrap().unwrap().fork);
    assert_eq!(store.find(&[turn("x")], one).await.unwrap(), None);
}

#[tokio::test]
async fn tokens_add_up_and_the_rest_is_replaced() {
    let store = MemoryStore::default();
    for tokens in [5, 7] {
        let run = Some((digest("run"), state("r1", tokens)));
        store.keep("s", Changes { run, ..Changes::default() }).await.unwrap();
    }
    let scope = store.recall("s").await.unwrap();
    assert_eq!(scope.runs[&digest("run")].tokens, 12);
    assert_eq!(*store.recall("t").await.unwrap(), Scope::default());
}

#[tokio::test]
async fn a_conversation_is_bounded() {
    let store = MemoryStore::default();
    for n in 0..1000_u64 {
        let run = RunState { last: n, ..state("r", 1) };
        let key = digest(&n.to_string());
        let seen = Seen { digest: key, chars: 1 };
        let results = (0..10).map(|m| (digest(&format!("{n}.{m}")), seen)).collect();
        let changes = Changes { run: Some((key, run)), results, ..Changes::default() };
        store.keep("s", changes).await.unwrap();
    }
    let scope = store.recall("s").await.unwrap();
    assert!(scope.runs.len() <= 64 && scope.results.len() <= 4096);
    assert!(scope.runs.contains_key(&digest("999")), "the newest stay");
}

#[test]
fn idle_gaps_do_not_count_against_time() {
    let mut run = RunState { begun: 0, last: 1000, active: 500, ..RunState::default() };
    assert_eq!(run.active_at(3000), 2500);
    run.touch(3000);
    assert_eq!((run.active, run.last), (2500, 3000));
    assert_eq!(run.active_at(3000 + IDLE_MS + 1), 2500);
}
