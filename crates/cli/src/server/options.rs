//! What `stead serve` takes: each option also as `STEAD_…` in the environment and, with dashes as underscores, in the configuration file.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Clone, Debug, Default)]
pub struct ServeOptions {
    /// A TOML file with these same settings; what the command line and the environment say comes first
    #[arg(long, env = "STEAD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where everything is kept; by default `stead` below the XDG data directory
    #[arg(long, env = "STEAD_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The TCP address; port 0 picks a free one [default: 127.0.0.1:7070, or a free port when that is taken]
    #[arg(long, env = "STEAD_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Where ports of environments are served, or `off` [default: 127.0.0.1:7071, or a free port when that is taken]
    #[arg(long, env = "STEAD_PORTS_LISTEN", value_name = "ADDRESS:PORT")]
    pub ports_listen: Option<String>,
    /// The domain that ports of environments have their names in, or its URL where something stands before this server [default: localhost]
    #[arg(long, env = "STEAD_PORTS_DOMAIN", value_name = "DOMAIN|URL")]
    pub ports_domain: Option<String>,
    /// The unix socket [default: DIR/stead.sock]
    #[arg(long, env = "STEAD_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// A PostgreSQL URL; without one the state is SQLite in the data directory
    #[arg(long, env = "STEAD_DATABASE", value_name = "URL", hide_env_values = true)]
    pub database: Option<String>,
    /// The certificate chain for TLS, in PEM
    #[arg(long, env = "STEAD_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key for TLS, in PEM
    #[arg(long, env = "STEAD_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Serve plain HTTP on an address that is not loopback
    #[arg(long, env = "STEAD_INSECURE_HTTP")]
    pub insecure_http: bool,
    /// Serve one provider's name by another, e.g. `sprites=local`
    #[arg(long, env = "STEAD_PROVIDER_ALIAS", value_name = "NAME=PROVIDER", value_delimiter = ',')]
    pub provider_alias: Vec<String>,
    /// Allow definitions with `sandbox.mode: off`, which no provider of this version runs; the unix socket then asks for a key too
    #[arg(long, env = "STEAD_ALLOW_UNSANDBOXED")]
    pub allow_unsandboxed: bool,
    /// A directory whose contents definitions may mount from the host
    #[arg(long, env = "STEAD_ALLOW_HOST_PATH", value_name = "DIR", value_delimiter = ',')]
    pub allow_host_path: Vec<PathBuf>,
    /// A host or range that environments may reach although it is not public, such as 10.0.0.0/8; never a metadata service
    #[arg(long, env = "STEAD_EGRESS_ALLOW", value_name = "HOST|RANGE", value_delimiter = ',')]
    pub egress_allow: Vec<String>,
    /// A file of certificates of authorities that are believed, besides this machine's own, where secrets are brokered
    #[arg(long, env = "STEAD_EGRESS_ROOTS", value_name = "FILE")]
    pub egress_roots: Option<PathBuf>,
    /// A command that prints the master key, 64 hexadecimal digits; without one it is in DIR/master.key, or in STEAD_MASTER_KEY
    #[arg(long, env = "STEAD_KEY_COMMAND", value_name = "COMMAND")]
    pub key_command: Option<String>,
    /// Go on with the master key that is here, although the store was sealed with another one: the secrets in it are given up
    #[arg(long)]
    pub abandon_secrets: bool,
    /// The id of a GitHub App, with which environments get tokens for their repositories; its private key is in GITHUB_APP_PRIVATE_KEY, as PEM or as the path of a file
    #[arg(long, env = "GITHUB_APP_ID", value_name = "ID")]
    pub github_app_id: Option<String>,
    /// The client id of the GitHub App, with which people sign in; its client secret is in GITHUB_APP_CLIENT_SECRET
    #[arg(long, env = "GITHUB_APP_CLIENT_ID", value_name = "ID")]
    pub github_app_client_id: Option<String>,
    /// Where GitHub is, for a GitHub Enterprise Server [default: github.com]
    #[arg(long, env = "GITHUB_URL", value_name = "URL")]
    pub github_url: Option<String>,
    /// Where its API is [default: api.github.com, or /api/v3 below --github-url]
    #[arg(long, env = "GITHUB_API_URL", value_name = "URL")]
    pub github_api_url: Option<String>,
    /// Certificates, in PEM, that GitHub is believed by besides the machine's
    #[arg(long, env = "STEAD_GITHUB_CA", value_name = "FILE")]
    pub github_ca: Option<PathBuf>,
    /// The most that tokens of environments may do [default: contents=write,pull_requests=write]
    #[arg(long, env = "STEAD_GITHUB_PERMISSIONS", value_name = "NAME=LEVEL,…")]
    pub github_permissions: Option<String>,
    /// Requests per minute for one key; 0 sets no limit [default: 60000]
    #[arg(long, env = "STEAD_RATE_LIMIT", value_name = "NUMBER")]
    pub rate_limit: Option<u32>,
    /// `text` or `json` [default: text]
    #[arg(long, env = "STEAD_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// How long audit records are kept when `stead prune` runs, e.g. 90d or 12h [default: 365d]
    #[arg(long, env = "STEAD_KEEP_AUDIT", value_name = "DURATION")]
    pub keep_audit: Option<String>,
    /// How long the records of deleted environments are kept when `stead prune` runs [default: 30d]
    #[arg(long, env = "STEAD_KEEP_TOMBSTONES", value_name = "DURATION")]
    pub keep_tombstones: Option<String>,
    /// How long the records and the output of processes are kept after their end [default: 168h]
    #[arg(long, env = "STEAD_KEEP_LOGS", value_name = "DURATION")]
    pub keep_logs: Option<String>,
    /// How much is kept of the output of one process, from 4MiB to 16GiB; past it the middle goes [default: 64MiB]
    #[arg(long, env = "STEAD_KEEP_PROCESS_LOG", value_name = "SIZE")]
    pub keep_process_log: Option<String>,
    /// How much is kept of the output of all processes of one environment; past it that of the processes that began first goes, once they are over [default: 1GiB]
    #[arg(long, env = "STEAD_KEEP_ENVIRONMENT_LOGS", value_name = "SIZE")]
    pub keep_environment_logs: Option<String>,
    /// Leave the terminal's session, so that logging out does not end the server
    #[arg(long, hide = true)]
    pub detach: bool,
}
