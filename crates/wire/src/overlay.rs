//! One JSON object laid over another: what the upper one does not name stays byte for byte.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::Splice;
use crate::json::{Cursor, Error, Kind};

/// Returns the object `under` with the values of the object `over`. Where both have an object in
/// the same member, the two are laid over each other in turn. A value that stays the same keeps its
/// bytes, and a member that `under` lacks is added at the end.
///
/// # Errors
/// Fails if one of the two is not a JSON object.
pub fn lay_over(under: &str, over: &str) -> Result<String, Error> {
    let mut cursor = Cursor::new(under);
    let mut splice = Splice::new();
    lay_over_object(&mut splice, &mut cursor, over)?;
    cursor.expect_end()?;
    // Each edit replaces a value of its own or stands at the end of an object of its own, and text
    // goes into text, so there is no error to report.
    let bytes = splice.apply(under.as_bytes()).unwrap_or_default();
    Ok(String::from_utf8(bytes).unwrap_or_default())
}

/// Records the edits that lay `over` over the next value, which is an object.
pub(crate) fn lay_over_object(
    splice: &mut Splice,
    cursor: &mut Cursor<'_>,
    over: &str,
) -> Result<(), Error> {
    let members = read_members(over)?;
    // The value of each member of `over`, and true once its place in the object is found.
    let mut values: BTreeMap<&str, (&str, bool)> =
        members.iter().map(|(name, value)| (&**name, (*value, false))).collect();
    let mut first = true;
    let span = cursor.read_members(|cursor, member| {
        first = false;
        let Some((value, placed)) = values.get_mut(&*member.key.unescape()) else { return Ok(()) };
        *placed = true;
        lay_over_value(splice, cursor, value)
    })?;
    for (name, value) in &members {
        if values.get(&**name).is_some_and(|(_, placed)| !placed) {
            splice.append_member_to(span, std::mem::take(&mut first), name, value.as_bytes());
        }
    }
    Ok(())
}

/// Records the edits that put `value` in the place of the next value.
fn lay_over_value(splice: &mut Splice, cursor: &mut Cursor<'_>, value: &str) -> Result<(), Error> {
    let mut new = Cursor::new(value);
    let (old_kind, new_kind) = (cursor.peek()?, new.peek()?);
    let span = cursor.clone().skip_value()?;
    if span.slice_of(cursor.text()) == value {
        cursor.skip_value()?;
        return Ok(());
    }
    match (old_kind, new_kind) {
        (Kind::Object, Kind::Object) => lay_over_object(splice, cursor, value),
        (Kind::String, Kind::String) => {
            let (old, span) = cursor.read_string()?;
            let (new, _) = new.read_string()?;
            if old.unescape() != new.unescape() {
                splice.replace(span, value);
            }
            Ok(())
        }
        _ => {
            splice.replace(cursor.skip_value()?, value);
            Ok(())
        }
    }
}

/// Returns the members of an object, each with its value as written.
fn read_members(object: &str) -> Result<Vec<(Cow<'_, str>, &str)>, Error> {
    let mut members = Vec::new();
    let mut cursor = Cursor::new(object);
    cursor.read_members(|cursor, member| {
        members.push((member.key.unescape(), cursor.skip_value()?.slice_of(object)));
        Ok::<_, Error>(())
    })?;
    cursor.expect_end()?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays_byte_for_byte() {
        for (under, over, laid) in [
            (r#"{ "a" : 1 , "b":2}"#, r#"{"a":3}"#, r#"{ "a" : 3 , "b":2}"#),
            (r#"{"a":1.0}"#, r#"{"a":1.0}"#, r#"{"a":1.0}"#),
            // The same text stays as it was written.
            (r#"{"a":"\u00e9","b":"x"}"#, r#"{"b":"y","a":"é"}"#, r#"{"a":"\u00e9","b":"y"}"#),
            (r#"{"a":{"b":1,"c":[ ]}}"#, r#"{"a":{"b":2}}"#, r#"{"a":{"b":2,"c":[ ]}}"#),
            (r#"{"a":{"b":1}}"#, r#"{"a":{"c":2},"d":{}}"#, r#"{"a":{"b":1,"c":2},"d":{}}"#),
            (r#"{"a":{}}"#, r#"{"a":{"b":2}}"#, r#"{"a":{"b":2}}"#),
            ("{}", r#"{"a":1,"b":[2]}"#, r#"{"a":1,"b":[2]}"#),
            // Kinds that differ, lists and null are replaced whole.
            (
                r#"{"a":null,"b":[1,2],"c":{"d":1}}"#,
                r#"{"a":{"x":1},"b":[3],"c":null}"#,
                r#"{"a":{"x":1},"b":[3],"c":null}"#,
            ),
            // The last of several members of one name counts, so each is replaced.
            (r#"{"a":1,"a":2}"#, r#"{"a":3}"#, r#"{"a":3,"a":3}"#),
            (r#"{"\u0061":1}"#, r#"{"a":3}"#, r#"{"\u0061":3}"#),
            (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
        ] {
            assert_eq!(lay_over(under, over).as_deref(), Ok(laid), "{under} {over}");
        }
        for (under, over) in [("[]", "{}"), ("{}", "1"), ("{", "{}"), ("{} x", "{}")] {
            assert!(lay_over(under, over).is_err(), "{under} {over}");
        }
    }
}
