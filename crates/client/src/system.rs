//! The server itself.

use serde::{Deserialize, Serialize};
use serde_json::json;
use stead_domain::Timestamp;
use stead_domain::process::Process;

use crate::{Client, Request, Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Readiness {
    pub status: String,
    /// The server's; older ones do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip)]
    pub ready: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct System {
    pub version: String,
    pub data_dir: String,
    pub started_at: Timestamp,
    /// Where it listens besides the unix socket.
    pub address: String,
    /// How ports of environments are reached; older servers do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// `sqlite` or `postgres`.
    pub store: String,
    pub host_id: String,
    /// What runs in environments and would outlive the server.
    pub running: Vec<Process>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Usage {
    pub items: Vec<UsageItem>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UsageItem {
    pub what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PruneReport {
    pub dry_run: bool,
    pub items: Vec<PrunedItem>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrunedItem {
    pub what: String,
    pub count: u64,
    /// Whether it may hold somebody's work that is nowhere else.
    #[serde(default)]
    pub irreplaceable: bool,
}

impl Client {
    pub async fn readiness(&self) -> Result<Readiness> {
        let response = self.send(Request::get("/readyz").impatient()).await?;
        let told: Readiness = self.parse(&response)?;
        Ok(Readiness { ready: response.is_success(), ..told })
    }

    pub async fn system(&self) -> Result<System> {
        self.json(Request::get("/v1/system")).await
    }

    pub async fn usage(&self) -> Result<Usage> {
        self.json(Request::get("/v1/system/usage")).await
    }

    pub async fn prune(&self, dry_run: bool) -> Result<PruneReport> {
        self.json(Request::post("/v1/system/prune").json(&json!({ "dry_run": dry_run }))?).await
    }

    /// Asks the server to end; `all` also stops what runs in environments.
    pub async fn shut_down(&self, all: bool) -> Result<()> {
        self.request(Request::post("/v1/system/shutdown").json(&json!({ "all": all }))?).await.map(drop)
    }
}
