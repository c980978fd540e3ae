//! The tables are in order, complete and sourced; the functions find what they hold.

use super::results::{CLEARED, EXIT_MARKS, UNFINISHED, VOLATILE_FIELDS, VOLATILE_LINES};
use super::shell::{GIT_READERS, POLLERS, READ_OPENINGS, READERS, WRITERS};
use super::texts::{
    COMMON_NUDGES, COMPACTION, HARNESS_OPENINGS, HARNESS_TAGS, NUDGES, PERSONS, RETRIES,
    RETRY_ENDS, WHOLE_NUDGES,
};
use super::tools::{
    AGENT_TOOLS, ANSWER_TOOLS, BY_ARGUMENT, ELSE_WRITES, FILE_READERS, PRESENTATION,
    PRESENTATION_BUT_IN_WRITES, TOOLS,
};
use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

extern crate std;

fn folded_string(name: &str) -> String {
    fold_name(name).map(char::from).collect()
}

#[test]
fn every_row_has_a_source_and_no_row_is_there_twice() {
    let tables: &[(&str, &[TableWord])] = &[
        ("volatile fields", VOLATILE_FIELDS),
        ("volatile lines", VOLATILE_LINES),
        ("cleared", CLEARED),
        ("exit marks", EXIT_MARKS),
        ("unfinished", UNFINISHED),
        ("readers", READERS),
        ("git", GIT_READERS),
        ("read openings", READ_OPENINGS),
        ("writers", WRITERS),
        ("pollers", POLLERS),
        ("tags", HARNESS_TAGS),
        ("openings", HARNESS_OPENINGS),
        ("compaction", COMPACTION),
        ("nudges", NUDGES),
        ("whole nudges", WHOLE_NUDGES),
        ("common nudges", COMMON_NUDGES),
        ("persons", PERSONS),
        ("retries", RETRIES),
        ("retry ends", RETRY_ENDS),
        ("answer tools", ANSWER_TOOLS),
        ("presentation", PRESENTATION),
        ("presentation but in writes", PRESENTATION_BUT_IN_WRITES),
        ("else writes", ELSE_WRITES),
        ("file readers", FILE_READERS),
        ("agent tools", AGENT_TOOLS),
    ];
    for (name, table) in tables {
        assert!(!table.is_empty(), "{name}");
        for (at, row) in table.iter().enumerate() {
            assert!(row.source.len() >= 2, "{name}: no source for {}", row.word);
            assert!(
                table.iter().skip(at + 1).all(|later| later.word != row.word),
                "{name}: {} twice",
                row.word
            );
        }
    }
    for row in TOOLS {
        assert!(!row.source.is_empty(), "no source for {}", row.name);
    }
    assert!(BY_ARGUMENT.iter().all(|row| !row.4.is_empty()));
}

#[test]
fn searched_tables_are_sorted_and_folded() {
    let folded_tables = [
        VOLATILE_FIELDS,
        ANSWER_TOOLS,
        PRESENTATION,
        PRESENTATION_BUT_IN_WRITES,
        ELSE_WRITES,
        FILE_READERS,
        AGENT_TOOLS,
    ];
    for table in folded_tables {
        assert!(table.is_sorted_by(|a, b| a.word < b.word), "{table:?}");
        for row in table {
            assert_eq!(row.word, folded_string(row.word));
            assert!(row.word.len() <= LONGEST);
        }
    }
    for table in [READERS, GIT_READERS, WRITERS] {
        assert!(table.is_sorted_by(|a, b| a.word < b.word), "{table:?}");
    }
    let names: Vec<_> = TOOLS.iter().map(|row| row.name).collect();
    assert!(names.iter().chain(BY_ARGUMENT.iter().map(|row| &row.0)).all(|n| n.len() <= LONGEST));
    for pair in names.windows(2) {
        assert!(pair[0] < pair[1], "{} before {}", pair[0], pair[1]);
    }
    assert!(names.iter().all(|name| *name == folded_string(name)));
    // Every row with an argument of its own can be reached by its name.
    for row in BY_ARGUMENT {
        assert_eq!(row.0, folded_string(row.0));
    }
}

