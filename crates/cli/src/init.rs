//! `softland init`: writes a commented config and a first agent file. It overwrites nothing.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use crate::args::InitArgs;
use crate::failure::Failure;
use crate::render::Writer;
use crate::runs::output_status;

/// The files, with their texts.
const FILES: [(&str, &str); 2] = [
    ("softland.toml", include_str!("init/softland.toml")),
    ("agents/reader.md", include_str!("init/reader.md")),
];

/// Writes the files, and says what can be done with them.
pub(crate) fn run_command(args: &InitArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    for (name, text) in FILES {
        let path = args.folder.join(name);
        let written = write_new(&path, text).map_err(|error| describe_error(&path, &error))?;
        let what = if written { "wrote" } else { "kept (it was there already)" };
        writer.write_result(&format!("{what} {}\n", path.display()));
    }
    let at = |name: &str| args.folder.join(name).display().to_string();
    let (config, agent) = (at("softland.toml"), at("agents/reader.md"));
    writer.write_result(&format!(
        "\nTry the agent without a key:   softland run {agent} \"What is here?\" --model sim/reader\n\
         Check both files:              softland check {config} {agent}\n\
         Serve a gateway:               softland serve --config {config}\n"
    ));
    Ok(output_status(writer))
}

/// Writes a file that does not exist yet. Returns false if there is one.
fn write_new(path: &Path, text: &str) -> std::io::Result<bool> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn describe_error(path: &Path, error: &std::io::Error) -> Failure {
    let path = path.display();
    Failure::usage(match error.kind() {
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => format!(
            "{path} cannot be written: a part of the path is a file; `softland init DIR` needs a \
             folder"
        ),
        ErrorKind::PermissionDenied => {
            format!(
                "{path} cannot be written (permission denied); `softland init DIR` names another folder"
            )
        }
        _ => format!("{path} cannot be written: {error}"),
    })
}
