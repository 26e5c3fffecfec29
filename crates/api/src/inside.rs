//! What a place may ask the server: a credential for git, and nothing else. One line in, one line out, on a socket of its own that knows no
//! caller but by what it shows.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stead_app::App;
use stead_domain::{Code, Error};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Whatever runs inside may ask as often as it likes, and keeps nobody else from asking for long.
const AT_ONCE: usize = 64;
const LONGEST: u64 = 16 << 10;
/// How long one may take to ask.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take, with whoever gives the token.
const ANSWER: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    pub pass: String,
    pub protocol: String,
    pub host: String,
    pub path: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer {
    Credential {
        username: String,
        password: String,
        /// Seconds since 1970.
        expires_at: i64,
    },
    Refused {
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

impl From<Error> for Answer {
    fn from(error: Error) -> Self {
        Self::Refused { error: error.message().to_owned(), hint: error.suggested().map(str::to_owned) }
    }
}

/// Answers until it is told to end.
pub async fn serve_inside(listener: UnixListener, app: App, stop: CancellationToken) {
    let (tasks, slots) = (TaskTracker::new(), std::sync::Arc::new(Semaphore::new(AT_ONCE)));
    let accepting = async {
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let app = app.clone();
                    tasks.spawn(async move {
                        // Whoever hangs up, or says nothing, hears nothing.
                        let _ = converse(stream, &app).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the socket for what runs inside cannot take a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    stop.run_until_cancelled(accepting).await;
    tasks.close();
    tasks.wait().await;
}

async fn converse(stream: UnixStream, app: &App) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(LONGEST));
    let read = tokio::time::timeout(PATIENCE, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(1..))) {
        return Ok(());
    }
    let answer = match serde_json::from_str::<Question>(&line) {
        Err(_) => Answer::from(Error::new(Code::BadRequest, "that is no question of git's")),
        Ok(Question { pass, protocol, host, path }) => {
            let asked = app.git_credential_by_pass(&pass, &protocol, &host, &path);
            match tokio::time::timeout(ANSWER, asked).await {
                Ok(Ok(credential)) => Answer::Credential {
                    username: credential.username.clone(),
                    password: credential.token.clone(),
                    expires_at: credential.expires_at.microseconds() / 1_000_000,
                },
                Ok(Err(error)) => {
                    // What is internal stays here.
                    tracing::info!(code = error.code().as_str(), "git inside was given no credential");
                    Answer::from(error)
                }
                Err(_) => Answer::from(Error::new(Code::ServiceUnavailable, "whoever gives the token did not answer in time")),
            }
        }
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    let sent = tokio::time::timeout(PATIENCE, writer.write_all(&text)).await;
    zeroize::Zeroize::zeroize(&mut text);
    sent.unwrap_or(Ok(()))
}
