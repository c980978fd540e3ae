//! The members of an object that arrives in pieces, in order of first appearance.

use std::collections::BTreeMap;

use crate::json::write_str;

/// Names and raw values. Lookup by name is fast for any number of members.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    list: Vec<(String, String)>,
    places: BTreeMap<String, usize>,
}

impl Members {
    /// Returns the value with this name. If there is none, adds the member and returns `None`.
    pub(super) fn find_or_add(&mut self, name: &str, value: &str) -> Option<&mut String> {
        if let Some(at) = self.places.get(name) {
            return self.list.get_mut(*at).map(|(_, value)| value);
        }
        self.places.insert(name.to_owned(), self.list.len());
        self.list.push((name.to_owned(), value.to_owned()));
        None
    }

    pub(super) fn into_list(self) -> Vec<(String, String)> {
        self.list
    }

    /// Writes the object as JSON.
    pub(super) fn into_json(self) -> String {
        let mut out = vec![b'{'];
        for (n, (name, value)) in self.list.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            write_str(&mut out, name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
        // Only text was written to it.
        String::from_utf8(out).unwrap_or_default()
    }
}
