//! `reasoning_details` of several responses in one message. Clients put the pieces of one `index`
//! together, so the details of a later response get indexes of their own. Nothing else of them is
//! read.

use softland_wire::json::{Cursor, Error, Span};

/// Returns the index behind all those in a list; 0 where there are none.
pub(super) fn next_index(list: &str) -> u64 {
    let indexes = index_spans(list).into_iter().filter_map(|(_, index)| index.checked_add(1));
    indexes.max().unwrap_or(0)
}

/// Returns the list with every index raised by `by`.
pub(super) fn raise_indexes(list: &str, by: u64) -> String {
    let mut out = String::with_capacity(list.len());
    let mut rest = 0;
    for (span, index) in index_spans(list) {
        out.push_str(list.get(rest..span.start).unwrap_or_default());
        out.push_str(&index.saturating_add(by).to_string());
        rest = span.end;
    }
    out.push_str(list.get(rest..).unwrap_or_default());
    out
}

/// Returns the details of one response, their indexes raised behind those of `before`.
pub(super) fn renumber_details_after(before: &[String], details: &[String]) -> Vec<String> {
    let by = next_index(&list_of(before));
    if by == 0 { details.to_vec() } else { raise_detail_indexes(details, by) }
}

/// Returns the details, each with its index raised by `by`.
pub(super) fn raise_detail_indexes(details: &[String], by: u64) -> Vec<String> {
    let one = |detail: &String| {
        let list = raise_indexes(&["[", detail, "]"].concat(), by);
        list.strip_prefix('[').and_then(|l| l.strip_suffix(']')).unwrap_or(&list).to_owned()
    };
    details.iter().map(one).collect()
}

fn list_of(details: &[String]) -> String {
    ["[", &details.join(","), "]"].concat()
}

/// Returns the span of each detail's `index`, and its value.
fn index_spans(list: &str) -> Vec<(Span, u64)> {
    let mut spans = Vec::new();
    // A list that cannot be read is left as it is.
    let read = Cursor::new(list).read_elements(|cursor| {
        cursor.read_members(|cursor, member| {
            if member.key.eq_str("index") {
                let span = cursor.skip_value()?;
                spans.extend(span.slice_of(list).parse().ok().map(|index| (span, index)));
            }
            Ok::<_, Error>(())
        })?;
        Ok::<_, Error>(())
    });
    if read.is_err() {
        spans.clear();
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_go_up() {
        let list =
            r#"[{"type":"a","index":0,"text":"\"index\":7"}, {"index": 3 ,"data":{"index":9}},{}]"#;
        assert_eq!(next_index(list), 4);
        let expected =
            r#"[{"type":"a","index":2,"text":"\"index\":7"}, {"index": 5 ,"data":{"index":9}},{}]"#;
        assert_eq!(raise_indexes(list, 2), expected);
    }

    #[test]
    fn what_is_no_list_of_objects_stays() {
        for list in ["[1,2]", "[", "null", r#"[{"index":"0"}]"#, "[]"] {
            assert_eq!((next_index(list), raise_indexes(list, 2).as_str()), (0, list));
        }
    }
}
