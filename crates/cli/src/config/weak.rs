//! Tokens that can be guessed.

use std::net::SocketAddr;

use super::resolve::Env;
use super::{Config, Overrides, Variable};

/// The fewest characters of a token that is not guessed, and the fewest different ones.
const LENGTH: usize = 16;
const DIFFERENT: usize = 8;

impl Config {
    /// Warns of tokens that can be guessed, where other machines can reach the gateway. Variables
    /// that are not set are passed over.
    pub(crate) fn list_weak_tokens(&self, asked: &Overrides, env: Env<'_>) -> Vec<String> {
        let gateway = &self.gateway;
        let own = self.resolve_listen(asked);
        let admin = gateway.admin_listen.unwrap_or(own);
        let clients = gateway.client_tokens.iter().map(|variable| (variable, own));
        let keys = gateway.keys.iter().filter_map(|key| Some((key.token_variable()?, own)));
        let admin = gateway.admin_token.iter().map(|variable| (variable, admin));
        clients
            .chain(keys)
            .chain(admin)
            .flat_map(|(at, address)| warn_weak(at, address, env))
            .collect()
    }
}

/// Warns of the tokens of one variable, if the address can be reached.
fn warn_weak(variable: &Variable, address: SocketAddr, env: Env<'_>) -> Vec<String> {
    if address.ip().is_loopback() {
        return Vec::new();
    }
    let Variable { name, place } = variable;
    let value = env(name).unwrap_or_default();
    let tokens = value.split([',', '\n', '\r']).map(str::trim).filter(|token| !token.is_empty());
    let weak = tokens.filter(|token| is_weak(token));
    // The token itself is not shown.
    let warn = |token: &str| {
        let length = token.chars().count();
        format!(
            "{place}: a token of {length} characters in {name} can be guessed, and {address} can \
             be reached from other machines; use a random one, such as `openssl rand -hex 32` \
             prints"
        )
    };
    weak.map(warn).collect()
}

fn is_weak(token: &str) -> bool {
    let mut different: Vec<char> = token.to_lowercase().chars().collect();
    let length = different.len();
    different.sort_unstable();
    different.dedup();
    length < LENGTH || different.len() < DIFFERENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d09_tokens_that_can_be_guessed_are_named_where_others_reach_them() {
        let env = |name: &str| {
            Some(match name {
                "WEAK" => "x, test\nchangeme,changemechangeme,0123456789abcdef".to_owned(),
                "SAME" => "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_owned(),
                "GOOD" => "9f86d081884c7d659a2feaa0c55ad015".to_owned(),
                _ => return None,
            })
        };
        let open = "listen = '0.0.0.0:4141'\n";
        for (text, weak) in [
            (format!("{open}[clients]\ntokens_env = 'WEAK'\n"), 4),
            (format!("{open}[clients]\ntokens_env = 'SAME'\n"), 1),
            (format!("{open}[clients]\ntokens_env = 'GOOD'\n"), 0),
            (format!("{open}[clients]\ntokens_env = 'UNSET'\n"), 0),
            (format!("{open}[[key]]\nname = 'ana'\ntoken_env = 'SAME'\n"), 1),
            (format!("{open}[admin]\ntoken_env = 'SAME'\n"), 1),
            (format!("{open}[admin]\nlisten = '127.0.0.1:1'\ntoken_env = 'SAME'\n"), 0),
            ("[clients]\ntokens_env = 'WEAK'\n".to_owned(), 0),
            ("[admin]\nlisten = '10.0.0.7:1'\ntoken_env = 'SAME'\n".to_owned(), 1),
        ] {
            let config = Config::parse("c.toml", &text).unwrap();
            let warnings = config.list_weak_tokens(&Overrides::default(), &env);
            assert_eq!(warnings.len(), weak, "{text}: {warnings:?}");
            assert!(warnings.iter().all(|warning| !warning.contains("change")), "{warnings:?}");
        }
    }
}
