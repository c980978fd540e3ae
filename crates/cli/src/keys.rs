//! `softland keys`: changes the keys in the shared store of a fleet of gateways.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use softland_agent::core::find_nearest;
use softland_agent::core::policy::Policy;
use softland_gateway::govern::key_store::{
    KeyChangeError, StoredKey, add_key, revoke_key, rotate_key,
};
use softland_gateway::govern::{is_account, is_key_name};
use softland_gateway::{KeyStore, TokenDigest, digest_token, make_key_token};
use softland_ledger::format_timestamp;
use unicode_width::UnicodeWidthStr as _;

use crate::args::{KeysAction, KeysArgs};
use crate::config::{ACCOUNT, Config, KEY_NAME, unknown_policy_message};
use crate::failure::{Failure, status};
use crate::render::{Writer, harmless_line};
use crate::runs::{format_minute, output_status};
use crate::shared_state;

/// Changes or lists keys.
pub(crate) fn run_command(args: &KeysArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let config = Config::load(&args.config).map_err(Failure::from_messages)?;
    let asked = check_action(&args.action, &config)?;
    let env = |name: &str| std::env::var(name).ok();
    let shared = config.resolve_shared(&env).map_err(Failure::from_messages)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::usage(format!("the store cannot be asked: {error}")))?;
    runtime.block_on(async {
        let stores = shared_state::connect(&shared)?;
        let Some(store) = stores.map(|stores| stores.keys) else {
            return Err(no_store(args));
        };
        change_keys(&*store, args, asked, writer).await
    })
}

/// The failure for a config whose shared store has no keys.
fn no_store(args: &KeysArgs) -> Failure {
    Failure::usage(format!(
        "{}: names no shared store, in which keys could be; add [shared] url = \
         \"redis://HOST:PORT\", or define the keys in the config itself ([[key]]), which SIGHUP \
         reads again",
        args.config.display()
    ))
}

/// A key to add, and its token.
type NewKey = (StoredKey, String);

/// Checks the arguments against the config. Returns the key to add, with its token.
fn check_action(action: &KeysAction, config: &Config) -> Result<Option<NewKey>, Failure> {
    let KeysAction::Add { name, account, policy, policies } = action else { return Ok(None) };
    if !is_key_name(name) {
        return Err(Failure::usage(format!("NAME must be {KEY_NAME}, got {name:?}")));
    }
    if let Some(account) = account.as_deref().filter(|account| !is_account(account)) {
        return Err(Failure::usage(format!("--account must be {ACCOUNT}, got {account:?}")));
    }
    if let Some(place) = config.find_key(name) {
        return Err(Failure::usage(format!(
            "{place}: the config has a key of the name {name:?}, and that would go before the one in \
             the shared store; choose another name, or take the config's away"
        )));
    }
    if let Some(name) = policy
        .as_deref()
        .filter(|name| config.find_policy(name).is_none() && !Policy::NAMES.contains(name))
    {
        return Err(Failure::usage(format!("--policy: {}", unknown_policy_message(name, config))));
    }
    let unknown = policies.iter().flatten().find(|name| config.find_policy(name).is_none());
    if let Some(name) = unknown {
        return Err(Failure::usage(format!("--policies: {}", no_own_policy(name, config))));
    }
    let policies = policies.clone();
    let (token, token_sha256) = make_token()?;
    let key = StoredKey {
        account: account.as_deref().map(Into::into),
        policy: policy.clone(),
        policies: policies.unwrap_or_else(|| policy.iter().cloned().collect()),
        ..StoredKey::new(name, token_sha256, now_ms())
    };
    Ok(Some((key, token)))
}

/// Returns the message for a policy that `x-softland-policy` cannot select.
fn no_own_policy(name: &str, config: &Config) -> String {
    let names: Vec<&str> = config.policy_names().collect();
    let there = match names.as_slice() {
        [] => "it defines none".to_owned(),
        names => format!("it defines {}", names.join(", ")),
    };
    let near = find_nearest(name, names.iter().copied());
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("the config does not define `{name}` ([policy.{name}]); {there}{near}")
}

async fn change_keys(
    store: &dyn KeyStore,
    args: &KeysArgs,
    asked: Option<NewKey>,
    writer: &mut Writer,
) -> Result<ExitCode, Failure> {
    match &args.action {
        KeysAction::List { json } => {
            let keys = store.read_keys(None).await;
            let keys = keys.map_err(|error| failure(&KeyChangeError::Away(error), args))?;
            let keys = keys.unwrap_or_default();
            for name in &keys.unreadable {
                let text =
                    format!("the key {name} was written by a newer softland, and is not listed");
                writer.write_warning(&text);
            }
            list_keys(&keys.keys, *json, writer);
        }
        KeysAction::Add { name, .. } => {
            let Some((key, token)) = asked else { return Ok(ExitCode::SUCCESS) };
            let key = add_key(store, key).await.map_err(|error| failure(&error, args))?;
            writer.write_result(&(token + "\n"));
            writer.write_note(&format!(
                "added {name}{}; this is its token, which is not shown again. The gateways accept it \
                 within 5 seconds",
                describe_key(&key)
            ));
        }
        KeysAction::Rotate { name, grace } => {
            let (token, digest) = make_token()?;
            let changed = rotate_key(store, name, digest, (now_ms(), grace.0)).await;
            let key = changed.map_err(|error| failure(&error, args))?;
            writer.write_result(&(token + "\n"));
            let before = match key.previous {
                Some(before) => format!("accepted until {}", format_timestamp(before.until)),
                None => "refused within 5 seconds".to_owned(),
            };
            writer.write_note(&format!(
                "this is the new token of {name}, which is not shown again; the one before is {before}"
            ));
        }
        KeysAction::Revoke { name } => {
            let changed = revoke_key(store, name, now_ms()).await;
            let key = changed.map_err(|error| failure(&error, args))?;
            let at = key.revoked.map(format_timestamp).unwrap_or_default();
            writer.write_note(&format!(
                "{name} is revoked since {at}; the gateways refuse its tokens within 5 seconds"
            ));
        }
    }
    Ok(output_status(writer))
}

