//! The entries of a config's tables: known keys, named tables, rows, and the kinds of values that
//! several keys share.

use std::net::SocketAddr;

use softland_agent::core::find_nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigReader, TABLES, Variable, to_policy_value};

/// One `key = value` of a table.
pub(super) struct Entry<'t, 'i> {
    /// The key.
    pub(super) name: &'t str,
    /// The full name of the key, such as `admin.listen`.
    pub(super) place: String,
    /// The byte offset of the key in the text.
    pub(super) at: usize,
    /// The value.
    pub(super) value: &'t DeValue<'i>,
}

impl ConfigReader<'_> {
    /// Returns the entries of a table that have known keys. Unknown keys are noted as problems.
    pub(super) fn read_entries<'t, 'i>(
        &mut self,
        place: &str,
        table: &'t DeValue<'i>,
        known: &[&'static str],
    ) -> Vec<Entry<'t, 'i>> {
        let mut entries = Vec::new();
        for (key, value) in table.as_table().into_iter().flatten() {
            let (at, name) = (key.span().start, key.get_ref().as_ref());
            let place = format!("{place}.{name}");
            if known.contains(&name) {
                entries.push(Entry { name, place, at, value: value.get_ref() });
            } else {
                self.note_unknown_key(at, &place, name, known);
            }
        }
        entries
    }

    /// Returns the entries of the table `[NAME]`.
    pub(super) fn read_section<'t, 'i>(
        &mut self,
        name: &str,
        value: &'t Spanned<DeValue<'i>>,
        known: &[&'static str],
    ) -> Vec<Entry<'t, 'i>> {
        if !value.get_ref().is_table() {
            let message = format!("must be a table: [{name}] with {}", known.join(", "));
            self.note_problem(value.span().start, name, &message);
        }
        self.read_entries(name, value.get_ref(), known)
    }

    /// Returns the tables `[KIND.NAME]` as entries whose values are tables. `form` shows the
    /// expected table in problems.
    pub(super) fn read_named_tables<'t, 'i>(
        &mut self,
        kind: &str,
        value: &'t Spanned<DeValue<'i>>,
        form: &str,
    ) -> Vec<Entry<'t, 'i>> {
        let Some(tables) = value.get_ref().as_table() else {
            let message = format!("must be tables: [{kind}.NAME]");
            self.note_problem(value.span().start, kind, &message);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (key, value) in tables {
            let (at, name) = (key.span().start, key.get_ref().as_ref());
            let place = format!("{kind}.{name}");
            if value.get_ref().is_table() {
                entries.push(Entry { name, place, at, value: value.get_ref() });
            } else {
                self.note_problem(value.span().start, &place, &format!("must be a table: {form}"));
            }
        }
        entries
    }

    /// Returns the tables `[[KIND]]`, each with its byte offset.
    pub(super) fn read_rows<'t, 'i>(
        &mut self,
        kind: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Vec<(usize, &'t DeTable<'i>)> {
        let rows = value.get_ref().as_array();
        let Some(rows) = rows.filter(|rows| rows.iter().all(|row| row.get_ref().is_table())) else {
            self.note_problem(value.span().start, kind, &format!("must be tables: [[{kind}]]"));
            return Vec::new();
        };
        let table =
            |row: &'t Spanned<DeValue<'i>>| Some((row.span().start, row.get_ref().as_table()?));
        rows.iter().filter_map(table).collect()
    }

    /// Notes an unknown key, and suggests a similar one or the table it belongs to.
    pub(super) fn note_unknown_key(
        &mut self,
        at: usize,
        place: &str,
        key: &str,
        known: &[&'static str],
    ) {
        let message = match (explain_misplaced_key(key), find_nearest(key, known.iter().copied())) {
            (Some(elsewhere), _) => elsewhere,
            (None, Some(near)) => format!("unknown key; did you mean `{near}`?"),
            (None, None) => format!("unknown key; known are {}", known.join(", ")),
        };
        self.note_problem(at, place, &message);
    }

    /// Notes an invalid value, and shows it.
    pub(super) fn note_wrong_value(&mut self, entry: &Entry<'_, '_>, allowed: &str) {
        let message = format!("must be {allowed}, got {}", to_policy_value(entry.value));
        self.note_problem(entry.at, &entry.place, &message);
    }

    /// Reads a text that is not blank.
    pub(super) fn read_text(&mut self, entry: &Entry<'_, '_>, allowed: &str) -> Option<String> {
        let text = entry.value.as_str().map(str::trim).filter(|text| !text.is_empty());
        if text.is_none() {
            self.note_wrong_value(entry, allowed);
        }
        text.map(str::to_owned)
    }

    pub(super) fn read_bool(&mut self, entry: &Entry<'_, '_>) -> Option<bool> {
        let value = entry.value.as_bool();
        if value.is_none() {
            self.note_wrong_value(entry, "true or false");
        }
        value
    }

    /// Reads the name of an environment variable. An invalid name is not shown: people paste keys
    /// here.
    pub(super) fn read_variable(
        &mut self,
        entry: &Entry<'_, '_>,
        such_as: &str,
    ) -> Option<Variable> {
        match entry.value.as_str().filter(|name| is_variable_name(name)) {
            Some(name) => {
                let place = self.format_place(entry.at, &entry.place);
                Some(Variable { name: name.to_owned(), place })
            }
            None => {
                let message =
                    format!("must be the name of an environment variable, such as {such_as}");
                self.note_problem(entry.at, &entry.place, &message);
                None
            }
        }
    }

    pub(super) fn read_address(&mut self, entry: &Entry<'_, '_>) -> Option<SocketAddr> {
        let address = entry.value.as_str().and_then(parse_listen_address);
        if address.is_none() {
            self.note_wrong_value(entry, LISTEN);
        }
        address
    }
}

/// Explains where a top-level key belongs that was found in another table.
pub(super) fn explain_misplaced_key(key: &str) -> Option<String> {
    let key = TABLES.iter().find(|known| **known == key)?;
    Some(match *key {
        "listen" | "allowed_hosts" | "allow_unmetered" | "header_policies" | "stream_comments"
        | "timezone" => {
            format!("unknown key here; `{key}` stands at the top of the file, before all tables")
        }
        "policy" | "upstream" | "shape" => {
            format!("unknown key here; `[{key}.NAME]` is a table of its own")
        }
        "price" | "route" | "key" | "budget" => {
            format!("unknown key here; `[[{key}]]` is a table of its own")
        }
        _ => format!("unknown key here; `[{key}]` is a table of its own"),
    })
}

/// The allowed forms of a listen address, for messages.
pub(crate) const LISTEN: &str = "an address and a port such as 127.0.0.1:4141, [::1]:4141 or \
     localhost:4141 (port 0 takes a free one)";

/// Parses an address to listen on. Names other than `localhost` are not looked up: the address they
/// resolve to decides who can connect.
pub(crate) fn parse_listen_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port))),
        None => text.parse().ok(),
    }
}

fn is_variable_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}
