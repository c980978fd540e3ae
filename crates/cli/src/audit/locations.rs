//! The folders in which agents keep their sessions, for an audit without a path.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::platform;

/// A function that reads an environment variable.
pub(crate) type OsEnv<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Extensions of VS Code that keep their tasks among its settings.
const EXTENSIONS: [(&str, &str); 3] = [
    ("Cline", "saoudrizwan.claude-dev"),
    ("Roo Code", "rooveterinaryinc.roo-cline"),
    ("Kilo Code", "kilocode.kilo-code"),
];

/// A path that may hold recorded sessions, and the program that writes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionLocation {
    pub(crate) whose: &'static str,
    pub(crate) path: PathBuf,
}

/// Returns the usual locations, existing or not. The variable of each program takes precedence over
/// its default folder.
pub(crate) fn usual_locations(env: OsEnv<'_>) -> Vec<SessionLocation> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = set("HOME").or_else(|| set("USERPROFILE"));
    let below = |path: &str| home.as_ref().map(|home| home.join(path));
    let data = set("XDG_DATA_HOME").or_else(|| below(".local/share"));
    let state = platform::state_folder(&|name| env(name)?.into_string().ok());
    let config = set("XDG_CONFIG_HOME").or_else(|| below(".config"));
    let mut places = Vec::new();
    let mut add = |whose, path: Option<PathBuf>| {
        if let Some(path) = path {
            places.push(SessionLocation { whose, path });
        }
    };
    match env("CLAUDE_CONFIG_DIR").filter(|value| !value.is_empty()) {
        // The variable may hold several folders, separated by commas, as other tools of Claude
        // Code's users read it.
        Some(named) => {
            for folder in named.to_string_lossy().split(',').map(str::trim) {
                add("Claude Code", Some(PathBuf::from(folder).join("projects")));
            }
        }
        None => {
            add("Claude Code", below(".claude/projects"));
            add("Claude Code", config.as_ref().map(|config| config.join("claude/projects")));
        }
    }
    let codex = set("CODEX_HOME").or_else(|| below(".codex"));
    add("Codex", codex.as_ref().map(|codex| codex.join("sessions")));
    add("Codex", codex.map(|codex| codex.join("archived_sessions")));
    add("opencode", data.as_ref().map(|data| data.join("opencode/opencode.db")));
    add("opencode", data.as_ref().map(|data| data.join("opencode/storage")));
    add("Goose", data.map(|data| data.join("goose/sessions/sessions.db")));
    add("Gemini CLI", below(".gemini/tmp"));
    add("Copilot CLI", below(".copilot/session-state"));
    add("Qwen Code", below(".qwen/projects"));
    add("Pi", below(".pi/agent/sessions"));
    add("OpenClaw", below(".openclaw/agents"));
    add("OpenHands", below(".openhands/conversations"));
    for (whose, extension) in EXTENSIONS {
        let folder = format!("Code/User/globalStorage/{extension}/tasks");
        add(whose, config.as_ref().map(|config| config.join(folder)));
    }
    add("softland", Some(PathBuf::from(crate::config::LEDGER)));
    add("softland", state);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(vars: &[(&str, &str)]) -> Vec<String> {
        let env = |name: &str| {
            let found = vars.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        usual_locations(&env).into_iter().map(|place| place.path.display().to_string()).collect()
    }

    #[test]
    fn each_programs_own_variable_goes_first() {
        let plain = paths(&[("HOME", "/h")]);
        for wanted in
            ["/h/.claude/projects", "/h/.codex/sessions", "/h/.local/share/opencode/storage"]
        {
            assert!(plain.iter().any(|path| path == wanted), "{plain:?}");
        }
        let set = [
            ("HOME", "/h"),
            ("CLAUDE_CONFIG_DIR", "/c,/d"),
            ("CODEX_HOME", "/x"),
            ("XDG_DATA_HOME", "/data"),
        ];
        let own = paths(&set);
        for wanted in ["/c/projects", "/d/projects", "/x/sessions", "/data/opencode/storage"] {
            assert!(own.iter().any(|path| path == wanted), "{own:?}");
        }
        assert!(!own.iter().any(|path| path.starts_with("/h/.claude")), "{own:?}");
        assert_eq!(paths(&[]), ["softland.db"], "without a home there is the ledger here");
    }
}
