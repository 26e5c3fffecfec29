//! Files of environments.

mod cat;
mod find;
mod grep;
mod ls;
mod mkdir;
mod put;
mod rm;
mod stat;
mod transfer;
mod watch;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;
use stead_domain::files::FilePath;

use crate::arguments::files::FilesCommand;
use crate::failure::Result;
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, command: FilesCommand) -> Result<()> {
    match command {
        FilesCommand::Ls(arguments) => ls::run(invocation, &arguments).await,
        FilesCommand::Cat(arguments) => cat::run(invocation, &arguments).await,
        FilesCommand::Put(arguments) => put::run(invocation, &arguments).await,
        FilesCommand::Rm(arguments) => rm::run(invocation, &arguments).await,
        FilesCommand::Stat(arguments) => stat::run(invocation, &arguments).await,
        FilesCommand::Mkdir(arguments) => mkdir::run(invocation, &arguments).await,
        FilesCommand::Mv(arguments) => transfer::r#move(invocation, &arguments).await,
        FilesCommand::Cp(arguments) => transfer::copy(invocation, &arguments).await,
        FilesCommand::Find(arguments) => find::run(invocation, &arguments).await,
        FilesCommand::Grep(arguments) => grep::run(invocation, &arguments).await,
        FilesCommand::Watch(arguments) => watch::run(invocation, &arguments).await,
    }
}

/// A path inside as it was typed, byte for byte.
pub fn inside(typed: &OsStr) -> Result<FilePath> {
    Ok(FilePath::parse("path", typed.as_bytes())?)
}

/// What changed and has no shape of its own in the API: the paths, or a sentence.
fn changed(invocation: &Invocation<'_>, paths: &[FilePath], sentence: &str) -> Result<()> {
    if invocation.printer.is_json() {
        let shown: Vec<String> = paths.iter().map(ToString::to_string).collect();
        return invocation.printer.json(&json!({ "paths": shown }));
    }
    if invocation.printer.is_human() {
        invocation.printer.note(sentence);
        return Ok(());
    }
    paths.iter().try_for_each(|path| invocation.printer.name(path.as_bytes()))
}
