//! The README's own commands, run in the order in which they stand there, and the links of every page.
//!
//! In a block marked `console`, a line that begins with `$ ` is a command, and the lines after it are what it shows, stdout and stderr as a
//! terminal would. They must be all that it shows: `...` in a line stands for anything in it, and a line of `...` alone for any lines.
//! A block marked `sh` is for what cannot run here; there every `stead` command must at least be understood.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_line::desk::{Desk, told};

/// What stands for these commands here: they build, or belong to the machine.
const REPLACED: &[(&str, &str)] = &[("make run", "stead up")];

struct Shown {
    command: String,
    output: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of every block of that kind.
fn blocks(text: &str, kind: &str) -> Vec<Vec<String>> {
    let (mut blocks, mut inside): (Vec<Vec<String>>, Option<bool>) = (Vec::new(), None);
    for line in text.lines() {
        inside = match (line.strip_prefix("```"), inside) {
            (Some(opened), None) => {
                if opened == kind {
                    blocks.push(Vec::new());
                }
                Some(opened == kind)
            }
            (Some(_), Some(_)) => None,
            (None, inside) => {
                if let (Some(true), Some(block)) = (inside, blocks.last_mut()) {
                    block.push(line.to_owned());
                }
                inside
            }
        };
    }
    blocks
}

fn commands(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    for line in blocks(text, "console").into_iter().flatten() {
        match line.strip_prefix("$ ") {
            Some(command) => found.push(Shown { command: command.to_owned(), output: Vec::new() }),
            None => found.last_mut().expect("a block begins with a command").output.push(line),
        }
    }
    found
}

/// Whether a line is what was shown, `...` standing for anything.
fn line_fits(shown: &str, line: &str) -> bool {
    let mut parts = shown.split("...");
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn fits(shown: &[String], lines: &[&str]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => fits(rest, lines) || (!lines.is_empty() && fits(shown, &lines[1..])),
        (Some((first, rest)), Some((line, more))) => line_fits(first, line.trim_end()) && fits(rest, more),
        _ => false,
    }
}

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    let desk = Desk::alone();
    let binary = Path::new(env!("CARGO_BIN_EXE_stead")).parent().unwrap();
    let search = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let commands = commands(&read(&root().join("README.md")));
    assert!(commands.len() > 20, "the README has its tour");
    for Shown { command, output } in commands {
        let real = REPLACED.iter().find(|(told, _)| *told == command).map_or(command.as_str(), |(_, real)| real);
        let plain = desk.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 2>&1\n{real}")]).current_dir(desk.work());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let told_output = shell.env("PATH", &search).output().unwrap();
        let text = String::from_utf8_lossy(&told_output.stdout).into_owned();
        assert!(told_output.status.success(), "`{command}` failed: {}", told(&told_output));
        let lines: Vec<&str> = text.lines().collect();
        let shows_nothing = output.is_empty() && (real != command || command.starts_with("export "));
        assert!(shows_nothing || fits(&output, &lines), "`{command}` shows other than the README says:\n{text}");
    }
}

#[test]
fn every_other_command_of_the_pages_is_understood() {
    let desk = Desk::alone();
    for page in pages() {
        for line in blocks(&read(&page), "sh").into_iter().flatten() {
            let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
            if let ["stead", arguments @ ..] = words.as_slice() {
                // What follows two dashes is for the command inside.
                let own = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
                let output = desk.output(&[&arguments[..own], &["--help"]].concat());
                assert!(output.status.success(), "{}: `{line}`: {}", page.display(), told(&output));
            }
        }
    }
}

/// Every page of the documentation.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = Vec::new();
    let mut directories = vec![root().join("docs")];
    let top = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    pages.extend(top.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut checked = 0;
    for page in pages() {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") {
                continue;
            }
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: {link} leads nowhere", page.display());
            let headings = || read(&target).lines().filter(|line| line.starts_with('#')).map(slug).collect::<Vec<_>>();
            assert!(anchor.is_empty() || headings().contains(&anchor.to_owned()), "{}: {link} names no heading", page.display());
            checked += 1;
        }
    }
    assert!(checked > 10);
}

/// A heading as a link names it.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn the_rule_for_shown_output_is_strict() {
    let shown = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(fits(&shown(&["a...c", "...", "end"]), &["abc", "x", "y", "end"]));
    assert!(fits(&shown(&["...", "end"]), &["end"]));
    assert!(!fits(&shown(&["abc"]), &["abc", "more"]));
    assert!(!fits(&shown(&["abc", "more"]), &["abc"]));
    assert!(!fits(&shown(&["a...c"]), &["abd"]));
    assert!(!fits(&shown(&["a"]), &["ab"]));
}
