use super::*;

/// Returns event, data, raw and cut of every frame of a stream that arrives in `chunks`.
fn frames(chunks: &[&[u8]]) -> Vec<(String, String, String, bool)> {
    let mut decoder = Decoder::new(1000);
    let mut found = Vec::new();
    let mut drain = |decoder: &mut Decoder| {
        while let Some(frame) = decoder.next() {
            let f = frame.unwrap();
            let raw = std::str::from_utf8(f.raw).unwrap().to_owned();
            found.push((f.event.to_owned(), f.data.into_owned(), raw, f.cut));
        }
    };
    for chunk in chunks {
        decoder.push(chunk);
        drain(&mut decoder);
    }
    decoder.finish();
    drain(&mut decoder);
    found
}

/// Checks the frames of a stream, `(event, data)`, whole, cut at every offset and byte by byte.
fn check(stream: &str, expected: &[(&str, &str)]) {
    let whole = frames(&[stream.as_bytes()]);
    let said: Vec<_> = whole.iter().map(|f| (f.0.as_str(), f.1.as_str())).collect();
    assert_eq!(said, expected, "{stream:?}");
    let raw: String = whole.iter().map(|f| f.2.as_str()).collect();
    assert_eq!(raw, stream);
    for cut in 0..=stream.len() {
        let (head, tail) = stream.as_bytes().split_at(cut);
        assert_eq!(frames(&[head, tail]), whole, "{stream:?} cut at {cut}");
    }
    assert_eq!(frames(&stream.as_bytes().chunks(1).collect::<Vec<_>>()), whole);
}

#[test]
fn frames_are_cut_at_blank_lines() {
    check("", &[]);
    check("event: ping\ndata: {}\n\n", &[("ping", "{}")]);
    check("data: 1\n\ndata: 2\n\n", &[("", "1"), ("", "2")]);
    check("data: 東京 😀\n\n", &[("", "東京 😀")]);
}

#[test]
fn every_line_end_counts() {
    check("event: a\r\ndata: 1\r\n\r\nevent: b\r\ndata: 2\r\n\r\n", &[("a", "1"), ("b", "2")]);
    check("event: a\rdata: 1\r\revent: b\rdata: 2\r\r", &[("a", "1"), ("b", "2")]);
    check("event: a\ndata: 1\r\n\ndata: 2\r\r\ndata: 3\n\r\n", &[("a", "1"), ("", "2"), ("", "3")]);
}

#[test]
fn several_data_lines_are_joined() {
    check("data: a\ndata:b\ndata\ndata:  c\n\n", &[("", "a\nb\n\n c")]);
    check("data:\ndata:\n\n", &[("", "\n")]);
}

#[test]
fn the_last_event_line_wins_and_unknown_fields_are_kept_in_raw() {
    check("event: a\nevent: b\nid: 7\nretry: 9\nfoo: bar\ndata: 1\n\n", &[("b", "1")]);
    check("datax: 1\nxdata: 2\n data: 3\n\n", &[("", "")]);
}

#[test]
fn comments_and_stray_blank_lines_carry_no_data() {
    check(": keep-alive\n\n", &[("", "")]);
    check("\n\r\n\rdata: 1\n\n", &[("", ""), ("", ""), ("", ""), ("", "1")]);
    check(":\n:\ndata: 1\n\n", &[("", "1")]);
}

#[test]
fn a_byte_order_mark_opens_the_stream_only() {
    check("\u{feff}data: 1\n\n\u{feff}data: 2\n\n", &[("", "1"), ("", "")]);
    check("\u{feff}data: 1\ndata: 2\n\n", &[("", "1\n2")]);
}

#[test]
fn the_end_of_input_ends_the_last_frame() {
    check("data: 1\n\ndata: 2\n", &[("", "1"), ("", "2")]);
    check("data: 1\n\ndata: 2", &[("", "1"), ("", "2")]);
    check("data: 1\n\ndata: 2\r", &[("", "1"), ("", "2")]);
    let cut: Vec<bool> = frames(&[b"data: 1\n\ndata: 2\n"]).iter().map(|f| f.3).collect();
    assert_eq!(cut, [false, true]);
}

#[test]
fn a_frame_is_bounded() {
    let frame = "data: 345678\n\n";
    let mut decoder = Decoder::new(frame.len());
    decoder.push(frame.repeat(50).as_bytes());
    for _ in 0..50 {
        assert_eq!(decoder.next().unwrap().unwrap().raw, frame.as_bytes());
    }
    assert!(decoder.next().is_none());

    let too_long = Some(Err(SseError::TooLong { limit: 13 }));
    for chunk in [1, 5, 100] {
        let mut decoder = Decoder::new(13);
        for piece in frame.as_bytes().chunks(chunk) {
            decoder.push(piece);
            while let Some(Ok(_)) = decoder.next() {}
        }
        assert_eq!(decoder.next(), too_long, "chunks of {chunk}");
        decoder.push(b"data: 1\n\n");
        assert_eq!(decoder.next(), too_long, "the error stays");
    }
}

