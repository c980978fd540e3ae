//! OpenRouter's `reasoning_details`, assembled from the pieces of a stream.
//!
//! A piece continues the newest detail with its `index` and `type`. `text` and `summary` are
//! joined. Any other non-null value replaces the previous one, so a signature that arrives alone is
//! added and a signature followed by null stays. Encrypted data and another `id` begin a separate
//! detail. In a whole response every detail stays byte for byte.

use super::members::Members;
use crate::json::{Cursor, Error, Kind, Str};

/// The number of recent details that are searched for the one to continue. The limit keeps a
/// hostile stream from costing more than linear time.
const SEARCHED: usize = 64;

/// The details of a response that is being assembled.
#[derive(Clone, Debug, Default)]
pub(super) struct DetailAssembler {
    list: Vec<Detail>,
}

#[derive(Clone, Debug, Default)]
struct Detail {
    /// The object as received, while it consists of a single piece.
    raw: String,
    index: Option<u64>,
    kind: String,
    id: String,
    encrypted: bool,
    members: Members,
}

impl DetailAssembler {
    /// Adds a list of details. `whole` is true if each detail is complete.
    pub(super) fn add_details(&mut self, list: &str, whole: bool) {
        // The list was scanned before, so there is no error to report.
        let _ = Cursor::new(list).read_elements(|cursor| {
            if cursor.peek()? == Kind::Object {
                let detail = Detail::from_cursor(cursor)?;
                self.place_detail(detail, whole);
            }
            Ok::<_, Error>(())
        });
    }

    pub(super) fn into_details(self) -> Vec<String> {
        self.list.into_iter().map(Detail::into_json).collect()
    }

    fn place_detail(&mut self, piece: Detail, whole: bool) {
        let from = self.list.len().saturating_sub(SEARCHED);
        let recent = self.list.get_mut(from..).unwrap_or_default();
        match recent.iter_mut().rev().find(|detail| detail.is_continued_by(&piece)) {
            Some(detail) if !whole => detail.extend_with(piece),
            _ => self.list.push(piece),
        }
    }
}

impl Detail {
    fn from_cursor(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut detail = Self::default();
        let whole = cursor.text();
        let span = cursor.read_members(|cursor, member| {
            let mut ahead = cursor.clone();
            let owned = |text: Option<(Str<'_>, _)>| {
                text.map(|(text, _)| text.unescape().into_owned()).unwrap_or_default()
            };
            let name = member.key.unescape();
            match &*name {
                "index" => detail.index = ahead.read_uint_or_skip()?,
                "type" => detail.kind = owned(ahead.read_string_or_skip()?),
                "id" => detail.id = owned(ahead.read_string_or_skip()?),
                "data" => detail.encrypted = ahead.peek()? == Kind::String,
                _ => {}
            }
            let value = cursor.skip_value()?.slice_of(whole);
            // Of a repeated name the last value wins.
            if let Some(old) = detail.members.find_or_add(&name, value) {
                value.clone_into(old);
            }
            Ok::<_, Error>(())
        })?;
        span.slice_of(whole).clone_into(&mut detail.raw);
        Ok(detail)
    }

    fn is_continued_by(&self, piece: &Self) -> bool {
        let same_id = self.id.is_empty() || piece.id.is_empty() || self.id == piece.id;
        !(self.encrypted || piece.encrypted)
            && self.index == piece.index
            && self.kind == piece.kind
            && same_id
    }

    fn extend_with(&mut self, piece: Self) {
        self.raw.clear();
        if self.id.is_empty() {
            self.id = piece.id;
        }
        for (name, value) in piece.members.into_list() {
            let joined = matches!(name.as_str(), "text" | "summary");
            match self.members.find_or_add(&name, &value) {
                Some(old) if joined && old.starts_with('"') && value.starts_with('"') => {
                    // Both are scanned strings: the texts between their quotes are joined in one
                    // string.
                    old.pop();
                    old.push_str(value.get(1..).unwrap_or_default());
                }
                Some(old) if value != "null" && value != "\"\"" => *old = value,
                Some(_) | None => {}
            }
        }
    }

    fn into_json(self) -> String {
        if self.raw.is_empty() { self.members.into_json() } else { self.raw }
    }
}
