//! The one relay of this host: found when it is there, started when it is not. It outlives servers.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stead_egress::control::Client;
use tokio::sync::Mutex;

const ATTEMPTS: usize = 400;
const MOMENT: Duration = Duration::from_millis(5);

/// How the relay is started, and where it is found.
pub struct Relay {
    directory: PathBuf,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// The connection says by its end that the relay is gone.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    client: Option<Client>,
    /// One that we started; it is ours to bury.
    child: Option<Child>,
}

impl Relay {
    pub fn new(directory: PathBuf, program: PathBuf, arguments: Vec<OsString>) -> Self {
        Self { directory, program, arguments, known: Mutex::default() }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sees to it that there is one.
    pub async fn ensure(&self) -> io::Result<()> {
        let mut known = self.known.lock().await;
        if let Some(client) = &mut known.client
            && client.ping().await.is_ok()
        {
            return Ok(());
        }
        known.client = None;
        for attempt in 0..ATTEMPTS {
            if let Ok(client) = Client::connect(&self.directory).await {
                known.client = Some(client);
                return Ok(());
            }
            let ended = known.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if ended && attempt % 100 == 0 {
                known.child = Some(self.launch()?);
            }
            tokio::time::sleep(MOMENT).await;
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the relay does not come"))
    }

    fn launch(&self) -> io::Result<Child> {
        // In a group of its own: what ends the server from a terminal does not end it.
        Command::new(&self.program)
            .arg0("stead")
            .args(&self.arguments)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }
}