/// Returns a new token and its digest.
fn make_token() -> Result<(String, TokenDigest), Failure> {
    let token = make_key_token();
    let token = token.ok_or_else(|| {
        Failure::usage("the system gives no randomness for a token; nothing was changed")
    })?;
    let digest = digest_token(token.as_bytes());
    Ok((token, digest))
}

/// Says why a key was not changed, and what can be done.
fn failure(error: &KeyChangeError, args: &KeysArgs) -> Failure {
    let config = args.config.display();
    let (KeysAction::Add { name, .. }
    | KeysAction::Rotate { name, .. }
    | KeysAction::Revoke { name }) = &args.action
    else {
        return Failure::usage(error.to_string()).with_status(status::PROVIDER);
    };
    match error {
        KeyChangeError::Unknown => Failure::usage(format!(
            "there is no key named {name} in the shared store; softland keys list --config {config} \
             lists them (a key of the config is changed there)"
        )),
        KeyChangeError::Taken => Failure::usage(format!(
            "there is a key named {name} in the shared store; choose another name, or give it a new \
             token: softland keys rotate {name} --config {config}"
        )),
        KeyChangeError::Revoked(at) => Failure::usage(format!(
            "the key {name} was revoked at {}, and its name is not given again, since its runs and its \
             spend go by it; add one of another name",
            format_timestamp(*at)
        )),
        KeyChangeError::Away(_) => Failure::usage(format!(
            "{error}; whether {name} was changed is not known: softland keys list --config {config}"
        ))
        .with_status(status::PROVIDER),
        KeyChangeError::Contended => Failure::usage(format!("{error}; try it again")),
        _ => Failure::usage(format!("{name}: {error}")),
    }
}

/// Returns what a key has besides its name.
fn describe_key(key: &StoredKey) -> String {
    let account = key.account.as_deref().map(|account| format!("account {account}"));
    let policy = key.policy.as_deref().map(|policy| format!("policy {policy}"));
    let parts: Vec<String> = account.into_iter().chain(policy).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn list_keys(keys: &[StoredKey], json: bool, writer: &mut Writer) {
    if json {
        let lines: String = keys.iter().map(|key| to_json(key).to_string() + "\n").collect();
        writer.write_result(&lines);
    } else if keys.is_empty() {
        writer.write_note("the shared store has no keys; softland keys add makes one");
    } else {
        writer.write_result(&render_table(keys));
    }
}

/// Renders a heading and a line for each key, with aligned columns.
fn render_table(keys: &[StoredKey]) -> String {
    let head = ["NAME", "ACCOUNT", "POLICY", "MAY SELECT", "CREATED", "STATE"].map(str::to_owned);
    let rows: Vec<[String; 6]> = [head].into_iter().chain(keys.iter().map(to_cells)).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.width().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line += cell;
            line += &" ".repeat(width.saturating_sub(cell.width()) + 2);
        }
        text += &(harmless_line(line.trim_end(), None) + "\n");
    }
    text
}

fn to_cells(key: &StoredKey) -> [String; 6] {
    let named = |name: Option<&str>| name.unwrap_or("-").to_owned();
    let may = Some(key.policies.join(",")).filter(|names| !names.is_empty());
    let state = match (key.revoked, key.previous, key.rotated) {
        (Some(at), ..) => format!("revoked {}", format_minute(at)),
        (None, Some(before), _) if before.until > now_ms() => {
            format!("in force, the token before until {}", format_minute(before.until))
        }
        (None, _, Some(at)) => format!("in force, with a token of {}", format_minute(at)),
        (None, _, None) => "in force".to_owned(),
    };
    let (account, policy) = (key.account.as_deref(), key.policy.as_deref());
    let created = format_minute(key.created);
    [key.name.to_string(), named(account), named(policy), named(may.as_deref()), created, state]
}

fn to_json(key: &StoredKey) -> serde_json::Value {
    let time = |at: Option<u64>| at.map(format_timestamp);
    json!({
        "name": key.name, "token_sha256": key.token_sha256, "account": key.account,
        "policy": key.policy, "policies": key.policies, "created": format_timestamp(key.created),
        "rotated": time(key.rotated), "previous_until": time(key.previous.map(|before| before.until)),
        "revoked": time(key.revoked),
    })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
