use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A tool whose behaviour is in its name.
struct Probe {
    name: &'static str,
    runs: Arc<AtomicUsize>,
}

fn probe(name: &'static str) -> Probe {
    Probe { name, runs: Arc::default() }
}

#[async_trait]
impl Tool for Probe {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: self.name.to_owned(),
            description: "test".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
                "required": ["text"],
                "additionalProperties": false
            }),
            reads: true,
            repeatable: true,
        }
    }

    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput {
        self.runs.fetch_add(1, Ordering::SeqCst);
        match self.name {
            "echo" => ToolOutput::ok(input.to_string()),
            "panics" => panic!("secret sauce"),
            "floods" => ToolOutput::ok("é".repeat(200_000)),
            "waits" => {
                cx.cancel.cancelled().await;
                ToolOutput::ok("noticed")
            }
            _ => {
                std::future::pending::<()>().await;
                ToolOutput::ok("never")
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        (self.name == "hangs").then_some(Duration::from_millis(1500))
    }
}

fn set() -> ToolSet {
    ["echo", "panics", "floods", "waits", "hangs"]
        .into_iter()
        .fold(ToolSet::new(), |set, name| set.with_tool(probe(name)).unwrap())
}

fn call(name: &str, input_raw: &str) -> ToolCall {
    ToolCall { id: "t1".to_owned(), name: name.to_owned(), input_raw: input_raw.to_owned() }
}

async fn run(name: &str, input_raw: &str) -> ToolOutput {
    set().run_call(&call(name, input_raw), &CancellationToken::new()).await
}

#[tokio::test]
async fn a_call_that_fits_runs_and_nulls_are_left_out() {
    let output = run("echo", r#"{"text":"x","times":null}"#).await;
    assert_eq!(output, ToolOutput::ok(r#"{"text":"x"}"#));
}

#[tokio::test]
async fn b24_an_unknown_tool_is_named_with_those_there_are() {
    let wanted = "unknown tool `ehco`; the tools are: echo, panics, floods, waits, hangs";
    assert_eq!(run("ehco", "{}").await, ToolOutput::error(wanted));
    let empty = ToolSet::new().run_call(&call("x", "{}"), &CancellationToken::new()).await;
    assert_eq!(empty, ToolOutput::error("unknown tool `x`: there are no tools"));
}

#[tokio::test]
async fn b26_arguments_that_do_not_fit_are_told_and_the_tool_is_not_run() {
    let tool = probe("echo");
    let runs = Arc::clone(&tool.runs);
    let set = ToolSet::new().with_tool(tool).unwrap();
    let signature = r#"Send {"text": string, "times"?: integer}."#;
    for (input, wanted) in [
        ("", "its arguments are not valid JSON"),
        (r#"{"text": "x"#, "its arguments are not valid JSON"),
        (r#"{"text": "x"} {}"#, "its arguments are not valid JSON"),
        ("[1]", "its arguments must be a JSON object, got an array"),
        ("{}", "`text` is missing"),
        (r#"{"text": null}"#, "`text` must be a string, got null"),
        (r#"{"text": 5}"#, "`text` must be a string, got 5"),
        (r#"{"text": "x", "times": "2"}"#, "`times` must be an integer, got the string \"2\""),
        (r#"{"text": "x", "times": 0}"#, "`times` must be an integer of at least 1, got 0"),
        (r#"{"text": "x", "path": "y"}"#, "`path` is not an argument"),
    ] {
        let output = set.run_call(&call("echo", input), &CancellationToken::new()).await;
        assert!(output.is_error, "{input}");
        assert!(output.content.starts_with("echo was not run: "), "{}", output.content);
        assert!(output.content.contains(wanted), "{input}: {}", output.content);
        assert!(output.content.ends_with(signature), "{input}: {}", output.content);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_tool_that_panics_is_an_error_result() {
    let output = run("panics", r#"{"text":""}"#).await;
    let wanted = "panics failed with an internal error (panic: secret sauce)";
    assert_eq!(output, ToolOutput::error(wanted));
}

#[tokio::test(start_paused = true)]
async fn b18_a_tool_that_hangs_becomes_an_error_result_after_its_own_time() {
    let begun = tokio::time::Instant::now();
    let output = run("hangs", r#"{"text":""}"#).await;
    assert_eq!(output, ToolOutput::error("hangs timed out after 1500 ms; ask for less at once"));
    assert_eq!(begun.elapsed().as_millis(), 1500);
    let output = run("waits", r#"{"text":""}"#).await;
    assert_eq!(output, ToolOutput::error("waits timed out after 30 s; ask for less at once"));
}

#[tokio::test]
async fn b28_cancellation_ends_a_running_tool_and_refuses_a_later_one() {
    let (set, cancel) = (set(), CancellationToken::new());
    let call = call("hangs", r#"{"text":""}"#);
    let running = set.run_call(&call, &cancel);
    let (output, ()) = tokio::join!(running, async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(output, ToolOutput::error("hangs: cancelled"));
    let output = set.run_call(&call, &cancel).await;
    assert_eq!(output, ToolOutput::error("hangs: cancelled before it ran"));
}

#[tokio::test]
async fn a_dropped_call_ends_its_tool() {
    struct Notices(Arc<tokio::sync::Notify>);
    struct OnDrop(Arc<tokio::sync::Notify>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    #[async_trait]
    impl Tool for Notices {
        fn def(&self) -> ToolDef {
            ToolDef { name: "n".into(), ..probe("n").def() }
        }
        async fn call(&self, _: Value, _: &ToolContext) -> ToolOutput {
            let _ended = OnDrop(Arc::clone(&self.0));
            std::future::pending().await
        }
    }
    let ended = Arc::new(tokio::sync::Notify::new());
    let set = ToolSet::new().with_tool(Notices(Arc::clone(&ended))).unwrap();
    let (call, cancel) = (call("n", r#"{"text":""}"#), CancellationToken::new());
    tokio::select! {
        _ = set.run_call(&call, &cancel) => panic!("it never ends"),
        () = async { for _ in 0..10 { tokio::task::yield_now().await; } } => {}
    }
    ended.notified().await;
}

#[tokio::test]
async fn output_beyond_the_cap_is_cut_in_the_middle_and_says_how_much() {
    let output = run("floods", r#"{"text":""}"#).await;
    assert!(!output.is_error);
    assert!(output.content.len() <= DEFAULT_OUTPUT_CAP);
    assert!(output.content.len() > DEFAULT_OUTPUT_CAP - 200);
    let kept = output.content.matches('é').count();
    let marker = format!("[… {} characters left out;", 200_000 - kept);
    assert!(output.content.contains(&marker));
}

#[test]
fn names_are_unique_and_valid() {
    let set = ToolSet::new().with_tool(probe("echo")).unwrap();
    let error = set.with_tool(probe("echo")).unwrap_err();
    assert_eq!(error.to_string(), "two tools are named `echo`; names must be unique");
    for name in [
        "",
        "a b",
        "é",
        "a.b",
        "x123456789012345678901234567890123456789012345678901234567890abcdef",
    ] {
        let error = ToolSet::new().with_tool(probe(name)).unwrap_err();
        assert!(matches!(error, ToolSetError::InvalidName { .. }), "{name}");
    }
}

proptest! {
    #[test]
    fn cutting_keeps_to_the_cap_and_counts_right(text in ".{0,400}", cap in 0_usize..500) {
        let cut = cut_middle(&text, cap);
        if text.len() <= cap {
            prop_assert_eq!(cut, text);
            return Ok(());
        }
        let marker_at = cut.find("\n[… ").unwrap();
        let (head, rest) = cut.split_at(marker_at);
        let end = rest.find("]\n").unwrap() + 2;
        let (marker, tail) = rest.split_at(end);
        let count: usize = marker.split(' ').nth(1).unwrap().parse().unwrap();
        prop_assert!(cut.len() <= cap.max(marker.len()));
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        let kept = head.chars().count() + tail.chars().count();
        prop_assert_eq!(kept + count, text.chars().count());
    }

    #[test]
    fn no_arguments_make_a_set_panic(name in "[a-z]{0,6}", input in ".{0,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let set = ToolSet::new().with_tool(probe("echo")).unwrap();
        let output = runtime.block_on(set.run_call(&call(&name, &input), &CancellationToken::new()));
        prop_assert!(!output.content.is_empty());
    }
}
