//! What the operator decided.

use std::path::PathBuf;
use std::time::Duration;

use stead_domain::port_origin::PortOrigin;

#[derive(Clone, Debug)]
pub struct Settings {
    pub version: &'static str,
    /// Where this server keeps its files. Nothing in it is ever mounted into a sandbox.
    pub data_dir: PathBuf,
    /// Where other servers and people reach this one.
    pub address: String,
    /// Whether `sandbox.mode: off` is taken. It turns keyless access off: unsandboxed code of the same user would look like the operator.
    pub allow_unsandboxed: bool,
    pub retention: Retention,
    /// Where ports of environments are served; none when they are not.
    pub ports: Option<PortOrigin>,
}

#[derive(Clone, Copy, Debug)]
pub struct Retention {
    pub audit: Duration,
    pub tombstones: Duration,
    /// Of processes that are over: their records and what they printed.
    pub logs: Duration,
    /// What the processes of one environment may have printed together; beyond it the output of those that ended first goes.
    pub log_bytes: u64,
}
