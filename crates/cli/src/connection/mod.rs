//! Reaching the server, and starting the local one when it is not there.

mod start;

use std::io;
use std::path::Path;

use stead_client::{Client, ClientError};
use stead_domain::{Code, Context, Error};

use crate::failure::Result;
use crate::printer::Printer;
use crate::settings::{Settings, Target};

/// A client, connected or not.
pub fn client(settings: &Settings, context: &Context) -> Client {
    let key = settings.key.as_ref().map(|key| key.value.clone());
    Client::new(settings.endpoint(), key, settings.project.value.clone(), context.clone())
        .trusting(settings.ca_file.as_ref().map(|path| path.value.clone()))
        .with_lease(settings.lease.as_ref().map(|token| token.value.clone()))
}

/// A client that is connected; the local server is started when nobody answers.
pub async fn open(settings: &Settings, printer: &Printer, context: &Context) -> Result<Client> {
    open_or_start(settings, printer, context).await.map(|(client, _)| client)
}

/// The same, telling whether the server had to be started.
pub async fn open_or_start(settings: &Settings, printer: &Printer, context: &Context) -> Result<(Client, bool)> {
    if let Some(client) = try_open(settings, context).await? {
        return Ok((client, false));
    }
    let Target::Local { data_dir, socket } = &settings.target else {
        // `try_open` answers none for the local server alone.
        return Err(Error::new(Code::Unreachable, "no server answers").into());
    };
    if settings.no_start {
        return Err(not_running(&socket.value).into());
    }
    printer.note("starting the local server");
    let client = client(settings, context);
    start::start(&data_dir.value, &client).await?;
    Ok((client, true))
}

/// A connected client, or none when the local server is not there. A socket that nobody listens on counts as not there.
pub async fn try_open(settings: &Settings, context: &Context) -> Result<Option<Client>> {
    let client = client(settings, context);
    match (client.connect().await, &settings.target) {
        (Ok(()), _) => Ok(Some(client)),
        (Err(ClientError::Unreachable { cause, .. }), Target::Local { .. }) if is_absent(&cause) => Ok(None),
        (Err(error), _) => Err(error.into()),
    }
}

/// Only these say that nobody is there; a socket that may not be used is another matter.
fn is_absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

pub fn not_running(socket: &Path) -> Error {
    Error::new(Code::Unreachable, format!("no server answers at {}", socket.display())).suggestion("stead up")
}
