//! `caller` of calls and results: the model itself, or code that it wrote and that the provider runs
//! (Anthropic's programmatic tool calling, OpenAI's programs).

use crate::json::{Cursor, Error, Kind};

/// Reads a `caller`. Returns true if it is another than the model itself: `{"type":"direct"}`.
pub(crate) fn read_is_code(cursor: &mut Cursor<'_>) -> Result<bool, Error> {
    if cursor.peek()? != Kind::Object {
        return Ok(false);
    }
    let mut code = false;
    cursor.read_members(|cursor, member| {
        if member.key.eq_str("type") {
            code = cursor.read_text_or_skip()?.is_some_and(|kind| !kind.eq_str("direct"));
        }
        Ok::<_, Error>(())
    })?;
    Ok(code)
}
