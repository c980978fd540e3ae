//! The file of a program that is named without its folder or without its extension. On Unix the
//! system finds it. Windows by itself finds `NAME.exe` only, while many programs are scripts:
//! `npx`, `claude` and `codex` are `NAME.cmd` there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The extensions of programs if `PATHEXT` is not set.
const EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// Returns the name under which the system finds a program: on Windows the path of the file that
/// `PATH` and `PATHEXT` lead to, if there is one, and otherwise the name as it is. A name with a
/// folder is relative to `folder`. The current folder is not searched for a name without one.
pub fn find_program(
    name: &OsStr,
    folder: &Path,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> OsString {
    if !cfg!(windows) {
        return name.to_owned();
    }
    let extensions = env("PATHEXT").filter(|set| !set.is_empty());
    let extensions = extensions.unwrap_or_else(|| EXTENSIONS.into());
    let path = env("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let found = search_folders(name, folder, folders, &extensions, &|path| path.is_file());
    found.map_or_else(|| name.to_owned(), PathBuf::into_os_string)
}

fn search_folders(
    name: &OsStr,
    current: &Path,
    folders: impl Iterator<Item = PathBuf>,
    extensions: &OsStr,
    is_file: &dyn Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let extensions = extensions.to_string_lossy();
    let extensions: Vec<&str> = extensions.split(';').filter(|one| one.starts_with('.')).collect();
    let has_one = Path::new(name).extension().is_some_and(|own| {
        extensions.iter().any(|one| own.eq_ignore_ascii_case(one.trim_start_matches('.')))
    });
    let try_in = |folder: PathBuf| {
        let plain = folder.join(name);
        let with = |extension: &&str| {
            let mut file = plain.clone().into_os_string();
            file.push(extension.to_ascii_lowercase());
            PathBuf::from(file)
        };
        let own = has_one.then(|| plain.clone());
        own.into_iter().chain(extensions.iter().map(with)).find(|path| is_file(path))
    };
    match Path::new(name).components().count() {
        0 => None,
        1 => folders.into_iter().find_map(try_in),
        _ => try_in(current.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks for a name where there are these files.
    fn search(name: &str, extensions: &str, files: &[&str]) -> Option<String> {
        let folders = ["/one", "/two"].map(PathBuf::from);
        let there = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        let name = OsStr::new(name);
        let found = search_folders(
            name,
            Path::new("/here"),
            folders.into_iter(),
            extensions.as_ref(),
            &there,
        );
        found.map(|path| path.to_string_lossy().replace('\\', "/"))
    }

    #[test]
    fn a_program_may_be_a_script_with_any_extension_of_the_system() {
        let all = EXTENSIONS;
        for (name, files, wanted) in [
            ("npx", &["/two/npx.cmd"][..], Some("/two/npx.cmd")),
            // The order of folders goes before that of extensions.
            ("npx", &["/two/npx.exe", "/one/npx.cmd"], Some("/one/npx.cmd")),
            ("npx", &["/one/npx.cmd", "/one/npx.exe"], Some("/one/npx.exe")),
            // npm also writes a shell script without an extension, which Windows does not run.
            ("npx", &["/one/npx", "/two/npx.cmd"], Some("/two/npx.cmd")),
            ("npx.CMD", &["/one/npx.CMD"], Some("/one/npx.CMD")),
            ("python3.11", &["/one/python3.11.exe"], Some("/one/python3.11.exe")),
            ("tool", &["/here/tool.exe"], None),
            ("bin/tool", &["/here/bin/tool.bat", "/one/bin/tool.exe"], Some("/here/bin/tool.bat")),
            ("/x/tool", &["/x/tool.exe"], Some("/x/tool.exe")),
            ("", &["/one/.exe"], None),
        ] {
            assert_eq!(search(name, all, files).as_deref(), wanted, "{name} {files:?}");
        }
        assert_eq!(search("a", ".PY", &["/one/a.exe", "/two/a.py"]).as_deref(), Some("/two/a.py"));
    }

    #[test]
    #[cfg(unix)]
    fn unix_finds_programs_by_itself() {
        let found = find_program("sh".as_ref(), Path::new("/"), &|_| None);
        assert_eq!(found, "sh");
    }
}
