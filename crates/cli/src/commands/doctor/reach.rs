//! Whether a server answers, and whether it is of our version.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use stead_client::ClientError;
use stead_domain::Context;

use super::check::Check;
use super::repair::Repair;
use crate::connection;
use crate::settings::{Settings, Target};

const VERSION: &str = env!("CARGO_PKG_VERSION");

pub async fn examine(settings: &Settings, context: &Context) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Target::Local { socket, .. } = &settings.target {
        let check = socket_state(&socket.value);
        let answers = check.next.is_none();
        checks.push(check);
        if !answers {
            return checks;
        }
    }
    let client = connection::client(settings, context);
    match client.readiness().await {
        Ok(readiness) if !readiness.ready => {
            let message = format!("{} answers, but is not ready: {}", client.endpoint(), readiness.status);
            checks.push(Check::fail("SD06", "server", message, "look into the server's log"));
        }
        Ok(readiness) => checks.push(Check::ok("SD06", "server", format!("{} answers: {}", client.endpoint(), readiness.status))),
        Err(error) => {
            checks.push(Check::fail("SD06", "server", error.to_string(), "look into the server's log"));
            return checks;
        }
    }
    checks.push(match client.system().await {
        Ok(system) if system.version == VERSION => Check::ok("SD07", "version", format!("{VERSION}, like this command")),
        Ok(system) => Check::warn(
            "SD07",
            "version",
            format!("the server is {}, this command is {VERSION}", system.version),
            "restart it with `stead down` and `stead up`, or use the command of its version",
        ),
        // Not everybody may ask a shared server about itself.
        Err(ClientError::Reply { status: 403, .. }) => Check::ok("SD07", "version", "not told to your key"),
        Err(ClientError::Reply { status: 401, .. }) => Check::fail("SD07", "version", "the server does not accept your key", "stead login"),
        Err(error) => Check::fail("SD07", "version", error.to_string(), "look into the server's log"),
    });
    checks
}

fn socket_state(path: &Path) -> Check {
    let shown = path.display();
    match UnixStream::connect(path) {
        Ok(_) => Check::ok("SD05", "socket", shown.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Check::warn("SD05", "socket", "the local server is not running", "stead up")
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Check::warn("SD05", "socket", format!("{shown} is left over from a server that has gone"), "stead up")
                .repaired_by(Repair::RemoveSocket { path: path.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Check::fail(
            "SD05",
            "socket",
            format!("{shown} may not be used by this user"),
            "run as the user who runs the server, or give its address and a key: --url URL --key-file FILE",
        ),
        Err(error) => Check::fail("SD05", "socket", format!("{shown}: {error}"), "check the path, or set STEAD_SOCKET to a shorter one"),
    }
}
