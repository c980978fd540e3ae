//! The keys of a gateway's own (`[[key]]`): whose token, which account, which policies.

use softland_gateway::TokenDigest;
use softland_gateway::govern::{is_account, is_key_name};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entry::Entry;
use super::gateway::ReferenceKind;
use super::{Config, ConfigReader, Variable};

/// One `[[key]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KeyConfig {
    pub(super) name: String,
    /// Where its token comes from; `None` only if the file has a problem.
    pub(super) token: Option<KeyToken>,
    pub(super) account: Option<String>,
    pub(super) policy: Option<String>,
    /// The policies that `x-softland-policy` may select.
    pub(super) policies: Option<Vec<String>>,
    /// The place of the table in the file.
    pub(super) place: String,
}

/// The source of a key's token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KeyToken {
    Variable(Variable),
    Digest(TokenDigest),
}

const KNOWN: [&str; 6] = ["name", "token_env", "token_sha256", "account", "policy", "policies"];
pub(crate) const KEY_NAME: &str =
    "a name of up to 64 letters, digits and any of . _ - @, in quotes";
pub(crate) const ACCOUNT: &str = "a path such as \"acme/search/ana\": parts of letters, digits and any of \
     . _ - @, with / between, and none of them . or ..";
const SHA256: &str = "the SHA-256 digest of the token as 64 hexadecimal digits \
     (printf %s TOKEN | sha256sum)";

impl KeyConfig {
    /// Returns the variable that holds the token, if one does.
    pub(super) fn token_variable(&self) -> Option<&Variable> {
        match &self.token {
            Some(KeyToken::Variable(variable)) => Some(variable),
            Some(KeyToken::Digest(_)) | None => None,
        }
    }
}

impl Config {
    /// Returns the place of the key of this name, if the file has one.
    pub(crate) fn find_key(&self, name: &str) -> Option<&str> {
        self.gateway.keys.iter().find(|key| key.name == name).map(|key| &*key.place)
    }
}

impl ConfigReader<'_> {
    pub(super) fn read_keys(&mut self, value: &Spanned<DeValue<'_>>) {
        for (at, table) in self.read_rows("key", value) {
            let key = self.read_key(at, table);
            let known = self.config.gateway.keys.iter().find(|known| known.name == key.name);
            if let Some(known) = known.filter(|known| !known.name.is_empty()) {
                let message = format!("the name {:?} stands in {}, too", key.name, known.place);
                self.note_problem(at, "key.name", &message);
            }
            self.config.gateway.keys.push(key);
        }
    }

    fn read_key(&mut self, at: usize, table: &DeTable<'_>) -> KeyConfig {
        let mut key = KeyConfig { place: self.format_place(at, "key"), ..KeyConfig::default() };
        let whole = DeValue::Table(table.clone());
        for entry in self.read_entries("key", &whole, &KNOWN) {
            match entry.name {
                "name" => key.name = self.read_key_name(&entry).unwrap_or_default(),
                "token_env" => {
                    let variable =
                        self.read_variable(&entry, "ANA_TOKEN; it holds the key's token");
                    key.token = variable.map(KeyToken::Variable);
                }
                "token_sha256" => key.token = self.read_digest(&entry).map(KeyToken::Digest),
                "account" => key.account = self.read_account(&entry),
                "policy" => key.policy = self.read_reference(&entry, ReferenceKind::Policy),
                _ => key.policies = self.read_policy_names(&entry),
            }
        }
        if !table.contains_key("name") {
            self.note_problem(at, "key.name", &format!("is required: {KEY_NAME}"));
        }
        if table.contains_key("token_env") == table.contains_key("token_sha256") {
            let message = "needs either token_env (a variable that holds the token) or \
                           token_sha256 (its digest)";
            self.note_problem(at, "key", message);
        }
        key
    }

    fn read_key_name(&mut self, entry: &Entry<'_, '_>) -> Option<String> {
        let name = entry.value.as_str().filter(|name| is_key_name(name));
        if name.is_none() {
            self.note_wrong_value(entry, KEY_NAME);
        }
        name.map(str::to_owned)
    }

    fn read_account(&mut self, entry: &Entry<'_, '_>) -> Option<String> {
        let account = entry.value.as_str().filter(|path| is_account(path));
        if account.is_none() {
            self.note_wrong_value(entry, ACCOUNT);
        }
        account.map(str::to_owned)
    }

    /// Reads a digest. A value that is none is not shown: people paste tokens here.
    fn read_digest(&mut self, entry: &Entry<'_, '_>) -> Option<TokenDigest> {
        let digest = entry.value.as_str().and_then(TokenDigest::from_hex);
        if digest.is_none() {
            self.note_problem(entry.at, &entry.place, &format!("must be {SHA256}"));
        }
        digest
    }
}
