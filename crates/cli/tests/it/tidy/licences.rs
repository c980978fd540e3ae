//! Licences, bans and sources of dependencies.

use super::*;

/// As `cargo deny` checks them, without a tool: for every platform that `deny.toml` lists.
#[test]
fn licences_are_allowed() {
    let allowed = texts(&deny()["licenses"]["allow"]);
    assert!(allowed.contains("MIT"), "deny.toml could not be read: {allowed:?}");
    let Some(metadata) = with_dependencies() else { return };
    assert!(metadata.packages.len() > 100, "where are the dependencies?");
    let licence = |package: &Package| package.license.clone().unwrap_or_default();
    let wrong: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| !satisfied(&licence(package).replace('/', " OR "), &allowed))
        .map(|package| format!("{}: {:?}", package.name, licence(package)))
        .collect();
    nothing("licences that deny.toml does not allow", &wrong);
}

pub(super) fn deny() -> toml::Table {
    read(&root().join("deny.toml")).parse().expect("deny.toml is TOML")
}

pub(super) fn texts(list: &toml::Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// An SPDX expression, tried innermost parentheses first. Of a `WITH` nothing is known.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    if let Some((before, rest)) = expression.rsplit_once('(') {
        let Some((inner, after)) = rest.split_once(')') else { return false };
        let value = if satisfied(inner, allowed) { "true" } else { "false" };
        return satisfied(&format!("{before}{value}{after}"), allowed);
    }
    let holds = |licence: &str| licence == "true" || allowed.contains(licence);
    expression.split(" OR ").any(|all| all.split(" AND ").all(|licence| holds(licence.trim())))
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "Apache-2.0"].map(str::to_owned).into();
    for (expression, holds) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("MIT AND GPL-3.0", false),
        ("(Apache-2.0 OR GPL-3.0) AND MIT", true),
        ("(Apache-2.0 OR MIT) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("Apache-2.0 WITH LLVM-exception OR MIT", true),
        ("(MIT", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), holds, "{expression}");
    }
}

/// What `deny.toml` bans is not in the lock, or only below the crates that may have it.
#[test]
fn banned_crates_are_absent() {
    let lock: toml::Table = read(&root().join("Cargo.lock")).parse().expect("the lock is TOML");
    let packages = lock["package"].as_array().expect("packages");
    let deny = deny();
    let banned = deny["bans"]["deny"].as_array().expect("bans");
    assert!(packages.len() > 100 && !banned.is_empty());
    let name = |package: &toml::Value| package["name"].as_str().unwrap_or_default().to_owned();
    let mut wrong = Vec::new();
    for ban in banned {
        let crate_name = ban["crate"].as_str().expect("a name");
        let Some(wrappers) = ban.get("wrappers").map(texts) else {
            wrong.extend(packages.iter().map(name).filter(|name| name == crate_name));
            continue;
        };
        // A dependency is a name, with a version behind it where there are two.
        let depends = |package: &&toml::Value| {
            let all = package.get("dependencies").map(texts).unwrap_or_default();
            all.iter().any(|dependency| dependency.split(' ').next() == Some(crate_name))
        };
        let above = packages.iter().filter(depends).map(name);
        let above = above.filter(|name| !wrappers.contains(name));
        wrong.extend(above.map(|name| format!("{crate_name} below {name}")));
    }
    nothing("crates that deny.toml bans", &wrong);
}

/// As `wildcards = "deny"` has it: a dependency of another project says which versions will do.
#[test]
fn no_version_is_left_open() {
    let metadata = metadata();
    let open = members(&metadata).flat_map(|package| {
        let all = package.dependencies.iter().filter(|dependency| dependency.path.is_none());
        all.filter(|dependency| dependency.req.to_string() == "*")
            .map(|dependency| format!("{}: {}", package.name, dependency.name))
    });
    nothing("dependencies of any version", &open.collect::<Vec<_>>());
}

/// The lock names one registry and no mirror, so that it builds anywhere.
#[test]
fn dependencies_come_from_one_registry() {
    let lock = read(&root().join("Cargo.lock"));
    let sources: BTreeSet<_> =
        lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    let one = "\"registry+https://github.com/rust-lang/crates.io-index\"";
    assert_eq!(sources, [one].into());
}
