//! The shapes that tables of a config have, read alike everywhere: known keys, named tables, rows,
//! and the kinds of values that several keys share.

use std::net::SocketAddr;

use softland_agent::core::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Reader, TABLES, Variable, plain};

/// One `key = value`.
pub(super) struct Entry<'t, 'i> {
    /// The key.
    pub(super) name: &'t str,
    /// Where it is, in words: `admin.listen`.
    pub(super) place: String,
    /// The byte of the text at which the key begins.
    pub(super) at: usize,
    /// The value.
    pub(super) value: &'t DeValue<'i>,
}

impl Reader<'_> {
    /// The entries of a table whose keys are all known; the others are problems.
    pub(super) fn entries<'t, 'i>(
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
                self.unknown(at, &place, name, known);
            }
        }
        entries
    }

    /// The entries of `[NAME]`.
    pub(super) fn section<'t, 'i>(
        &mut self,
        name: &str,
        value: &'t Spanned<DeValue<'i>>,
        known: &[&'static str],
    ) -> Vec<Entry<'t, 'i>> {
        if !value.get_ref().is_table() {
            let message = format!("must be a table: [{name}] with {}", known.join(", "));
            self.problem(value.span().start, name, &message);
        }
        self.entries(name, value.get_ref(), known)
    }

    /// The tables `[KIND.NAME]`; each entry's value is a table. `form` is what they look like.
    pub(super) fn named<'t, 'i>(
        &mut self,
        kind: &str,
        value: &'t Spanned<DeValue<'i>>,
        form: &str,
    ) -> Vec<Entry<'t, 'i>> {
        let Some(tables) = value.get_ref().as_table() else {
            let message = format!("must be tables: [{kind}.NAME]");
            self.problem(value.span().start, kind, &message);
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (key, value) in tables {
            let (at, name) = (key.span().start, key.get_ref().as_ref());
            let place = format!("{kind}.{name}");
            if value.get_ref().is_table() {
                entries.push(Entry { name, place, at, value: value.get_ref() });
            } else {
                self.problem(value.span().start, &place, &format!("must be a table: {form}"));
            }
        }
        entries
    }

    /// The tables `[[KIND]]`, each with the byte where it begins.
    pub(super) fn rows<'t, 'i>(
        &mut self,
        kind: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Vec<(usize, &'t DeTable<'i>)> {
        let rows = value.get_ref().as_array();
        let Some(rows) = rows.filter(|rows| rows.iter().all(|row| row.get_ref().is_table())) else {
            self.problem(value.span().start, kind, &format!("must be tables: [[{kind}]]"));
            return Vec::new();
        };
        let table =
            |row: &'t Spanned<DeValue<'i>>| Some((row.span().start, row.get_ref().as_table()?));
        rows.iter().filter_map(table).collect()
    }

    /// Notes that a key is not known, and the known one that was meant.
    pub(super) fn unknown(&mut self, at: usize, place: &str, key: &str, known: &[&'static str]) {
        let message = match (elsewhere(key), nearest(key, known.iter().copied())) {
            (Some(elsewhere), _) => elsewhere,
            (None, Some(near)) => format!("unknown key; did you mean `{near}`?"),
            (None, None) => format!("unknown key; known are {}", known.join(", ")),
        };
        self.problem(at, place, &message);
    }

    /// Notes that a value is not what is allowed, and shows it.
    pub(super) fn wrong(&mut self, entry: &Entry<'_, '_>, allowed: &str) {
        let message = format!("must be {allowed}, got {}", plain(entry.value));
        self.problem(entry.at, &entry.place, &message);
    }

    /// A text that is not blank.
    pub(super) fn text(&mut self, entry: &Entry<'_, '_>, allowed: &str) -> Option<String> {
        let text = entry.value.as_str().map(str::trim).filter(|text| !text.is_empty());
        if text.is_none() {
            self.wrong(entry, allowed);
        }
        text.map(str::to_owned)
    }

    pub(super) fn boolean(&mut self, entry: &Entry<'_, '_>) -> Option<bool> {
        let value = entry.value.as_bool();
        if value.is_none() {
            self.wrong(entry, "true or false");
        }
        value
    }

    /// The name of an environment variable. The value is not shown: people write keys here.
    pub(super) fn variable(&mut self, entry: &Entry<'_, '_>, such_as: &str) -> Option<Variable> {
        match entry.value.as_str().filter(|name| is_variable(name)) {
            Some(name) => {
                let place = self.place(entry.at, &entry.place);
                Some(Variable { name: name.to_owned(), place })
            }
            None => {
                let message =
                    format!("must be the name of an environment variable, such as {such_as}");
                self.problem(entry.at, &entry.place, &message);
                None
            }
        }
    }

    pub(super) fn address(&mut self, entry: &Entry<'_, '_>) -> Option<SocketAddr> {
        let address = entry.value.as_str().and_then(listen_address);
        if address.is_none() {
            self.wrong(entry, LISTEN);
        }
        address
    }
}

/// Where a key belongs that stands in a table which does not know it.
pub(super) fn elsewhere(key: &str) -> Option<String> {
    let key = TABLES.iter().find(|known| **known == key)?;
    Some(match *key {
        "listen" | "allowed_hosts" | "allow_unmetered" | "header_policies" => {
            format!("unknown key here; `{key}` stands at the top of the file, before all tables")
        }
        "policy" | "upstream" | "shape" => {
            format!("unknown key here; `[{key}.NAME]` is a table of its own")
        }
        "price" | "route" => format!("unknown key here; `[[{key}]]` is a table of its own"),
        _ => format!("unknown key here; `[{key}]` is a table of its own"),
    })
}

/// What a listen address may be.
pub(crate) const LISTEN: &str = "an address and a port such as 127.0.0.1:4141, [::1]:4141 or localhost:4141 (port 0: a free one)";

/// An address to listen on. Names other than `localhost` are not looked up: what they stand for
/// decides who can connect.
pub(crate) fn listen_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port))),
        None => text.parse().ok(),
    }
}

fn is_variable(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}
