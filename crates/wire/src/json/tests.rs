use super::*;

/// Reads `json` as a single string.
fn string(json: &str) -> Str<'_> {
    Cursor::new(json).read_string().unwrap().0
}

#[test]
fn strings_mean_what_they_say() {
    for (json, meaning) in [
        (r#""""#, ""),
        (r#""plain""#, "plain"),
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u0041\u00e9\u6771""#, "Aé東"),
        (r#""\ud83d\ude00 and 😀""#, "😀 and 😀"),
        (r#""lone \ud83d.""#, "lone \u{fffd}."),
        (r#""two high \ud83d\ud83d""#, "two high \u{fffd}\u{fffd}"),
        (r#""low first \ude00\ud83d""#, "low first \u{fffd}\u{fffd}"),
        (r#""\\u0041 \\n""#, "\\u0041 \\n"),
    ] {
        let text = string(json);
        assert_eq!(text.unescape(), meaning, "{json}");
        assert_eq!(text.iter().collect::<String>(), meaning, "{json}");
        assert_eq!(text.char_count(), meaning.chars().count(), "{json}");
        assert!(text.eq_str(meaning), "{json}");
        assert!(!text.eq_str("something else"), "{json}");
        assert_eq!(text.is_escaped(), json.contains('\\'), "{json}");
    }
}

#[test]
fn equality_is_of_meaning() {
    assert_eq!(string(r#""\u0041b""#), string(r#""Ab""#));
    assert_eq!(string(r#""\u0041b""#), string(r#""A\u0062""#));
    assert_ne!(string(r#""\u0041b""#), string(r#""AB""#));
    assert_ne!(string(r#""\\n""#), string(r#""\n""#));
}

#[test]
fn blank_means_nothing_but_whitespace() {
    assert!(string(r#""""#).is_blank());
    assert!(string(r#"" \n\t\u00a0\u2003""#).is_blank());
    assert!(!string(r#"" \n.""#).is_blank());
    assert!(!string(r#""\u200b""#).is_blank(), "a zero-width space is no whitespace to Unicode");
}

#[test]
fn the_tail_of_a_string_begins_at_a_character() {
    assert_eq!(
        string(r#""abc\nd""#).unescape_tail(2),
        "nd".strip_prefix('n').map(|d| format!("\n{d}")).unwrap()
    );
    assert_eq!(string(r#""a\\nb""#).unescape_tail(2), "nb");
    assert_eq!(string(r#""aé""#).unescape_tail(1), "");
    assert_eq!(string(r#""aé""#).unescape_tail(99), "aé");
}

#[test]
fn the_head_of_a_string_ends_at_a_character() {
    assert_eq!(string(r#""abc\nd""#).unescape_head(3), "abc");
    assert_eq!(string(r#""abc\nd""#).unescape_head(4), "abc\n");
    assert_eq!(string(r#""abc\nd""#).unescape_head(5), "abc\n");
    assert_eq!(string(r#""abc\nd""#).unescape_head(99), "abc\nd");
    assert_eq!(string(r#""a\ud83d\ude00b""#).unescape_head(2), "a😀");
    assert_eq!(string(r#""aé""#).unescape_head(2), "a");
    assert_eq!(string(r#""""#).unescape_head(2), "");
}

#[test]
fn characters_are_counted_as_they_would_be_read() {
    for json in [
        r#""""#,
        r#""plain é""#,
        r#""a\nb\"c\\""#,
        r#""C:\\users""#,
        r#""\u00e9\ud83d\ude00\ud83d \\u00e9 é\n""#,
    ] {
        assert_eq!(string(json).char_count(), string(json).unescape().chars().count(), "{json}");
    }
}

#[test]
fn plain_text_needs_no_escape() {
    assert_eq!(Str::from_plain("message_stop").unwrap(), "message_stop");
    for bad in ["a\"b", "a\\b", "a\nb"] {
        assert!(Str::from_plain(bad).is_none());
    }
}

#[test]
fn errors_say_what_and_where() {
    for (json, kind, at) in [
        ("", JsonErrorKind::Value, 0),
        ("  x", JsonErrorKind::Value, 2),
        ("{\"a\" 1}", JsonErrorKind::Colon, 5),
        ("{\"a\":1,}", JsonErrorKind::String, 7),
        ("{a:1}", JsonErrorKind::String, 1),
        ("[1 2]", JsonErrorKind::Comma, 3),
        ("[1,]", JsonErrorKind::Value, 3),
        ("[1}", JsonErrorKind::Comma, 2),
        ("\"abc", JsonErrorKind::UnclosedString, 4),
        ("\"a\\x\"", JsonErrorKind::Escape, 2),
        ("\"a\\u12g4\"", JsonErrorKind::Escape, 2),
        ("\"a\\", JsonErrorKind::Escape, 2),
        ("-", JsonErrorKind::Number, 1),
        ("1.", JsonErrorKind::Number, 2),
        ("1e+", JsonErrorKind::Number, 3),
        ("01", JsonErrorKind::Trailing, 1),
        ("truth", JsonErrorKind::Value, 0),
        ("{} {}", JsonErrorKind::Trailing, 3),
    ] {
        assert_eq!(check_text(json), Err(Error { kind, at }), "{json}");
        let said = Error { kind, at }.to_string();
        assert!(said.ends_with(&format!("at byte {at}")), "{said}");
    }
    let utf8 = Cursor::from_bytes(b"\"\xff\"").unwrap_err();
    assert_eq!(utf8, Error { kind: JsonErrorKind::Utf8, at: 1 });
}

/// Returns `levels` nested lists or objects.
fn nested(levels: usize, open: &str, close: &str) -> String {
    [open.repeat(levels).as_str(), "0", &close.repeat(levels)].concat()
}

#[test]
fn a_text_is_walked_however_deep_it_is() {
    for (open, close) in [("[", "]"), ("{\"k\":", "}"), ("[{\"k\":", "}]"), ("[0,[", ",0],{}]")] {
        for levels in [1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 100_000] {
            let text = nested(levels, open, close);
            assert_eq!(check_text(&text), Ok(Span::new(0, text.len())), "{open} {levels}");
            let at = text.len() - close.len();
            let cut = text.get(..at).unwrap();
            let error = check_text(cut).unwrap_err();
            assert_eq!((error.kind, error.at), (JsonErrorKind::Comma, at), "{open} {levels}");
        }
    }
    assert_eq!(check_text(&"[".repeat(1_000_000)).unwrap_err().kind, JsonErrorKind::Value);
}

/// The kind of each bracket is tracked at every depth. A bracket closed by the other kind is an
/// error at its position.
#[test]
fn each_bracket_is_closed_by_its_own_at_every_depth() {
    let open = |at: usize| if at.is_multiple_of(3) { "[" } else { "{\"k\":" };
    let close = |at: usize| if at.is_multiple_of(3) { "]" } else { "}" };
    let levels = 400;
    let text = |wrong: Option<usize>| {
        let opened: String = (0..levels).map(open).collect();
        let closed = (0..levels).rev().map(|at| match (close(at), wrong == Some(at)) {
            ("]", true) => "}",
            ("}", true) => "]",
            (own, _) => own,
        });
        opened + "0" + &closed.collect::<String>()
    };
    assert!(check_text(&text(None)).is_ok());
    for wrong in 0..levels {
        let text = text(Some(wrong));
        let error = check_text(&text).unwrap_err();
        assert_eq!(
            (error.kind, error.at),
            (JsonErrorKind::Comma, text.len() - 1 - wrong),
            "{wrong}"
        );
    }
}

#[test]
fn a_readers_own_descent_is_bounded_by_name() {
    fn descend(cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? == Kind::Array {
            cursor.read_elements(descend).map(|_| ())
        } else {
            Ok(())
        }
    }
    assert!(descend(&mut Cursor::new(&nested(128, "[", "]"))).is_ok());
    let deep = nested(1_000_000, "[", "]");
    let error = descend(&mut Cursor::new(&deep)).unwrap_err();
    assert_eq!((error.kind, error.at), (JsonErrorKind::TooDeep, 128));
    // Values that are skipped may be deeper.
    let wrapped = format!("{{\"a\":{deep}}}");
    assert!(Cursor::new(&wrapped).read_members(|_, _| Ok::<_, Error>(())).is_ok());
}

#[test]
fn members_come_in_order_and_unread_values_are_skipped() {
    let json = r#" { "a" : [1,{"b":2}] , "c":"x", "a":null,"n":-1.5e3 } "#;
    let mut cursor = Cursor::new(json);
    let mut keys = Vec::new();
    let span = cursor
        .read_members(|cursor, member| {
            keys.push(member.key.unescape().into_owned());
            assert_eq!(member.span.slice_of(json), format!("\"{}\"", member.key));
            if member.key == "c" {
                assert_eq!(cursor.read_string()?.0, "x");
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    cursor.expect_end().unwrap();
    assert_eq!(keys, ["a", "c", "a", "n"]);
    assert_eq!(span.slice_of(json), json.trim());
}

#[test]
fn whole_numbers_are_read_and_others_skipped() {
    for (json, value) in [
        ("0", Some(0)),
        ("64", Some(64)),
        ("123456789012345678", Some(123_456_789_012_345_678)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("4096.0", Some(4096)),
        ("4e3", Some(4000)),
        ("0.5", None),
        ("-1", None),
        ("null", None),
        ("\"7\"", None),
        ("[1]", None),
    ] {
        let mut cursor = Cursor::new(json);
        assert_eq!(cursor.read_uint_or_skip().unwrap(), value, "{json}");
        cursor.expect_end().unwrap();
    }
    assert!(Cursor::new("00").read_uint_or_skip().is_ok_and(|_| check_text("00").is_err()));
}

#[test]
fn written_strings_escape_only_what_they_must() {
    let mut out = Vec::new();
    write_str(&mut out, "a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{1f}/é東😀\u{7f}");
    let expected = "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f/é東😀\u{7f}\"";
    assert_eq!(std::str::from_utf8(&out).unwrap(), expected);
}
