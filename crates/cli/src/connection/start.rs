//! Starting the local server and waiting until it answers.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stead_client::Client;
use stead_domain::{Code, Error};

use crate::failure::{Result, file_error};

const PATIENCE: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(5);
const SECOND_TRY: Duration = Duration::from_millis(100);
const SHOWN_LINES: usize = 10;
const LONGEST_TAIL: u64 = 64 * 1024;

pub async fn start(data_dir: &Path, client: &Client) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data_dir).map_err(|error| file_error("make", data_dir, &error))?;
    let path = data_dir.join("server.log");
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(|error| file_error("write", &path, &error))?;
    let began = log.metadata().map_or(0, |metadata| metadata.len());
    let mut child = spawn(data_dir, &log)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if client.readiness().await.is_ok_and(|told| told.ready) {
            return Ok(());
        }
        if let Some(status) = child.try_wait().map_err(|error| file_error("wait for the server in", data_dir, &error))? {
            let tail = tail(&path, began);
            if !tail.contains(Code::StoreInUse.as_str()) || Instant::now() > deadline {
                return Err(did_not_start(&format!("it ended with {status}"), &tail, &path).into());
            }
            // Somebody else's is starting, which is as good, or ending, and then ours comes after it.
            tokio::time::sleep(SECOND_TRY).await;
            child = spawn(data_dir, &log)?;
        } else if Instant::now() > deadline {
            let waited = format!("it did not answer within {} seconds", PATIENCE.as_secs());
            return Err(did_not_start(&waited, &tail(&path, began), &path).into());
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn spawn(data_dir: &Path, log: &File) -> Result<Child> {
    let program = std::env::current_exe().map_err(|error| file_error("find", Path::new("the stead program"), &error))?;
    let write_log = || log.try_clone().map_err(|error| file_error("write", data_dir, &error));
    Command::new(&program)
        .arg("serve")
        .arg("--data-dir")
        .arg(data_dir)
        .arg("--detach")
        // They are for clients; a server that does not have them cannot pass them on.
        .env_remove("STEAD_API_KEY")
        .env_remove("STEAD_URL")
        .env_remove("STEAD_LEASE")
        .stdin(Stdio::null())
        .stdout(write_log()?)
        .stderr(write_log()?)
        .spawn()
        .map_err(|error| file_error("start", &program, &error))
}

fn did_not_start(what: &str, tail: &str, log: &Path) -> Error {
    let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    let mut message = format!("the local server did not start: {what}");
    for line in shown {
        message.push('\n');
        message.push_str(line);
    }
    Error::new(Code::Unreachable, message)
        .detail("log", log.display().to_string())
        .suggestion(format!("read {} or run `stead doctor`", log.display()))
}

/// What the server has written since we started it.
fn tail(path: &Path, began: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = fs::metadata(path)?.len();
        file.seek(SeekFrom::Start(began.max(length.saturating_sub(LONGEST_TAIL))))?;
        let mut bytes = Vec::new();
        file.take(LONGEST_TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
