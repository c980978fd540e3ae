use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Identity, SessionName};

fn of(headers: &[(&str, &str)], user_id: Option<&str>) -> Identity {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::try_from(*name).unwrap();
        map.insert(name, HeaderValue::try_from(*value).unwrap());
    }
    Identity::from_headers(&map, user_id)
}

fn client(name: &str) -> Option<SessionName> {
    Some(SessionName::Client(name.into()))
}

#[test]
fn clients_name_their_sessions_and_agents() {
    let main = of(&[("x-claude-code-session-id", "s")], None);
    let sub = of(&[("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")], None);
    assert_eq!((main.session.clone(), main.agent.clone()), (client("s"), None));
    assert_eq!((sub.session.clone(), sub.agent.as_deref()), (client("s"), Some("a")));
    assert_ne!(main.scope_name(), sub.scope_name());
    let child = of(&[("x-session-id", "own"), ("x-parent-session-id", "root")], None);
    assert_eq!((child.session, child.agent.as_deref()), (client("root"), Some("own")));
    let root = of(&[("session-id", "s"), ("thread-id", "s")], None);
    assert_eq!((root.session, root.agent), (client("s"), None));
}

#[test]
fn a_user_id_may_carry_the_session() {
    let json = r#"{"device_id":"d","account_uuid":"","session_id":"abc"}"#;
    assert_eq!(of(&[], Some(json)).session, client("abc"));
    assert_eq!(of(&[], Some(r#"{"session_id":"a\u0062\"c"}"#)).session, client("ab\"c"));
    assert_eq!(of(&[], Some("user_1_account__session_abc")).session, client("abc"));
    for none in ["", "somebody", "{}", "[]", "[null]", r#"{"session_id":""}"#] {
        assert_eq!(of(&[], Some(none)).session, None, "{none}");
    }
    for none in [r#"{"session_id":7,"x":"a_session_b"}"#, "\"a_session_b\"", "[\"a_session_b\"]"] {
        assert_eq!(of(&[], Some(none)).session, None, "{none}");
    }
}

#[test]
fn what_the_user_names_goes_before_what_the_client_names() {
    let both = of(&[("x-softland-session", "mine"), ("x-claude-code-session-id", "s")], None);
    assert_eq!(both.session, Some(SessionName::Given("mine".into())));
    let run = of(&[("x-softland-run", "r")], None);
    assert_eq!(
        (run.session, run.run.as_deref()),
        (Some(SessionName::Given("r".into())), Some("r"))
    );
}

#[test]
fn an_empty_name_is_none() {
    for value in ["", " "] {
        let none = of(&[("x-softland-session", value), ("x-claude-code-session-id", value)], None);
        assert_eq!((none.session.clone(), none.scope_name()), (None, None));
    }
}

#[test]
fn scopes_cannot_be_made_to_meet() {
    let one = of(&[("x-claude-code-session-id", "a:1:b"), ("x-claude-code-agent-id", "c")], None);
    let two = of(&[("x-claude-code-session-id", "a"), ("x-claude-code-agent-id", "b:1:c")], None);
    assert_ne!(one.scope_name(), two.scope_name());
}
