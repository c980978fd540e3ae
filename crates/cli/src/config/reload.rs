//! Whether a config that is read again is whole. A file is read while it is being written, or was
//! cut by a full disk, and what is there of it may be a valid config.
//!
//! What was cut off at the end cannot be told from what was taken away on purpose. So a config that
//! is read again must have the last key of the one in force, or end in the same comment.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::{DeTable, DeValue};

use super::Config;

/// The keys of a config's rows whose values name them, in `[[key]]`, `[[budget]]`, and `[[price]]`
/// and `[[route]]`.
const ROW_NAMES: [&str; 3] = ["name", "account", "model"];

/// What the text of a config shows of its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The full names of all keys and tables.
    keys: BTreeSet<String>,
    /// The one of them that stands last.
    last_key: Option<String>,
    /// The last line that is not blank, if it is a comment that no other line repeats.
    closing_comment: Option<String>,
    /// True if the last line has its end.
    ends_whole: bool,
}

impl Extent {
    /// Reads what the text of a config and its parsed form show.
    pub(super) fn read(text: &str, table: &DeTable<'_>) -> Self {
        let mut found = Vec::new();
        collect_keys("", table, &mut found);
        found.sort_unstable();
        // The second of two rows of one name is another key than the first.
        let mut seen = BTreeMap::new();
        let mut number = |name: String| {
            let count: &mut usize = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count > 1 { format!("{name} (the {count}. of that name)") } else { name }
        };
        let names: Vec<String> = found.into_iter().map(|(_, name)| number(name)).collect();
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let closing = lines().next_back().filter(|line| line.starts_with('#'));
        let closing = closing.filter(|last| lines().filter(|line| line == last).count() == 1);
        Self {
            last_key: names.last().cloned(),
            keys: names.into_iter().collect(),
            closing_comment: closing.map(str::to_owned),
            ends_whole: text.ends_with('\n'),
        }
    }
}

impl Config {
    /// Returns what this config has and the one that is to replace it lacks, as far as a reload may
    /// not take it away: what limits runs or says who may ask and where requests go (policies,
    /// tokens, upstreams with an address), and the end of the file.
    pub(crate) fn list_lost(&self, next: &Self) -> Vec<String> {
        let declared = next.list_declared();
        let mut lost: Vec<String> =
            self.list_declared().into_iter().filter(|name| !declared.contains(name)).collect();
        let (old, new) = (&self.extent, &next.extent);
        if old.ends_whole && !new.ends_whole {
            lost.push("the end of its last line".to_owned());
        }
        let closed = old.closing_comment.is_some() && old.closing_comment == new.closing_comment;
        let kept = |last: &str| new.keys.contains(last) || next.has_revoked(last);
        let last = old.last_key.as_ref().filter(|last| !closed && !kept(last));
        lost.extend(last.map(|last| format!("its last key `{last}`")));
        lost
    }

    /// Returns true if this config lacks the whole row of `[[key]]` to which a key belonged, and has
    /// others or a store of keys: a token was revoked, and the others may still ask. Without any key
    /// everybody may ask, so that the last one is not taken away by a reload.
    fn has_revoked(&self, key: &str) -> bool {
        const ROW: &str = "key[";
        let Some((row, _)) = key.split_once(']').filter(|_| key.starts_with(ROW)) else {
            return false;
        };
        let rows = || self.extent.keys.iter().filter_map(|key| key.split_once(']'));
        let is_gone = rows().all(|(other, _)| other != row);
        let has_others = rows().any(|(other, _)| other.starts_with(ROW));
        is_gone && (has_others || self.gateway.shared.is_store())
    }

    fn list_declared(&self) -> BTreeSet<String> {
        let policies = self.policies.keys().map(|name| format!("[policy.{name}]"));
        let addressed = self.upstreams.iter().filter(|(_, upstream)| upstream.base_url.is_some());
        let upstreams = addressed.map(|(name, _)| format!("[upstream.{name}] base_url"));
        let tokens = [
            (self.gateway.client_tokens.is_some(), "[clients] tokens_env"),
            (self.gateway.admin_token.is_some(), "[admin] token_env"),
        ];
        let tokens = tokens.into_iter().filter(|(there, _)| *there);
        policies.chain(upstreams).chain(tokens.map(|(_, what)| what.to_owned())).collect()
    }
}

/// Collects the keys and tables of a table, each with its byte offset.
fn collect_keys(place: &str, table: &DeTable<'_>, found: &mut Vec<(usize, String)>) {
    for (key, value) in table {
        let name = key.get_ref();
        let place = if place.is_empty() { name.to_string() } else { format!("{place}.{name}") };
        found.push((key.span().start, place.clone()));
        match value.get_ref() {
            DeValue::Table(table) => collect_keys(&place, table, found),
            DeValue::Array(rows) => {
                for row in rows {
                    let Some(table) = row.get_ref().as_table() else { continue };
                    let place = format!("{place}[{}]", find_row_name(table));
                    found.push((row.span().start, place.clone()));
                    collect_keys(&place, table, found);
                }
            }
            _ => {}
        }
    }
}

/// Returns the name of a row, which it keeps when other rows come or go; empty if it has none.
fn find_row_name<'t>(row: &'t DeTable<'_>) -> &'t str {
    ROW_NAMES.iter().find_map(|name| row.get(*name)?.get_ref().as_str()).unwrap_or_default()
}
