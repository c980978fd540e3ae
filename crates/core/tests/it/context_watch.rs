//! The detectors of what is in the context, each beside its honest neighbours.

use softland_core::{
    CacheChange, CacheTurn, Call, ContextWatch, Digest, FinishedTurn, PromptCache, Signal,
    SignalKind, Stop, ToolResult, TurnTokens, VisibleText,
};

/// A conversation under way.
#[derive(Default)]
struct Watched {
    watch: ContextWatch,
    cache: PromptCache,
    minute: u64,
    calls: u64,
    seen: Vec<Signal>,
}

impl Watched {
    fn new() -> Self {
        let mut new = Self::default();
        new.watch.begin_run();
        new
    }

    /// A turn with calls (`name`, `input`), whose results have `chars` characters of `text`.
    fn calls(&mut self, calls: &[(&str, &str, u64, &str)]) -> &mut Self {
        self.turn(None, calls)
    }

    /// A turn of this context, of which `read` tokens were read.
    fn context(&mut self, context: u64, read: u64) -> &mut Self {
        self.turn(Some((context, read)), &[])
    }

    fn turn(&mut self, usage: Option<(u64, u64)>, calls: &[(&str, &str, u64, &str)]) -> &mut Self {
        self.minute += 1;
        let ids: Vec<String> = calls.iter().map(|_| self.next_id()).collect();
        let listed = ids.iter().zip(calls).map(|(id, (name, input, ..))| Call {
            id,
            name,
            input,
            server: false,
        });
        let turn = FinishedTurn {
            text: VisibleText::default(),
            calls: listed.collect(),
            cut_call: false,
            hidden: false,
            gives: true,
            stop: Stop::Natural,
            output_tokens: None,
        };
        let effect = usage.map(|(context, read)| self.spend(context, read));
        let context = usage.map_or(0, |(context, _)| context);
        self.seen.extend(self.watch.take_turn(&turn, effect.as_ref(), context));
        let results: Vec<_> = ids
            .iter()
            .zip(calls)
            .map(|(id, (_, _, chars, text))| ToolResult {
                id: id.as_str().into(),
                digest: Digest::from_bytes(text.as_bytes()),
                chars: *chars,
                failed: false,
                sent_back: false,
                unfinished: false,
                cleared: false,
                lined: false,
                remarked: false,
                room: softland_core::LineRoom::Text,
            })
            .collect();
        self.seen.extend(self.watch.take_results(&results));
        self
    }

    fn next_id(&mut self) -> String {
        self.calls += 1;
        format!("c{}", self.calls)
    }

    fn spend(&mut self, context: u64, read: u64) -> CacheChange {
        let tokens = TurnTokens {
            cache_read: read,
            cache_write_5m: context - read,
            ..TurnTokens::default()
        };
        let time = Some(self.minute * 60_000);
        self.cache.take_turn(CacheTurn { tokens, model: None, time })
    }

    fn kinds(&self) -> Vec<SignalKind> {
        self.seen.iter().map(|signal| signal.signal).collect()
    }
}

const READ: (&str, &str, u64, &str) = ("Read", "{\"file_path\":\"a.rs\"}", 4000, "fn a() {}");

#[test]
fn a_file_that_is_read_again_unchanged_is_seen() {
    let mut run = Watched::new();
    run.calls(&[READ]).calls(&[("Grep", "{}", 4000, "x")]).calls(&[READ]);
    assert_eq!(run.kinds(), [SignalKind::Reread]);
    let evidence = &run.seen[0].evidence;
    assert_eq!((evidence.turns.as_slice(), evidence.tokens), (&[1, 3][..], Some(1000)));
    assert_eq!(evidence.call.as_deref(), Some("Read {\"file_path\":\"a.rs\"}"));
    run.watch.begin_run();
    run.calls(&[READ]);
    let later = &run.seen[1].evidence;
    assert_eq!(later.turns, [1]);
    assert_eq!(later.text.as_deref(), Some("first read in an earlier run"));
}