#[test]
fn tools_are_known_however_their_names_are_written() {
    use ToolKind::{Polls, Reads, Shell, Writes};
    let cases = [
        ("Read", Some(Reads)),
        ("read_file", Some(Reads)),
        ("ReadFile", Some(Reads)),
        ("mcp__filesystem__read_text_file", Some(Reads)),
        ("functions.list_dir", Some(Reads)),
        ("LS", Some(Reads)),
        ("WebSearch", Some(Reads)),
        ("MultiEdit", Some(Writes)),
        ("apply_patch", Some(Writes)),
        ("write_to_file", Some(Writes)),
        ("BashOutput", Some(Polls)),
        ("TaskOutput", Some(Polls)),
        ("get_deployment_status", Some(Polls)),
        ("check_build_status", Some(Polls)),
        ("wait_for_job", Some(Polls)),
        ("waitress", None),
        ("Bash", Some(Shell)),
        ("exec_command", Some(Shell)),
        ("get_reservation_details", None),
        ("update_status", None),
        ("status", None),
        ("", None),
        ("__", None),
    ];
    for (name, kind) in cases {
        assert_eq!(kind_of_tool(name), kind, "{name}");
    }
    assert_eq!(bare_name("mcp__linear-server__create_issue"), "create_issue");
    assert_eq!(bare_name("mcp__x"), "x");
}

#[test]
fn arguments_tell_where_the_name_does_not() {
    use ToolKind::{Polls, Reads, Shell, Writes};
    let call = |tool, key: &'static str, value: &'static str| {
        kind_of_call(tool, move |wanted: &str| (wanted == key).then_some(value))
    };
    assert_eq!(call("write_stdin", "chars", ""), Some(Polls));
    assert_eq!(call("write_stdin", "chars", "y\n"), Some(Writes));
    assert_eq!(call("str_replace_based_edit_tool", "command", "view"), Some(Reads));
    assert_eq!(call("str_replace_based_edit_tool", "command", "create"), Some(Writes));
    assert_eq!(call("Bash", "command", "ls -la"), Some(Reads));
    assert_eq!(call("Bash", "command", "sleep 30"), Some(Polls));
    assert_eq!(call("exec_command", "cmd", "git commit -m x"), Some(Writes));
    assert_eq!(call("Bash", "command", "cargo test"), Some(Shell));
    assert_eq!(call("Bash", "other", "ls"), Some(Shell));
    assert_eq!(call("execute_bash", "command", ""), Some(Polls));
    assert_eq!(call("Read", "file_path", "x"), Some(Reads));
    assert_eq!(call("book_flight", "id", "x"), None);
}

#[test]
fn answer_tools_and_presentation_arguments() {
    for tool in
        ["respond", "final_result", "attempt_completion", "StructuredOutput", "submit", "finish"]
    {
        assert!(is_answer_tool(tool), "{tool}");
    }
    assert!(!is_answer_tool("finish_task_report"));
    assert!(is_presentation_argument("Bash", "description"));
    assert!(is_presentation_argument("anything", "toolSummary"));
    assert!(is_presentation_argument("exec_command", "yield_time_ms"));
    assert!(!is_presentation_argument("create_issue", "description"));
    assert!(!is_presentation_argument("TaskCreate", "description"));
    assert!(!is_presentation_argument("Read", "offset"));
    assert!(!is_presentation_argument("Grep", "pattern"));
}

