//! `softland completions` and `softland man`: generated from the command line definition that is
//! parsed, so that they always agree with it.

use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;
use softland_agent::core::find_nearest;

use crate::args::{CompletionsArgs, ManArgs, command_line};
use crate::failure::Failure;
use crate::render::Writer;
use crate::runs::output_status;

/// The name of the program.
const NAME: &str = "softland";

/// Prints the completions for a shell.
pub(crate) fn print_completions(args: CompletionsArgs, writer: &mut Writer) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command_line(), NAME, &mut text);
    writer.write_result(&String::from_utf8_lossy(&text));
    output_status(writer)
}

/// Prints one manual page, or writes all pages into a folder.
pub(crate) fn print_man(args: &ManArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let pages = render_pages();
    if let Some(folder) = &args.out {
        for (name, page) in &pages {
            write_page(folder, name, page)?;
        }
        writer.write_note(&format!("{} pages written to {}", pages.len(), folder.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = match &args.command {
        None => NAME.to_owned(),
        Some(command) => format!("{NAME}-{command}"),
    };
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let command = args.command.as_deref().unwrap_or_default();
        let names: Vec<_> =
            pages.iter().filter_map(|(name, _)| name.strip_prefix("softland-")).collect();
        let hint = match find_nearest(command, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names.join(", ")),
        };
        return Err(Failure::usage(format!("softland has no command `{command}`; {hint}")));
    };
    writer.write_result(page);
    Ok(output_status(writer))
}

/// Renders the pages of the program and of each command, with their names.
fn render_pages() -> Vec<(String, String)> {
    let whole = command_line();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set());
    let named = |command: &Command| {
        let name = format!("{NAME}-{}", command.get_name());
        let usage = format!("{NAME} {}", command.get_name());
        let command = command.clone().bin_name(usage);
        (name.clone(), render_page(command.display_name(name)))
    };
    let mut pages: Vec<_> = commands.map(named).collect();
    pages.insert(0, (NAME.to_owned(), render_page(whole.clone())));
    pages
}

fn render_page(command: Command) -> String {
    let mut text = Vec::new();
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    // Writing into memory does not fail.
    let _ = Man::new(command).source(source).render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn write_page(folder: &Path, name: &str, page: &str) -> Result<(), Failure> {
    let path = folder.join(format!("{name}.1"));
    let made = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, page));
    made.map_err(|error| {
        Failure::usage(format!("--out: {} cannot be written: {error}", path.display()))
    })
}