#[test]
fn b68_reading_what_changed_or_is_gone_or_small_is_no_waste() {
    let changed = (READ.0, READ.1, READ.2, "fn a() { 1 }");
    let part = (READ.0, "{\"file_path\":\"a.rs\",\"offset\":100}", READ.2, "fn a() {}");
    let small = (READ.0, "{\"file_path\":\"b.rs\"}", 400, "mod a;");
    let search = ("Grep", "{\"pattern\":\"a\"}", 4000, "a.rs:1");
    let mut run = Watched::new();
    run.calls(&[READ]).calls(&[changed]).calls(&[READ]).calls(&[part]);
    run.calls(&[small]).calls(&[small]).calls(&[search]).calls(&[search]);
    assert_eq!(run.kinds(), []);
    let mut compacted = Watched::new();
    compacted.turn(Some((100_000, 0)), &[READ]);
    compacted.turn(Some((20_000, 15_000)), &[READ]);
    assert_eq!(compacted.kinds(), [], "the context no longer held it");
}

#[test]
fn b71_a_large_result_is_seen_once_it_has_stayed() {
    let large = ("mcp__db__query", "{\"q\":1}", 40_004, "rows");
    let exact = ("mcp__db__query", "{\"q\":2}", 40_000, "more rows");
    let mut run = Watched::new();
    run.calls(&[large, exact]);
    for _ in 0..9 {
        run.calls(&[]);
    }
    assert_eq!(run.kinds(), []);
    run.calls(&[]).calls(&[]);
    assert_eq!(run.kinds(), [SignalKind::Oversized]);
    let evidence = &run.seen[0].evidence;
    assert_eq!((evidence.turns.first(), evidence.tokens), (Some(&1), Some(10_001)));
    let mut compacted = Watched::new();
    compacted.turn(Some((100_000, 0)), &[large]);
    for turn in 0..20 {
        compacted.context(20_000 + turn, 20_000);
    }
    assert_eq!(compacted.kinds(), []);
}

#[test]
fn b69_more_than_twenty_sub_agents_of_one_run_are_a_flood() {
    let agents = [("Task", "{}", 10, "done"); 10];
    let mut run = Watched::new();
    run.calls(&agents).calls(&agents).calls(&[("TaskCreate", "{}", 1, "")]);
    assert_eq!(run.kinds(), [], "twenty are none, and a list of tasks is no agent");
    run.watch.begin_run();
    run.calls(&agents);
    assert_eq!(run.kinds(), [], "another run counts anew");
    run.calls(&agents).calls(&[("Task", "{}", 10, "done")]);
    assert_eq!(run.kinds(), [SignalKind::Flood]);
    assert_eq!(run.seen[0].evidence.turns, [1, 2, 3]);
}

#[test]
fn b70_a_cache_that_is_broken_three_times_in_a_run_is_seen() {
    let mut run = Watched::new();
    run.context(50_000, 0).context(51_000, 10_000).context(52_000, 51_000);
    run.context(53_000, 10_000).context(54_000, 53_000);
    assert_eq!(run.kinds(), [], "twice");
    run.context(55_000, 10_000);
    assert_eq!(run.kinds(), [SignalKind::Edited]);
    assert_eq!(run.seen[0].evidence.turns, [2, 4, 6]);
    let mut idle = Watched::new();
    for _ in 0..4 {
        idle.minute += 10;
        idle.context(50_000, 0);
    }
    assert_eq!(idle.kinds(), [], "pauses are the user's");
}

#[test]
fn b72_compactions_that_follow_each_other_are_a_loop() {
    let mut run = Watched::new();
    for _ in 0..3 {
        run.context(100_000, 0).context(30_000, 20_000);
        run.context(60_000, 30_000).context(70_000, 60_000);
    }
    assert_eq!(run.kinds(), [SignalKind::Compaction]);
    assert_eq!(run.seen[0].evidence.turns, [2, 6, 10]);
    let mut far = Watched::new();
    for read in [0, 90_000, 90_000, 90_000] {
        far.context(100_000, read).context(30_000, 20_000);
        for turn in 1..=4 {
            far.context(30_000 + 15_000 * turn, 30_000 + 15_000 * (turn - 1));
        }
    }
    assert_eq!(far.kinds(), [], "each context was used");
}

#[test]
fn a_context_that_is_full_again_at_once_is_a_loop() {
    let mut run = Watched::new();
    let fill = |run: &mut Watched| {
        run.context(100_000, 0).context(30_000, 20_000).context(90_000, 30_000);
        for turn in 1..=12 {
            run.context(90_000 + turn * 100, 90_000);
        }
    };
    fill(&mut run);
    assert_eq!(run.kinds(), [], "once");
    fill(&mut run);
    assert_eq!(run.kinds(), [SignalKind::Compaction]);
}
