//! Further members that are objects and arrive in pieces, such as audio.

use std::collections::BTreeMap;

use super::{UnreadMembers, members::Members};
use crate::json::{Cursor, Error};

/// Objects that are being assembled, by the names of their members in the message.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectAssembler(BTreeMap<String, Members>);

impl ObjectAssembler {
    /// Adds a piece. Texts are joined, except for those that name the whole object. Of anything
    /// else the later value wins.
    pub(super) fn add_piece(&mut self, name: String, piece: &str) {
        let members = self.0.entry(name).or_default();
        // The piece was scanned before, so there is no error to report.
        let _ = Cursor::new(piece).read_members(|cursor, member| {
            let value = cursor.skip_value()?.slice_of(piece);
            let name = member.key.unescape();
            match members.find_or_add(&name, value) {
                Some(old) if old.starts_with('"') && value.starts_with('"') => {
                    if !matches!(&*name, "id" | "type") {
                        old.pop();
                        old.push_str(value.get(1..).unwrap_or_default());
                    }
                }
                Some(old) if value != "null" => value.clone_into(old),
                Some(_) | None => {}
            }
            Ok::<_, Error>(())
        });
    }

    /// Discards the object with this name.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Writes each object among the other members.
    pub(super) fn finish_into(self, extra: &mut UnreadMembers) {
        extra.extend(self.0.into_iter().map(|(name, members)| (name, members.into_json())));
    }
}
