//! OpenRouter's activity CSV: columns, order, chains.

use std::fmt::Write as _;

use super::common::{one, put, told, turns};

const HEADER: &str = "generation_id,created_at,cost_total,tokens_prompt,tokens_completion,tokens_cached,model_permaslug,cancelled,finish_reason_normalized,api_key_name,app_name";

fn row(second: u64, prompt: u64, completion: u64, more: &str) -> String {
    let (minute, second) = (second / 60, second % 60);
    format!(
        "g{minute}-{second},2026-01-01 00:{minute:02}:{second:02}.000,0.28,{prompt},{completion},0,m,{more},k,\"a, b\""
    )
}

#[test]
fn rows_are_chained_by_growing_prompts_whatever_their_order() {
    let rows = [
        row(1, 1000, 50, "false,stop"),
        row(2, 56065, 3, "false,stop"),
        row(3, 1100, 50, "false,tool_calls"),
        row(4, 56065, 3, "false,stop"),
        row(5, 500, 3, "true,stop"),
        row(6, 1200, 3, "false,tool_calls"),
    ];
    let forward = format!("{HEADER}\n{}\n", rows.join("\n"));
    let reversed: Vec<_> = rows.iter().rev().cloned().collect();
    let backward = format!("\u{feff}{HEADER}\r\n{}", reversed.join("\r\n"));
    let (kind, steps, unreadable) = one(&forward);
    assert_eq!((kind, unreadable.len()), (Some("openrouter-csv"), 0));
    assert_eq!(steps, one(&backward).1, "newest first");
    let of = |talk: &str| steps.iter().filter(|step| step.starts_with(talk)).count();
    assert_eq!([of("0"), of("1"), of("2")], [6, 5, 4], "begin, user, turns, end: {steps:#?}");
    let trivial: Vec<_> = steps.iter().filter(|step| step.ends_with("trivial")).collect();
    assert_eq!(trivial, ["0 turn chars=0 tokens=56065/3/0/0 $0.28 trivial"; 2]);
    assert_eq!(steps[0], "0 begin - inferred");
}

#[test]
fn a_long_file_that_is_newest_first_is_read_from_its_end() {
    let mut text = HEADER.to_owned() + "\n";
    for second in (0..3000_u64).rev() {
        let _ = writeln!(text, "{}", row(second, 1000 + second, 50, "false,stop"));
    }
    let (_, steps, unreadable) = one(&text);
    assert_eq!((turns(&steps), unreadable.len()), (3000, 0));
    assert_eq!(steps.len(), 3003, "one chain");
    // The same, compressed: it cannot be read from its end.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, text.as_bytes()).unwrap();
    assert_eq!(one(packed.finish().unwrap()).1, steps);
}

#[test]
fn columns_in_another_order_are_found_and_missing_ones_named() {
    let text = "app_name,tokens_completion,model_permaslug,tokens_prompt,extra\na,3,m,10,x\n";
    let (kind, steps, unreadable) = one(text);
    assert_eq!((kind, turns(&steps)), (Some("openrouter-csv"), 1));
    assert_eq!(
        unreadable,
        [
            "1: missing columns: created_at, cost_total, tokens_cached, cancelled, \
          finish_reason_normalized, api_key_name",
            "1: no `created_at`: the rows are taken for oldest first"
        ]
    );
    let text = HEADER.replace("tokens_prompt,", "") + "\n";
    assert_eq!(one(text).2, ["1: missing columns: tokens_prompt"]);
}

#[test]
fn a_cut_row_is_no_turn() {
    let cut = row(2, 10, 10, "false,stop");
    let text = format!("{HEADER}\n{}\n{}", row(1, 10, 10, "false,stop"), &cut[..43]);
    let (_, steps, unreadable) = one(text);
    assert_eq!(turns(&steps), 1);
    assert_eq!(unreadable, ["3: 7 fields in place of 11"]);
}

#[test]
fn a_generation_counts_once_in_however_many_exports_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<_> = (1..=9).map(|n| row(n, 1000 + n, 50, "false,stop")).collect();
    let export = |rows: &[String]| format!("{HEADER}\n{}\n", rows.join("\n"));
    put(folder.path(), "a.csv", export(&rows[..6]));
    put(folder.path(), "b.csv", export(&rows[2..]));
    let newest_first: Vec<_> = rows.iter().rev().cloned().collect();
    put(folder.path(), "c.csv", export(&newest_first));
    put(folder.path(), "d.csv", export(&[rows[0].clone(), rows[0].clone()]));
    // A new file has rows of its own beside the others'.
    put(folder.path(), "e.csv", export(&[rows[8].clone(), row(10, 1010, 50, "false,stop")]));
    let read = told(&[folder.path().to_owned()]);
    assert_eq!(read.unreadable, []);
    let counts: Vec<_> =
        read.sources.iter().map(|source| turns(&source.sink.as_ref().unwrap().0)).collect();
    assert_eq!(counts, [0, 0, 9, 0, 1]);
    // Rows without an id are never duplicates.
    let nameless = format!("{HEADER}\n{0}\n{0}\n", &rows[0].replace("g0-1", ""));
    assert_eq!(turns(&one(nameless).1), 2);
}

#[test]
fn values_that_cannot_be_right_are_listed_and_the_rest_is_read() {
    let bad = [
        ("1000,50", "many,50", Some("`tokens_prompt` is no count: many")),
        ("1000,50", "-7,50", Some("`tokens_prompt` is no count: -7")),
        ("1000,50", "1000,NaN", Some("`tokens_completion` is no count: NaN")),
        ("1000,50", "1000,1.5", Some("`tokens_completion` is no count: 1.5")),
        ("1000,50,0", "1000,50,-1", Some("`tokens_cached` is no count: -1: taken for 0")),
        ("0.28", "free", Some("`cost_total` is no amount: free: what it cost is not known")),
        ("0.28", "-0.28", Some("`cost_total` is no amount: -0.28: what it cost is not known")),
        ("0.28", "NaN", Some("`cost_total` is no amount: NaN: what it cost is not known")),
        ("0.28", "", None),
        ("2026-01-01 00:00:02.000", "noon", Some("`created_at` is no time: noon")),
    ];
    for (good, wrong, reason) in bad {
        let rows = [1, 2, 3].map(|n| row(n, 1000, 50, "false,stop"));
        let middle = rows[1].replacen(good, wrong, 1);
        assert_ne!(middle, rows[1]);
        let text = format!("{HEADER}\n{}\n{middle}\n{}\n", rows[0], rows[2]);
        let (_, steps, unreadable) = one(text);
        assert_eq!(unreadable, reason.map(|reason| format!("3: {reason}")).as_slice(), "{wrong}");
        let read = !wrong.contains("50") || wrong.contains("-1");
        let read = read && wrong != "1000,NaN" && wrong != "1000,1.5";
        assert_eq!(turns(&steps), 2 + usize::from(read), "{wrong}: {steps:?}");
        if good == "0.28" {
            let unknown = steps.iter().filter(|step| step.contains(" turn") && !step.contains('$'));
            assert_eq!(unknown.count(), 1, "{steps:?}");
        }
    }
}
