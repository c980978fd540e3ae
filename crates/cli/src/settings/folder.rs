//! Folders of agent files, for `--agents` and `check`.

use std::path::{Path, PathBuf};

use softland_agent::AgentFile;

/// The most agent files of a folder: each is described in every request that may call it.
const MOST: usize = 200;

/// Lists the agent files of a folder, sorted by name, without hidden files and subfolders.
///
/// # Errors
/// Returns a message if the folder cannot be read, or holds no agent file.
pub(crate) fn list_agent_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = folder.display();
    let unread = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{shown}: the folder does not exist"),
        std::io::ErrorKind::NotADirectory => {
            format!("{shown}: is a file; a folder of agent files is needed")
        }
        _ => format!("{shown}: the folder cannot be read: {error}"),
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|end| end == "md") && !path.is_dir() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(format!("{shown}: holds no agent file; agent files end in .md"));
    }
    if files.len() > MOST {
        let found = files.len();
        return Err(format!("{shown}: holds {found} agent files; at most {MOST} are allowed"));
    }
    files.sort();
    Ok(files)
}

/// Returns the problems of agents that have the same name.
pub(crate) fn find_same_names(agents: &[(PathBuf, AgentFile)]) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, (path, agent)) in agents.iter().enumerate() {
        let first = agents.iter().take(n).find(|(_, other)| other.name == agent.name);
        if let Some((other, _)) = first {
            problems.push(format!(
                "{}: name: `{}` is the name in {}, too; names must be unique",
                path.display(),
                agent.name,
                other.display()
            ));
        }
    }
    problems
}