#[test]
fn command_lines() {
    use ToolKind::{Polls, Reads, Writes};
    let cases = [
        ("ls -la", Some(Reads)),
        ("cat a.txt | grep -n 'x; rm y' | head -5", Some(Reads)),
        ("cd src && git status --short", Some(Reads)),
        ("git -C repo --no-pager log --oneline -5", Some(Reads)),
        ("git branch -a", Some(Reads)),
        ("git branch new", None),
        ("git commit -m \"a; b\"", Some(Writes)),
        ("sed -n '1,20p' f", Some(Reads)),
        ("sed -i 's/a/b/' f", Some(Writes)),
        ("find . -name '*.rs'", Some(Reads)),
        ("find . -name '*.o' -delete", None),
        ("grep -r foo . 2>/dev/null", Some(Reads)),
        ("ls foo 2>&1", Some(Reads)),
        ("ls &> /dev/null", Some(Reads)),
        ("echo hi > f", Some(Writes)),
        ("echo 'a > b'", Some(Reads)),
        ("echo a >> f; ls", Some(Writes)),
        ("cat <<EOF > f", None),
        ("echo $(rm x)", None),
        ("awk '{print $1}' f", Some(Reads)),
        ("awk '{print > \"x\"}' f", None),
        ("sleep 30", Some(Polls)),
        ("sleep 5 && gh run view 12", Some(Polls)),
        ("sleep 5; cargo test", None),
        ("tail -f x", Some(Polls)),
        ("tail -n 20 build.log", Some(Polls)),
        ("tail -n 20 notes.md", Some(Reads)),
        ("wait", Some(Polls)),
        ("waitress", None),
        ("A=1 B=2 ls", Some(Reads)),
        ("time ls", Some(Reads)),
        ("env FOO=1 make", None),
        ("env", Some(Reads)),
        ("/usr/bin/ls", Some(Reads)),
        ("bash -lc 'ls -la && pwd'", Some(Reads)),
        ("python -c 'print(1)'", None),
        ("rm -rf build", Some(Writes)),
        ("ls; rm x; foo", Some(Writes)),
        ("sort -o f f", Some(Writes)),
        ("sort -uo f f", Some(Writes)),
        ("sed -ni 's/a/b/' f", Some(Writes)),
        ("sed -n '/x/w out' f", None),
        ("uniq a b", Some(Writes)),
        ("uniq -c a", Some(Reads)),
        ("date -s 10:00", None),
        ("gh pr view 12 --json body", Some(Reads)),
        ("git for-each-ref refs/heads", Some(Reads)),
        ("# list the files\nls", Some(Reads)),
        ("# don't\nrm x", None),
        ("kubectl get pods", Some(Polls)),
        ("(cd x && ls)", Some(Reads)),
        ("echo \"it's\" && ls", Some(Reads)),
        ("", None),
        ("   ", None),
        ("'", None),
    ];
    for (command, kind) in cases {
        assert_eq!(shell_kind(command), kind, "{command}");
    }
    assert_eq!(shell_kind(&"ls ".repeat(5000)), None);
}

#[test]
fn exit_codes() {
    let cases = [
        ("Exit code 1\n[lint] failed", Some(true)),
        ("Exit code 128", Some(true)),
        ("<returncode>1</returncode>\n<output>x</output>", Some(true)),
        ("<returncode>0</returncode>\n<output>x</output>", Some(false)),
        ("a\nb\nexit status 2", Some(true)),
        (
            "Chunk ID: ac4088\nWall time: 0.9 seconds\nProcess exited with code 0\nOutput:\nx",
            Some(false),
        ),
        (
            "Chunk ID: ac4088\nWall time: 0.9 seconds\nProcess exited with code 101\nOutput:\nx",
            Some(true),
        ),
        ("out\n[The command completed with exit code 1.]", Some(true)),
        ("out\n<exited with exit code 0>", Some(false)),
        ("Command: x\nOutput: y\nExit Code: 3\nSignal: (none)", Some(true)),
        ("[exit code: -1]", Some(true)),
        ("{\"output\":\"x\",\"metadata\":{\"exit_code\":1}}", Some(true)),
        ("{\"output\":\"x\",\"metadata\":{\"exit_code\":0,\"duration_seconds\":0.1}}", Some(false)),
        ("the exit code 1 means trouble", None),
        ("Exit code 1 means trouble", None),
        ("exit status of the process", None),
        ("", None),
        ("all good", None),
        ("Exit code 99999999999999999999999", None),
    ];
    for (text, failed) in cases {
        assert_eq!(exit_failed(text), failed, "{text}");
    }
    // Only the ends are looked at: a long log that quotes a code in its middle is silent.
    let log = ["line\n".repeat(50), "exit status 2\n".into(), "line\n".repeat(50)].concat();
    assert_eq!(exit_failed(&log), None);
    // No panic on characters at the cut.
    assert_eq!(exit_failed(&"é".repeat(400)), None);
    assert_eq!(exit_failed(&["{", &"é".repeat(400), "}"].concat()), None);
}

