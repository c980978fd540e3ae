//! The identity of a request, by the names that its client sends (`docs/governing.md` §6).
//! Histories without any name are found by their content, in the [store](crate::store).

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::key::ClientKey;

#[cfg(test)]
mod tests;

/// The names that a request carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The session.
    pub(crate) session: Option<SessionName>,
    /// The client's own name of the session, whoever named the session that shares money.
    pub(crate) client: Option<Arc<str>>,
    /// The agent within the session; `None` is the session's own agent.
    pub(crate) agent: Option<Arc<str>>,
    /// `x-softland-run`: one account over all prompts.
    pub(crate) run: Option<Arc<str>>,
    /// `x-softland-policy`
    pub(crate) policy: Option<Arc<str>>,
    /// The name of the key that asks.
    pub(crate) key: Option<Arc<str>>,
}

/// A session's name, and the party that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionName {
    /// A name from the user, in `x-softland-session` or `x-softland-run`: usually one header for
    /// all requests of a program, so that it may carry several conversations.
    Given(Arc<str>),
    /// A name from the client, for what the client considers one session.
    Client(Arc<str>),
}

impl SessionName {
    pub(crate) fn text(&self) -> &Arc<str> {
        match self {
            Self::Given(text) | Self::Client(text) => text,
        }
    }
}

/// The headers in which clients name their session and the agent within it, taken from what each
/// client sends.
const CLIENTS: [ClientHeaders; 6] = [
    // Claude Code, Claude Agent SDK
    ClientHeaders {
        session: "x-claude-code-session-id",
        agent: Some("x-claude-code-agent-id"),
        parent: None,
        own: true,
    },
    // opencode: a sub-agent has a session of its own, and names its parent's.
    ClientHeaders {
        session: "x-session-id",
        agent: None,
        parent: Some("x-parent-session-id"),
        own: true,
    },
    // Codex: a sub-agent's thread is its own, the session is the root's.
    ClientHeaders { session: "session-id", agent: Some("thread-id"), parent: None, own: true },
    // goose 1.34
    ClientHeaders { session: "agent-session-id", agent: None, parent: None, own: true },
    // Mistral Vibe 3.0
    ClientHeaders { session: "x-affinity", agent: None, parent: None, own: true },
    // OpenHands SDK 1.58, and programs that send it through LiteLLM for all their requests.
    ClientHeaders { session: "x-litellm-session-id", agent: None, parent: None, own: false },
];

/// The names of our own headers.
const OWN: [&str; 3] = ["x-softland-session", "x-softland-run", "x-softland-policy"];

struct ClientHeaders {
    session: &'static str,
    agent: Option<&'static str>,
    /// The header that names the parent's session, if a sub-agent has a session id of its own.
    parent: Option<&'static str>,
    /// True if the client gives each of its conversations a name of its own.
    own: bool,
}

/// Returns true if a header of that name is read here.
fn is_read(name: &str) -> bool {
    let is = |known: &Option<&str>| *known == Some(name);
    OWN.contains(&name)
        || CLIENTS
            .iter()
            .any(|client| client.session == name || is(&client.agent) || is(&client.parent))
}

/// The longest name that is accepted, in bytes.
const LONGEST: usize = 256;

impl Identity {
    /// Reads the headers and, if they name no session, the body's `metadata.user_id`.
    pub(crate) fn from_headers(headers: &HeaderMap, user_id: Option<&str>) -> Self {
        // One pass over the headers: each look-up by text would first build a header name of it.
        let named = headers.iter().filter(|(name, _)| is_read(name.as_str()));
        let named: Vec<(&HeaderName, &HeaderValue)> = named.collect();
        let get = |name: &str| {
            let (_, value) = named.iter().find(|(named, _)| named.as_str() == name)?;
            let value = value.to_str().ok()?.trim();
            (!value.is_empty() && value.len() <= LONGEST).then(|| Arc::from(value))
        };
        let run = get("x-softland-run");
        let mut identity =
            Self { run: run.clone(), policy: get("x-softland-policy"), ..Self::default() };
        for client in &CLIENTS {
            let Some(own) = get(client.session) else { continue };
            match client.parent.and_then(get) {
                Some(parent) => {
                    identity.session = Some(SessionName::Client(parent));
                    identity.agent = Some(own);
                }
                None if !client.own => identity.session = Some(SessionName::Given(own)),
                None => {
                    identity.agent = client.agent.and_then(get).filter(|agent| *agent != own);
                    identity.session = Some(SessionName::Client(own));
                }
            }
            break;
        }
        if identity.session.is_none() {
            identity.session = user_id.and_then(session_of).map(SessionName::Client);
        }
        if let Some(SessionName::Client(own)) = &identity.session {
            identity.client = Some(Arc::clone(own));
        }
        if let Some(given) = get("x-softland-session").or(run) {
            identity.session = Some(SessionName::Given(given));
        }
        identity
    }

    /// Sets the key that asks. The same names of another key are other names.
    pub(crate) fn with_key(mut self, key: Option<&ClientKey>) -> Self {
        self.key = key.map(|key| Arc::clone(&key.name));
        self
    }

    /// Adds the provider's conversation, which is the session if nothing else names one.
    pub(crate) fn in_conversation(mut self, id: Option<&str>) -> Self {
        let id = id.filter(|id| !id.is_empty() && id.len() <= LONGEST);
        self.session = self.session.or_else(|| Some(SessionName::Client(Arc::from(id?))));
        self
    }

    /// Returns the name under which the conversation is stored; `None` if it is found by its
    /// content.
    pub(crate) fn scope_name(&self) -> Option<Arc<str>> {
        let session = self.session.as_ref()?;
        let kind = match session {
            SessionName::Given(_) => "given",
            SessionName::Client(_) => "client",
        };
        let agent = self.agent.as_deref().unwrap_or_default();
        let policy = self.policy.as_deref().unwrap_or_default();
        let run = self.run.as_deref().unwrap_or_default();
        let client = self.client.as_deref().unwrap_or_default();
        // The lengths keep the parts apart, whatever is in them.
        let session = session.text();
        let mut scope = String::with_capacity(
            kind.len() + session.len() + client.len() + agent.len() + policy.len() + run.len() + 20,
        );
        scope.push_str(kind);
        for part in [session, client, agent, policy] {
            scope.push(':');
            scope.push_str(itoa::Buffer::new().format(part.len()));
            scope.push(':');
            scope.push_str(part);
        }
        scope.push(':');
        scope.push_str(run);
        Some(scope.into())
    }
}

/// A `metadata.user_id` that is JSON.
#[derive(Deserialize)]
struct UserId<'a> {
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
}

/// Returns the session in a `metadata.user_id`: JSON in text, or `…_session_ID` in older versions.
fn session_of(user_id: &str) -> Option<Arc<str>> {
    let found = match user_id.trim_start().as_bytes().first()? {
        b'{' => serde_json::from_str::<UserId<'_>>(user_id).ok()?.session_id?,
        // JSON as well, but not from any client.
        b'[' | b'"' => return None,
        _ => Cow::Borrowed(user_id.rsplit_once("_session_")?.1),
    };
    (!found.is_empty() && found.len() <= LONGEST).then(|| Arc::from(found))
}
