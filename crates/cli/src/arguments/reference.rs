//! The command line as a page of the documentation, written from the types themselves.

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Cli;

const WIDTH: usize = 120;

fn document() -> String {
    let mut text = String::from(
        "# The command line\n\nWritten from `crates/cli/src/arguments` by its own test.\n\n\
        Data goes to stdout and everything else to stderr. [Exit codes](errors.md) are 0 to 5. What may be named is named by its id, by its \
        name in any case, or by a beginning of either that fits only one.\n",
    );
    let mut root = Cli::command();
    root.build();
    write(&root, &mut text);
    text
}

fn write(command: &Command, text: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    text.push_str(&format!("\n## {name}\n\n{}.\n", plain(command.get_about())));
    let aliases: Vec<&str> = command.get_visible_aliases().collect();
    if !aliases.is_empty() {
        text.push_str(&format!("\nAlso: `{}`.\n", aliases.join("`, `")));
    }
    let usage = command.clone().render_usage().to_string();
    text.push_str(&format!("\n```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim()));
    let is_root = !name.contains(' ');
    let shown = |argument: &&Arg| !argument.is_hide_set() && (is_root || !argument.is_global_set()) && !is_built_in(argument);
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if !arguments.is_empty() {
        text.push_str("\n| argument | meaning |\n|---|---|\n");
    }
    for argument in arguments {
        text.push_str(&format!("| `{}` | {} |\n", spelled(argument).replace('|', "\\|"), meaning(argument).replace('|', "\\|")));
    }
    if let Some(more) = command.get_after_help() {
        text.push_str(&format!("\n```text\n{}\n```\n", wrapped(more.to_string().trim())));
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help" && !inner.is_hide_set()) {
        write(inner, text);
    }
}

/// A terminal breaks the lines of a paragraph where it ends; a page has to say where. Examples stay as they are.
fn wrapped(text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in if paragraph.starts_with(' ') { vec![paragraph] } else { paragraph.split(' ').collect() } {
            if !line.is_empty() && line.len() + word.len() >= WIDTH {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}

fn is_built_in(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version)
}

fn plain(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// As it is typed.
fn spelled(argument: &Arg) -> String {
    let values: Vec<String> = argument.get_value_names().unwrap_or_default().iter().map(|name| format!("<{name}>")).collect();
    let takes_value = argument.get_action().takes_values();
    let values = if takes_value { values.join(" ") } else { String::new() };
    let name = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => return values,
    };
    format!("{name} {values}").trim_end().to_owned()
}

fn meaning(argument: &Arg) -> String {
    let mut parts = vec![plain(argument.get_help())];
    let words: Vec<String> = argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if !words.is_empty() && argument.get_action().takes_values() {
        parts.push(format!("one of {}", words.join(", ")));
    }
    let defaults: Vec<String> = argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        parts.push(format!("{} when it is left out", defaults.join(" ")));
    }
    if let Some(variable) = argument.get_env() {
        parts.push(format!("in the environment `{}`", variable.to_string_lossy()));
    }
    if matches!(argument.get_action(), ArgAction::Append) {
        parts.push("may be repeated".to_owned());
    }
    parts.join("; ")
}

#[test]
fn the_reference_in_the_documentation_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("STEAD_UPDATE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), document(), "run `make generate`");
}