#[test]
fn cleared_volatile_and_unfinished() {
    assert!(is_cleared("[Old tool result content cleared]"));
    assert!(is_cleared(" [tool result cleared]\n"));
    assert!(!is_cleared("a file that says [Old tool result content cleared]"));
    for row in CLEARED {
        for space in ["", " ", "\n", "\\n", "\\u0020"] {
            assert!(may_be_cleared(&[space, row.word].concat()), "{}", row.word);
        }
    }
    for text in ["{\"error\":1}", "fn main() {}", "1\tuse", "\"quoted\""] {
        assert!(!may_be_cleared(text), "{text}");
    }
    assert!(is_volatile_field("request_id"));
    assert!(is_volatile_field("durationMs"));
    assert!(!is_volatile_field("total"));
    assert!(is_volatile_line("Wall time: 0.1 seconds"));
    assert!(!is_volatile_line("Output:"));
    for row in VOLATILE_LINES {
        for before in ["", " ", "found\n", "found\\n", "found\\n\\t", "found\n  ", "a\\u000a"] {
            let text = [before, row.word, "1"].concat();
            assert!(may_hold_volatile_line(&text), "{text}");
        }
    }
    for text in ["", "found", "a Wall time: 1", "fn main() {}\n\nfn now() {}", "x\\ny\\n"] {
        assert!(!may_hold_volatile_line(text), "{text}");
    }
    assert!(is_unfinished("<status>running</status>"));
    assert!(is_unfinished("Process running with session ID 12"));
    assert!(!is_unfinished("done"));
    assert!(!is_unfinished(&["x".repeat(5000).as_str(), "still running"].concat()));
    for row in UNFINISHED {
        let (word, upper) = (row.word, row.word.to_uppercase());
        for text in [word, &upper, &["ab", word, "c"].concat(), &["ssss\n", &upper].concat()] {
            assert!(is_unfinished(text) && may_be_unfinished(text), "{text}");
            let escaped = text.replace('"', "\\\"").replace('s', "\\u0073");
            assert!(may_be_unfinished(&escaped), "{escaped}");
        }
        assert!(!is_unfinished(&word[..word.len() - 1]), "{word}");
    }
    for text in ["{\"error\":1}", "fn main() {}", "1\tuse", "\"quoted\"", "|u0"] {
        assert!(!may_be_unfinished(text), "{text}");
    }
}

#[test]
fn harness_texts_are_told_from_human_ones() {
    let only = [
        "<system-reminder>\nToday is x.\n</system-reminder>",
        " <local-command-stdout>a</local-command-stdout>\n<system-reminder>b</system-reminder> ",
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>\n<command-args></command-args>",
        "<environment_context>\n  <cwd>/tmp</cwd>\n</environment_context>",
        "<permissions instructions>\nx\n</permissions instructions>",
        "<task-notification id=\"1\">x</task-notification>",
        "[Request interrupted by user for tool use]",
        "<system-reminder>a </b> c</system-reminder>",
    ];
    for text in only {
        assert_eq!(classify_machine_text(text), Some(MachineTextKind::Harness), "{text}");
    }
    let human = [
        "",
        " \n",
        "Write the marker file.",
        "<system-reminder>x</system-reminder> and now do it",
        "do it <system-reminder>x</system-reminder>",
        "<system-reminder>never closed",
        "<user_query>fix it</user_query>",
        "<system-reminders>x</system-reminders>",
        "<b>bold</b>",
        "<",
    ];
    for text in human {
        assert_eq!(classify_machine_text(text), None, "{text}");
    }
}

