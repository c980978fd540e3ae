use super::settings::{env, settings};
use super::*;

const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn keys_become_what_the_gateway_is_told() {
    let text = format!(
        "[[key]]\nname = 'ana'\ntoken_env = 'KEY'\naccount = 'acme/search/ana'\npolicy = 'coding'\n\
         [[key]]\nname = 'bo'\ntoken_sha256 = '{DIGEST}'\npolicies = ['strict']\n\
         [clients]\ntokens_env = 'TOKENS'\n[policy.strict]\n\
         [upstream.anthropic]\napi_key_env = 'KEY'\n"
    );
    let settings = settings(&text, &Overrides::default()).unwrap();
    let [ana, bo, one, two] = &settings.keys[..] else { panic!("{:?}", settings.keys) };
    assert_eq!(ana.digest, softland_gateway::digest_token(b"sk-hunter2"));
    assert_eq!((&*ana.key.name, ana.key.account.as_deref()), ("ana", Some("acme/search/ana")));
    assert_eq!(ana.key.policy.as_deref(), Some("coding"));
    assert_eq!(ana.key.policies.as_deref(), Some(&["coding".to_owned()][..]), "its own only");
    assert_eq!(bo.digest.to_string(), DIGEST);
    assert_eq!(bo.key.policies.as_deref(), Some(&["strict".to_owned()][..]));
    assert_eq!((&bo.key.policy, &bo.key.account), (&None, &None));
    for (key, token) in [(one, "one"), (two, "two")] {
        assert_eq!(*key, softland_gateway::KeyEntry::from_token(token));
        assert!(key.digest.to_string().starts_with(&*key.key.name) && key.key.name.len() == 8);
    }
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn each_mistake_in_a_key_is_named_and_no_token_shown() {
    let token = "token_env = 'KEY'";
    for (rows, wanted) in [
        (token.to_owned(), "c.toml:1: key.name: is required"),
        ("name = 'a'".to_owned(), "needs either token_env"),
        (format!("name = 'a'\n{token}\ntoken_sha256 = '{DIGEST}'"), "needs either token_env"),
        (
            "name = 'a'\ntoken_sha256 = 'sk-hunter2'".to_owned(),
            "c.toml:3: key.token_sha256: must be",
        ),
        ("name = 'a'\ntoken_env = 'sk-hunter2'".to_owned(), "key.token_env: must be the name"),
        (format!("name = 'a/b'\n{token}"), "key.name: must be a name"),
        (format!("name = 'a b'\n{token}"), "key.name: must be a name"),
        (format!("name = ''\n{token}"), "key.name: must be a name"),
        (format!("name = 'a'\n{token}\naccount = 'acme//x'"), "key.account: must be a path"),
        (format!("name = 'a'\n{token}\naccount = '/acme'"), "key.account: must be a path"),
        (format!("name = 'a'\n{token}\naccount = '../acme'"), "key.account: must be a path"),
        (format!("name = 'a'\n{token}\naccount = 'acme/.'"), "and none of them . or .."),
        (format!("name = '..'\n{token}"), "key.name: must be a name"),
        (format!("name = 'a'\n{token}\naccount = 'acme/*'"), "key.account: must be a path"),
        (format!("name = 'a'\n{token}\npolicy = 'none'"), "no policy is named `none`"),
        (format!("name = 'a'\n{token}\npolicies = ['coding']"), "no policy of this file"),
        (format!("name = 'a'\n{token}\nacount = 'x'"), "did you mean `account`?"),
    ] {
        let problems = problems(&format!("[[key]]\n{rows}\n"));
        assert_eq!(problems.len(), 1, "{rows}\n{problems:?}");
        assert!(problems[0].contains(wanted) && !problems[0].contains("hunter2"), "{problems:?}");
    }
    let twice = "[[key]]\nname = 'a'\ntoken_env = 'A'\n[[key]]\nname = 'a'\ntoken_env = 'B'\n";
    let wanted = "c.toml:4: key.name: the name \"a\" stands in c.toml:1: key, too";
    assert_eq!(problems(twice), [wanted]);
}

#[test]
fn two_keys_may_not_have_one_token() {
    let text = "[[key]]\nname = 'a'\ntoken_env = 'KEY'\n[[key]]\nname = 'b'\ntoken_env = 'KEY'\n";
    let problems = settings(text, &Overrides::default()).unwrap_err();
    assert_eq!(problems, ["c.toml:4: key: the keys a and b have one token"]);
    let text = "[[key]]\nname = 'a'\ntoken_env = 'NONE'\n";
    let problems = settings(text, &Overrides::default()).unwrap_err();
    assert!(problems[0].contains("the variable NONE is not set"), "{problems:?}");
    assert!(env("NONE").is_none());
}

#[test]
fn keys_are_tokens_enough_off_loopback() {
    let text = "listen = '0.0.0.0:4141'\n[upstream.anthropic]\napi_key_env = 'KEY'\n";
    assert!(settings(text, &Overrides::default()).is_err());
    let with_key = format!("{text}[[key]]\nname = 'a'\ntoken_sha256 = '{DIGEST}'\n");
    assert!(settings(&with_key, &Overrides::default()).is_ok());
}
