use std::os::fd::AsFd;
use std::path::Path;

use stead_client::{Client, Upload};
use stead_domain::environment::Environment;
use stead_domain::files::{FilePath, FileWritten};
use stead_domain::{Code, Error};
use tokio::fs::File;

use super::inside;
use crate::arguments::files::Put;
use crate::failure::{Failure, Result, file_error};
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;
use crate::session::patience::{Attempts, is_absence};

pub async fn run(invocation: &Invocation<'_>, arguments: &Put) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let path = inside(&arguments.path)?;
    let written = if arguments.file == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
        let stdin = File::from_std(stdin.into());
        client.write_file(environment.id, &path, arguments.mode, Upload::new(stdin, None)).await?
    } else {
        send(&client, &environment, &path, arguments).await?
    };
    if !invocation.printer.is_json() && !invocation.printer.is_human() {
        return invocation.printer.name(path.as_bytes());
    }
    invocation.printer.record(&written, "", |printer| {
        printer.note(&format!("wrote {} to `{path}` in {}", human::bytes(written.size), environment.name));
        Ok(())
    })
}

/// A file can be sent from the beginning once more, and is written in one step: a connection that breaks costs nothing but time.
async fn send(client: &Client, environment: &Environment, path: &FilePath, arguments: &Put) -> Result<FileWritten> {
    let source = &arguments.file;
    let failed = |error: std::io::Error| file_error("read", source, &error);
    let attempts = Attempts::new();
    loop {
        let file = File::open(source).await.map_err(failed)?;
        let metadata = file.metadata().await.map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::from(
                Error::new(Code::LocalFile, format!("{} is a directory", source.display())).suggestion("`stead cp` copies directories"),
            ));
        }
        // A pipe or a device has no length beforehand, and no beginning to go back to.
        let length = metadata.is_file().then_some(metadata.len());
        match client.write_file(environment.id, path, arguments.mode, Upload::new(file, length)).await {
            Err(error) if length.is_some() && is_absence(&error) && attempts.once_more().await => {}
            outcome => return Ok(outcome?),
        }
    }
}