#[test]
fn summaries_nudges_and_retries() {
    let cases = [
        (
            "This session is being continued from a previous conversation that ran out of context.",
            MachineTextKind::Compaction,
        ),
        (
            "Another language model started to solve this problem and produced a summary of its",
            MachineTextKind::Compaction,
        ),
        ("What did we do so far?", MachineTextKind::Compaction),
        (
            "[Your previous response had no visible output. Please continue and produce a user-visible response.]",
            MachineTextKind::Nudge,
        ),
        (
            "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.",
            MachineTextKind::Nudge,
        ),
        ("Please continue.", MachineTextKind::Nudge),
        (
            "Validation feedback:\nPlease return text or include your response in a tool call.\n\nFix the errors and try again.",
            MachineTextKind::Nudge,
        ),
        (
            "1 validation error:\n```json\n[]\n```\n\nFix the errors and try again.",
            MachineTextKind::ValidationRetry,
        ),
        ("Validation feedback:\nThe city is unknown.", MachineTextKind::ValidationRetry),
    ];
    for (text, kind) in cases {
        assert_eq!(classify_machine_text(text), Some(kind), "{text}");
    }
    assert_eq!(classify_machine_text("Please continue with the second chapter."), None);
}

proptest! {
    /// Nothing that is put before a plain write hides it, unless it opens a quote.
    #[test]
    fn a_write_is_seen_wherever_it_stands(before in "[a-z |&;-]{0,30}") {
        let line = [before.as_str(), "\nrm x"].concat();
        prop_assert_eq!(shell_kind(&line), Some(ToolKind::Writes));
    }

    /// Unknown programs never become readers.
    #[test]
    fn unknown_programs_stay_unknown(name in "[a-z]{3,8}", rest in "[a-z ./]{0,20}") {
        prop_assume!(kind_of_program(&name).is_none());
        let line = [name.as_str(), " -x ", &rest].concat();
        prop_assert_eq!(shell_kind(&line), None);
    }

    /// Any text at all is looked at without a panic, and tags are closed by their own.
    #[test]
    fn any_text_is_looked_at(text in "\\PC{0,200}") {
        let _ = (exit_failed(&text), shell_kind(&text), is_unfinished(&text), kind_of_tool(&text));
        let tagged = ["<system-reminder>", &text, "</system-reminder>"].concat();
        prop_assert!(text.contains('<') || is_harness_only(&tagged));
        let beside = [tagged.as_str(), " words"].concat();
        prop_assert!(text.contains('<') || !is_harness_only(&beside));
    }
}

fn kind_of_program(name: &str) -> Option<()> {
    let words = [READERS, WRITERS, POLLERS, READ_OPENINGS];
    let first = |row: &TableWord| row.word.split(' ').next() == Some(name);
    let wrapper = matches!(name, "time" | "command" | "nohup" | "nice");
    (wrapper || words.iter().any(|table| table.iter().any(first))).then_some(())
}

/// The user texts of recorded clients are told apart: the ones a harness wrote, and the
/// prompts a human typed.
#[test]
#[ignore = "reads recordings from ../shared"]
fn recorded_clients() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/clients");
    let folders = std::fs::read_dir(root).unwrap();
    let (mut typed, mut notifications) = (0, 0);
    for folder in folders.flatten() {
        let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        for file in files {
            let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
            // The recordings shorten long texts, so whole ones are looked for by content.
            for prompt in ["write the marker", "Write the marker file, then say done."] {
                if text.contains(prompt) {
                    assert_eq!(classify_machine_text(prompt), None);
                    typed += 1;
                }
            }
            let Some((_, rest)) = text.split_once("\"<subagent_notification>") else { continue };
            let Some((inner, _)) = rest.split_once("</subagent_notification>") else { continue };
            let whole = ["<subagent_notification>", inner, "</subagent_notification>"].concat();
            assert_eq!(classify_machine_text(&whole), Some(MachineTextKind::Harness));
            notifications += 1;
        }
    }
    assert!(typed > 10 && notifications > 0, "{typed} typed, {notifications} notifications");
}

#[test]
fn every_exit_mark_is_seen_at_a_glance() {
    for row in EXIT_MARKS {
        assert!(may_tell_exit(row.word), "{}", row.word);
        assert!(may_tell_exit(&row.word.to_uppercase()), "{}", row.word);
    }
    for key in ["\"exit_code\"", "\"exitCode\"", "\"returncode\""] {
        assert!(may_tell_exit(key), "{key}");
    }
    assert!(!may_tell_exit("next, text, function, exi"));
}
