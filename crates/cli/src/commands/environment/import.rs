use std::os::fd::AsFd;
use std::path::Path;

use stead_client::{Client, ClientError, Upload};
use stead_domain::archive::ImportRequest;
use stead_domain::environment::Environment;
use tokio::fs::File;

use crate::arguments::environment::Import;
use crate::commands::copy::bar::bar;
use crate::commands::copy::channel::Counted;
use crate::failure::{Failure, Result, file_error};
use crate::invocation::Invocation;
use crate::session::patience::{Attempts, is_absence};

pub async fn run(invocation: &Invocation<'_>, arguments: &Import) -> Result<()> {
    let client = invocation.client().await?;
    let request =
        ImportRequest { name: arguments.name.clone(), allow_unenforced: arguments.allow_unenforced, allow_mounts: arguments.allow_mounts };
    let environment = if arguments.archive == Path::new("-") {
        let bar = bar(invocation, "stdin", None);
        let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| file_error("read", Path::new("stdin"), &error))?;
        let reader = File::from_std(std::fs::File::from(stdin));
        let upload = Upload::new(Counted { reader, bar: bar.clone() }, None);
        let imported = client.import_environment(&request, &client.new_key(), upload).await;
        bar.finish_and_clear();
        imported.map_err(|error| read_failed(error, Path::new("stdin")))?
    } else {
        from_file(invocation, &client, &request, &arguments.archive).await?
    };
    invocation.printer.record(&environment, &environment.id.to_string(), |printer| {
        printer.line(&environment.name)?;
        printer.hint(&format!("its checkpoints: stead checkpoint list {}", environment.name));
        Ok(())
    })
}

/// A server that restarts is waited for. Sent again under the same key, what was made already is not made again.
async fn from_file(invocation: &Invocation<'_>, client: &Client, request: &ImportRequest, path: &Path) -> Result<Environment> {
    let failed = |error: std::io::Error| file_error("read", path, &error);
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let size = metadata.is_file().then_some(metadata.len());
    let (key, attempts) = (client.new_key(), Attempts::new());
    let bar = bar(invocation, &path.display().to_string(), size);
    let imported = loop {
        let reader = Counted { reader: File::open(path).await.map_err(failed)?, bar: bar.clone() };
        match client.import_environment(request, &key, Upload::new(reader, size)).await {
            Err(error) if size.is_some() && is_absence(&error) && attempts.once_more().await => bar.reset(),
            outcome => break outcome,
        }
    };
    bar.finish_and_clear();
    imported.map_err(|error| read_failed(error, path))
}

fn read_failed(error: ClientError, path: &Path) -> Failure {
    match error {
        ClientError::Source { cause } => file_error("read", path, &cause),
        error => error.into(),
    }
}
