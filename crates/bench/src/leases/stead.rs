//! Stead's own leases, by token, over its unix socket. Environments are asleep and nothing runs in them.

use std::io::{Error, Result};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use stead_store::Location;
use stead_testing::PrivatePostgres;
use tokio::net::UnixStream;

use super::session::{Service, Session};
use crate::client::{Client, request};
use crate::load::ENVIRONMENTS;
use crate::places::stead::Stead;

pub struct Target {
    stead: Stead,
    environments: Vec<String>,
}

impl Target {
    pub async fn start(binary: &Path, root: &Path, postgres: Option<PrivatePostgres>, environments: usize) -> Self {
        let mut target = Self { stead: Stead::start_on(binary, root, postgres), environments: Vec::new() };
        let mut caller = target.stead.caller().await;
        let mut ids = Vec::with_capacity(environments);
        for _ in 0..environments {
            ids.push(caller.create().await.0);
        }
        drop(caller);
        target.environments = ids;
        target
    }

    pub fn store(&self) -> Location {
        self.stead.store()
    }

    /// Where it listens, and the key to it.
    pub fn door(&self) -> (String, String) {
        (self.stead.address(), self.stead.key().to_owned())
    }

    pub fn environment(&self, number: usize) -> &str {
        &self.environments[number]
    }

    async fn connect(&self) -> Result<Client<UnixStream>> {
        Client::connect_unix(&self.stead.data().join("stead.sock")).await
    }

    /// Somebody with a connection who wants this environment.
    pub async fn holder(&self, environment: &str) -> Result<Holder> {
        let client = self.connect().await?;
        Ok(Holder { client, key: self.stead.key().into(), environment: environment.to_owned(), held: None })
    }

    /// A new connection for somebody who keeps what it holds.
    pub async fn connect_again(&self, holder: &mut Holder) -> Result<()> {
        holder.client = self.connect().await?;
        Ok(())
    }

    pub async fn create(&self, definition: &Value) -> Result<String> {
        let mut client = self.connect().await?;
        let made = client.call(&request("POST", ENVIRONMENTS, self.stead.key(), &definition.to_string())).await?;
        let made: Value = expect(made, &[201])?;
        Ok(made["id"].as_str().unwrap_or_default().to_owned())
    }
}

impl Service for Target {
    type Session = Holder;

    async fn session(&self, lock: usize) -> Result<Holder> {
        self.holder(self.environment(lock)).await
    }
}

/// What a lease is told with; nothing else of it is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Held {
    pub id: String,
    pub token: String,
    pub fence: u64,
    pub expires_in_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Ticket {
    pub id: String,
    pub status: String,
    /// How many are before it.
    pub position: usize,
}

#[derive(Deserialize)]
struct Acquired {
    lease: Option<Held>,
    ticket: Option<Ticket>,
}

pub enum Drawn {
    Held,
    Waits(Ticket),
}

pub struct Holder {
    client: Client<UnixStream>,
    key: Rc<str>,
    environment: String,
    held: Option<Held>,
}

/// How long a holder has it unless it says otherwise: longer than anything here takes.
pub const LONG: Duration = Duration::from_secs(24 * 3600);

impl Holder {
    pub fn held(&self) -> Result<&Held> {
        self.held.as_ref().ok_or_else(|| Error::other("nothing is held"))
    }

    /// The lease, or a place in the queue for it.
    pub async fn draw(&mut self, ttl: Duration) -> Result<Drawn> {
        let body = format!(r#"{{"environment_id":"{}","bind":"token","lease_ttl":"{}s","wait":"24h"}}"#, self.environment, ttl.as_secs());
        let message = request("POST", &format!("{ENVIRONMENTS}/acquire"), &self.key, &body);
        let acquired: Acquired = expect(self.client.call(&message).await?, &[200, 202])?;
        self.held = acquired.lease;
        match (&self.held, acquired.ticket) {
            (Some(_), _) => Ok(Drawn::Held),
            (None, Some(ticket)) => Ok(Drawn::Waits(ticket)),
            (None, None) => Err(Error::other("neither a lease nor a ticket")),
        }
    }

    /// How it stands with a ticket, after waiting for news of it for so long; nothing when the lease came of it.
    pub async fn look(&mut self, ticket: &str, wait: Duration) -> Result<Option<Ticket>> {
        let path = format!("{ENVIRONMENTS}/tickets/{ticket}?wait={}s", wait.as_secs());
        let acquired: Acquired = expect(self.client.call(&request("GET", &path, &self.key, "")).await?, &[200, 202])?;
        self.held = acquired.lease;
        match (&self.held, acquired.ticket) {
            (Some(_), _) => Ok(None),
            (None, Some(ticket)) if matches!(ticket.status.as_str(), "waiting" | "granted") => Ok(Some(ticket)),
            (None, other) => Err(Error::other(format!("a place in the queue was lost: {other:?}"))),
        }
    }

    /// Waits until the lease is there.
    pub async fn take(&mut self, ticket: &str) -> Result<()> {
        while self.look(ticket, Duration::from_secs(60)).await?.is_some() {}
        Ok(())
    }

    /// A call as the holder.
    pub async fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let message = request(method, path, &self.key, body);
        let message = match &self.held {
            Some(held) => with_header(&message, "Stead-Lease", &held.token),
            None => message,
        };
        expect(self.client.call(&message).await?, &[200, 201])
    }
}

impl Session for Holder {
    async fn acquire(&mut self) -> Result<()> {
        match self.draw(LONG).await? {
            Drawn::Held => Ok(()),
            Drawn::Waits(ticket) => self.take(&ticket.id).await,
        }
    }

    async fn release(&mut self) -> Result<()> {
        let held = self.held()?;
        let message = request("POST", &format!("{ENVIRONMENTS}/leases/{}/release", held.id), &self.key, "");
        let message = with_header(&message, "Stead-Lease", &held.token);
        let (status, body) = self.client.call(&message).await?;
        if status != 200 {
            return Err(Error::other(format!("{status} {}", String::from_utf8_lossy(body))));
        }
        self.held = None;
        Ok(())
    }
}

/// The same request with one more header, after its first line.
fn with_header(message: &[u8], name: &str, value: &str) -> Vec<u8> {
    let line = message.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    [&message[..line], format!("{name}: {value}\r\n").as_bytes(), &message[line..]].concat()
}

fn expect<T: for<'b> Deserialize<'b>>((status, body): (u16, &[u8]), wanted: &[u16]) -> Result<T> {
    if !wanted.contains(&status) {
        return Err(Error::other(format!("{status} {}", String::from_utf8_lossy(body))));
    }
    Ok(serde_json::from_slice(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_stands_behind_the_first_line() {
        let message = request("POST", "/x", "key", "{}");
        let text = String::from_utf8(with_header(&message, "Stead-Lease", "stl_1")).unwrap();
        assert!(
            text.starts_with("POST /x HTTP/1.1\r\nStead-Lease: stl_1\r\nHost: localhost\r\n") && text.ends_with("\r\n\r\n{}"),
            "{text}"
        );
    }
}