#[test]
fn a_caller_that_does_not_drain_is_bounded_too() {
    let mut decoder = Decoder::new(100);
    for _ in 0..1000 {
        decoder.push(b"data: 1\n\n");
    }
    assert!(decoder.buffer.len() < 120);
    assert_eq!(decoder.next(), Some(Err(SseError::TooLong { limit: 100 })));
}

#[test]
fn the_buffer_does_not_grow_with_the_stream() {
    let mut decoder = Decoder::new(1000);
    for _ in 0..10_000 {
        decoder.push(b"data: some data\n\nda");
        while let Some(frame) = decoder.next() {
            frame.unwrap();
        }
        decoder.push(b"ta: more\n\n");
        while let Some(frame) = decoder.next() {
            frame.unwrap();
        }
        assert!(decoder.buffer.capacity() < 1000);
    }
}

#[test]
fn bad_characters_are_named_and_the_error_stays() {
    let mut decoder = Decoder::new(100);
    decoder.push(b": \xff is a comment\ndata: fine\n\ndata: \xff\n\ndata: 1\n\n");
    assert_eq!(decoder.next().unwrap().unwrap().data, "fine");
    let bad = Some(Err(SseError::Utf8 { at: 29 }));
    assert_eq!(decoder.next(), bad);
    assert_eq!(decoder.next(), bad);

    let mut decoder = Decoder::new(100);
    decoder.push(b"data: 1\ndata: \xff\n\n");
    assert_eq!(decoder.next(), Some(Err(SseError::Utf8 { at: 0 })));
}

#[test]
fn what_is_written_reads_the_same() {
    for (event, data) in [
        ("ping", "{}"),
        ("", "x"),
        ("a", "two\nlines"),
        ("a", "ends\n"),
        ("a", "\n\n"),
        ("a", " leading space"),
    ] {
        let mut out = Vec::new();
        write_event(&mut out, event, data);
        check(std::str::from_utf8(&out).unwrap(), &[(event, data)]);
    }
    let mut out = Vec::new();
    write_event(&mut out, "evil\nname", "a\r\nb\rc");
    check(std::str::from_utf8(&out).unwrap(), &[("evilname", "a\nb\nc")]);
}

#[test]
fn data_is_found_in_raw_bytes() {
    let found =
        |raw: &str| find_data_span(raw.as_bytes()).map(|span| span.slice_of(raw).to_owned());
    assert_eq!(found("event: a\r\ndata: {}  \r\n\r\n").as_deref(), Some("{}  "));
    assert_eq!(found("\u{feff}data:{}\n\n").as_deref(), Some("{}"));
    assert_eq!(found("data: 1"), Some("1".to_owned()));
    assert_eq!(found("data: 1\ndata: 2\n\n"), None);
    assert_eq!(found(": comment\n\n"), None);
}

#[test]
fn a_field_of_an_error_is_an_event_of_that_name() {
    for (text, event, data) in [
        ("error: {\"a\":1}\n\n", "error", "{\"a\":1}"),
        ("\u{feff}error: {}\n\n", "error", "{}"),
        (": hi\r\nerror:{}\r\n\r\n", "error", "{}"),
        // Beside data the field is unknown, as any other.
        ("data: {}\nerror: x\n\n", "", "{}"),
        ("error\n\n", "", ""),
        ("errors: {}\n\n", "", ""),
    ] {
        let mut decoder = Decoder::new(100);
        decoder.push(text.as_bytes());
        decoder.finish();
        let frame = decoder.next().unwrap().unwrap();
        assert_eq!((frame.event, &*frame.data), (event, data), "{text:?}");
        assert_eq!(frame.raw, text.as_bytes());
    }
}

/// Some servers call an error a stream and send plain JSON.
#[test]
fn a_stream_that_is_one_object_is_its_data() {
    for (text, data) in [
        ("{\"error\":\"x\"}", "{\"error\":\"x\"}"),
        ("{\"a\":1}\n\ndata: 2\n\n", "{\"a\":1}"),
        ("\u{feff}{\r\n\"a\":\r\n1}\r\n", "{\r\n\"a\":\r\n1}"),
        ("{}\ndata: 1\n\n", "{}\ndata: 1"),
        // Later such a line is a field without a meaning, as any other.
        (": hi\n{\"a\":1}\n\n", ""),
        ("event: x\n{\"a\":1}\n\n", ""),
    ] {
        let mut decoder = Decoder::new(100);
        for byte in text.as_bytes() {
            decoder.push(&[*byte]);
        }
        decoder.finish();
        assert_eq!(&*decoder.next().unwrap().unwrap().data, data, "{text:?}");
    }
}
