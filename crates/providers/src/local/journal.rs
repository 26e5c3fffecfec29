//! What the relay wrote down of an environment, in the words of the API.

use std::io;
use std::path::Path;

use serde::Serialize;
use stead_app::{EgressPiece, EgressStart};
use stead_domain::egress::{EgressDecision, EgressEntry};
use stead_domain::ids::EnvironmentId;
use stead_egress::journal::{self, Decision, Entry, Start};

pub fn read(directory: &Path, environment: EnvironmentId, start: &EgressStart, limit: usize) -> io::Result<EgressPiece> {
    let start = match start {
        EgressStart::Oldest => Start::Oldest,
        EgressStart::Latest => Start::Latest,
        // A position that cannot be read was made by another version: what it stood for is told again.
        EgressStart::After(text) => text.parse().map_or(Start::Oldest, Start::After),
    };
    let piece = journal::read_piece(directory, &environment.to_string(), start, limit)?;
    Ok(EgressPiece {
        entries: piece.entries.into_iter().map(told).collect(),
        next: piece.next.map(|position| position.to_string()),
        has_more: piece.has_more,
    })
}

/// Forgets an environment that is gone.
pub fn remove(directory: &Path, environment: EnvironmentId) -> io::Result<()> {
    for path in journal::paths(directory, &environment.to_string()) {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn told(entry: Entry) -> EgressEntry {
    EgressEntry {
        at: entry.at,
        decision: match entry.decision {
            Decision::Allowed => EgressDecision::Allowed,
            Decision::Refused => EgressDecision::Refused,
            Decision::Brokered => EgressDecision::Brokered,
            Decision::Closed => EgressDecision::Closed,
        },
        host: entry.host,
        port: entry.port,
        protocol: word(&entry.protocol),
        reason: entry.reason.as_ref().map(word),
        message: entry.reason.map(|reason| reason.to_string()),
        named: entry.named,
        secrets: entry.secrets,
        address: entry.address.map(|address| address.to_string()),
        connection: entry.connection,
        bytes_up: entry.bytes_up,
        bytes_down: entry.bytes_down,
        repeated: entry.repeated,
    }
}

/// As the journal itself spells it.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
