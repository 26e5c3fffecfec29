//! The journal: a line for everything that was allowed, refused or ended, per environment.

mod files;
mod pages;
mod writer;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stead_domain::{Clock, Timestamp};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::reason::Reason;
use crate::sniff::Protocol;

pub use files::read;
pub use pages::{Piece, Position, Start, read_piece};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A connection was opened; its end is a second line with the same `connection`.
    Allowed,
    Refused,
    /// Values were put into requests of an allowed connection; told once for each set of them.
    Brokered,
    /// An allowed connection is over.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// The name that was asked for, or the address if there was none.
    pub host: String,
    pub port: u16,
    pub protocol: Protocol,
    pub decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What the program itself named, where that is why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// The names of the secrets that were used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Where the connection really went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_up: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes_down: u64,
    /// How often the same refusal came again after the line that told of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeated: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Entry {
    pub fn new(host: impl ToString, port: u16, protocol: Protocol, decision: Decision) -> Self {
        Self {
            at: Timestamp::EPOCH,
            connection: None,
            host: host.to_string(),
            port,
            protocol,
            decision,
            reason: None,
            named: None,
            secrets: Vec::new(),
            address: None,
            bytes_up: 0,
            bytes_down: 0,
            repeated: 0,
        }
    }

    pub fn because(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

/// Where lines are handed in. Clones write to the same files.
#[derive(Clone)]
pub struct Journal {
    sender: mpsc::Sender<(Arc<str>, Entry)>,
    clock: Arc<dyn Clock>,
}

/// Where and how much.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    pub directory: PathBuf,
    /// A file that has grown past this becomes the environment's older file, and the older one goes.
    pub largest_file: u64,
}

impl Journal {
    /// The writer ends when the last clone is dropped.
    pub fn start(options: JournalOptions, clock: Arc<dyn Clock>, tasks: &TaskTracker) -> Self {
        let (sender, receiver) = mpsc::channel(1024);
        tasks.spawn(writer::write(options, receiver));
        Self { sender, clock }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits while the disk is slow, so that nothing goes out unrecorded.
    pub async fn record(&self, environment: &Arc<str>, entry: Entry) {
        let _ = self.sender.send((environment.clone(), Entry { at: self.clock.now(), ..entry })).await;
    }

    /// For what may come in floods and carries nothing out: dropped when the disk is slow.
    pub fn note(&self, environment: &Arc<str>, entry: Entry) {
        let _ = self.sender.try_send((environment.clone(), Entry { at: self.clock.now(), ..entry }));
    }
}

/// The two files of an environment, the older one first.
pub fn paths(directory: &Path, environment: &str) -> [PathBuf; 2] {
    [directory.join(format!("{environment}.1.jsonl")), directory.join(format!("{environment}.jsonl"))]
}
