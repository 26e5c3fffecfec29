//! The server's settings, from the command line, the environment, the configuration file and the defaults, in that order.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use stead_domain::duration::Duration;
use stead_domain::port_origin::PortDomain;
use stead_domain::provider::ProviderName;
use stead_domain::{Code, Error, Result};
use stead_secrets::KeySource;

use super::ServeOptions;
use super::github::{self, GithubApp, Hidden};
use super::secret_sources::RuleText;
use crate::arguments::words;
use crate::settings::{Surroundings, place};

/// The configuration file: the options under the same names.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    data_dir: Option<PathBuf>,
    listen: Option<String>,
    ports_listen: Option<String>,
    ports_domain: Option<String>,
    socket: Option<PathBuf>,
    database: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    insecure_http: bool,
    provider_alias: Vec<String>,
    allow_unsandboxed: bool,
    allow_host_path: Vec<PathBuf>,
    egress_allow: Vec<String>,
    egress_roots: Option<PathBuf>,
    key_command: Option<String>,
    github_app_id: Option<String>,
    github_app_private_key: Option<Hidden>,
    github_app_client_id: Option<String>,
    github_app_client_secret: Option<Hidden>,
    github_url: Option<String>,
    github_api_url: Option<String>,
    github_ca: Option<PathBuf>,
    github_permissions: Option<String>,
    secret_sources: Vec<RuleText>,
    rate_limit: Option<u32>,
    log_format: Option<String>,
    keep_audit: Option<String>,
    keep_tombstones: Option<String>,
    keep_logs: Option<String>,
    keep_process_log: Option<String>,
    keep_environment_logs: Option<String>,
}

/// Everything settled.
#[derive(Debug)]
pub struct Configuration {
    pub data_dir: PathBuf,
    /// What was asked for; none lets the server choose.
    pub listen: Option<String>,
    /// The same for ports of environments.
    pub ports_listen: PortsListen,
    pub ports_domain: PortDomain,
    pub socket: PathBuf,
    pub database: Option<String>,
    pub tls: Option<(PathBuf, PathBuf)>,
    pub insecure_http: bool,
    pub provider_aliases: Vec<(ProviderName, ProviderName)>,
    pub allow_unsandboxed: bool,
    pub allow_host_paths: Vec<PathBuf>,
    /// Hosts and ranges that environments may reach although they are not public.
    pub egress_allow: Vec<String>,
    /// Certificates of authorities that the relay believes besides this machine's own.
    pub egress_roots: Option<PathBuf>,
    /// Where the master key comes from.
    pub key_source: KeySource,
    /// Where secrets come from beside the store.
    pub secret_sources: Vec<RuleText>,
    /// The store may be sealed with another one, and is then used without its secrets.
    pub abandon_secrets: bool,
    /// The app by which environments get tokens, if there is one.
    pub github: Option<GithubApp>,
    pub rate_limit: u32,
    pub log_as_json: bool,
    pub keep_audit: Duration,
    pub keep_tombstones: Duration,
    pub keep_logs: Duration,
    /// In bytes, of one process and of all of an environment.
    pub keep_process_log: u64,
    pub keep_environment_logs: u64,
    pub detach: bool,
}

/// Where ports of environments are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortsListen {
    Off,
    Usual,
    At(String),
}

impl PortsListen {
    fn parse(text: Option<String>) -> Self {
        match text {
            None => Self::Usual,
            Some(text) if text.eq_ignore_ascii_case("off") => Self::Off,
            Some(text) => Self::At(text),
        }
    }
}

/// Every name below it is this machine, for browsers and for curl.
const PORTS_DOMAIN: &str = "localhost";
const DEFAULT_RATE_LIMIT: u32 = 60_000;
const KEEP_AUDIT: Duration = Duration::from_secs(8760 * 3600);
const KEEP_TOMBSTONES: Duration = Duration::from_secs(720 * 3600);
const KEEP_LOGS: Duration = Duration::from_secs(168 * 3600);
const KEEP_PROCESS_LOG: u64 = 64 << 20;
const KEEP_ENVIRONMENT_LOGS: u64 = 1 << 30;
/// Less would leave no beginning and no end of it, and more would be files without number.
const PROCESS_LOG: RangeInclusive<u64> = 4 << 20..=16 << 30;
/// What the kernel takes for the path of a unix socket.
const LONGEST_SOCKET_PATH: usize = 107;

impl Configuration {
    pub fn settle(options: ServeOptions) -> Result<Self> {
        let surroundings = Surroundings::of_this_process()?;
        let file = match &options.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let data_dir = match options.data_dir.or(file.data_dir) {
            Some(path) => surroundings.absolute(&path),
            None => surroundings.default_data_directory()?,
        };
        let socket = options.socket.or(file.socket).map_or_else(|| data_dir.join("stead.sock"), |path| surroundings.absolute(&path));
        if socket.as_os_str().len() > LONGEST_SOCKET_PATH {
            return Err(usage(format!("the path of the unix socket, {}, is longer than {LONGEST_SOCKET_PATH} bytes", socket.display()))
                .suggestion("choose a shorter one with --socket, or a shorter --data-dir"));
        }
        let tls = match (options.tls_cert.or(file.tls_cert), options.tls_key.or(file.tls_key)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(usage("tls_cert and tls_key go together".to_owned())),
        };
        let aliases = if options.provider_alias.is_empty() { file.provider_alias } else { options.provider_alias };
        let log_format = options.log_format.or(file.log_format).unwrap_or_else(|| "text".to_owned());
        let (keep_process_log, keep_environment_logs) = log_sizes(
            options.keep_process_log.or(file.keep_process_log).as_deref(),
            options.keep_environment_logs.or(file.keep_environment_logs).as_deref(),
        )?;
        let key_source = key_source(options.key_command.or(file.key_command), &data_dir)?;
        let github = GithubApp::settle(github::Stated {
            app_id: options.github_app_id.or(file.github_app_id),
            private_key: Hidden::variable("GITHUB_APP_PRIVATE_KEY").or(file.github_app_private_key),
            client_id: options.github_app_client_id.or(file.github_app_client_id),
            client_secret: Hidden::variable("GITHUB_APP_CLIENT_SECRET").or(file.github_app_client_secret),
            url: options.github_url.or(file.github_url),
            api_url: options.github_api_url.or(file.github_api_url),
            ca: options.github_ca.or(file.github_ca),
            permissions: options.github_permissions.or(file.github_permissions),
        })?;
        Ok(Self {
            github,
            key_source,
            secret_sources: file.secret_sources,
            abandon_secrets: options.abandon_secrets,
            listen: options.listen.or(file.listen),
            ports_listen: PortsListen::parse(options.ports_listen.or(file.ports_listen)),
            ports_domain: options.ports_domain.or(file.ports_domain).as_deref().unwrap_or(PORTS_DOMAIN).parse()?,
            socket,
            data_dir,
            database: options.database.or(file.database),
            tls,
            insecure_http: options.insecure_http || file.insecure_http,
            provider_aliases: aliases.iter().map(|alias| parse_alias(alias)).collect::<Result<_>>()?,
            allow_unsandboxed: options.allow_unsandboxed || file.allow_unsandboxed,
            egress_roots: options.egress_roots.or(file.egress_roots),
            egress_allow: if options.egress_allow.is_empty() { file.egress_allow } else { options.egress_allow },
            allow_host_paths: if options.allow_host_path.is_empty() { file.allow_host_path } else { options.allow_host_path },
            rate_limit: options.rate_limit.or(file.rate_limit).unwrap_or(DEFAULT_RATE_LIMIT),
            log_as_json: match log_format.as_str() {
                "text" => false,
                "json" => true,
                other => return Err(usage(format!("log_format is `{other}`, and must be `text` or `json`"))),
            },
            keep_audit: parse_duration("keep_audit", options.keep_audit.or(file.keep_audit), KEEP_AUDIT)?,
            keep_tombstones: parse_duration("keep_tombstones", options.keep_tombstones.or(file.keep_tombstones), KEEP_TOMBSTONES)?,
            keep_logs: parse_duration("keep_logs", options.keep_logs.or(file.keep_logs), KEEP_LOGS)?,
            keep_process_log,
            keep_environment_logs,
            detach: options.detach,
        })
    }

    /// Plain HTTP leaves the machine only when the operator says so.
    pub fn check_exposure(&self, address: SocketAddr) -> Result<()> {
        if address.ip().is_loopback() || self.tls.is_some() || self.insecure_http {
            return Ok(());
        }
        Err(usage(format!("{address} is not loopback, and keys would cross the network unencrypted"))
            .suggestion("give --tls-cert and --tls-key, or say --insecure-http behind a proxy that does TLS"))
    }
}

/// What a server is given its master key in. It is read once, and whatever the server starts does not get it.
pub const MASTER_KEY_VARIABLE: &str = "STEAD_MASTER_KEY";

fn key_source(command: Option<String>, data_dir: &Path) -> Result<KeySource> {
    match (command, std::env::var(MASTER_KEY_VARIABLE)) {
        (Some(_), Ok(_)) => Err(usage(format!("key_command and {MASTER_KEY_VARIABLE} both say where the master key comes from"))
            .suggestion("leave one of them out")),
        (Some(command), Err(_)) => Ok(KeySource::Command(command)),
        (None, Ok(text)) => Ok(KeySource::Variable(text.into())),
        (None, Err(_)) => Ok(KeySource::File(data_dir.join("master.key"))),
    }
}

fn usage(message: String) -> Error {
    Error::new(Code::Usage, message)
}

fn read(path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::new(Code::LocalFile, format!("the configuration {} cannot be read: {error}", path.display())).suggestion("check the path")
    })?;
    toml::from_str(&text).map_err(|error| {
        let (line, column) = place(&text, &error);
        usage(format!("the configuration {} at line {line}, column {column}: {}", path.display(), error.message()))
            .suggestion("`stead serve --help` lists the settings")
    })
}

fn parse_alias(text: &str) -> Result<(ProviderName, ProviderName)> {
    let wrong = || usage(format!("`{text}` is not an alias such as sprites=local"));
    let (name, served_by) = text.split_once('=').ok_or_else(wrong)?;
    match (name.trim().parse(), served_by.trim().parse()) {
        (Ok(name), Ok(served_by)) => Ok((name, served_by)),
        _ => Err(wrong()),
    }
}

fn parse_duration(name: &str, text: Option<String>, default: Duration) -> Result<Duration> {
    text.map_or(Ok(default), |text| words::duration(&text).map_err(|error| usage(format!("{name}: {error}"))))
}

/// How much is kept of one process and of all of an environment, in bytes.
fn log_sizes(process: Option<&str>, environment: Option<&str>) -> Result<(u64, u64)> {
    let size = |name: &str, text: &str| words::size(text).map_err(|error| usage(format!("{name}: {error}")));
    let kept = process.map_or(Ok(KEEP_PROCESS_LOG), |text| size("keep_process_log", text))?;
    if !PROCESS_LOG.contains(&kept) {
        return Err(
            usage("keep_process_log is outside of 4MiB to 16GiB".to_owned()).suggestion("choose a size between them; 64MiB is usual")
        );
    }
    let Some(text) = environment else { return Ok((kept, KEEP_ENVIRONMENT_LOGS.max(kept))) };
    let all = size("keep_environment_logs", text)?;
    if all < kept {
        // The output of a process that has just ended would be the first to go.
        let message = "keep_environment_logs is less than what is kept of one process";
        return Err(usage(message.to_owned()).suggestion("raise it, or lower keep_process_log"));
    }
    Ok((kept, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(config: &str, change: impl FnOnce(&mut ServeOptions)) -> Result<Configuration> {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("stead.toml");
        std::fs::write(&path, config).unwrap();
        let mut options = ServeOptions { config: Some(path), data_dir: Some(directory.path().to_owned()), ..ServeOptions::default() };
        change(&mut options);
        Configuration::settle(options)
    }

    #[test]
    fn the_command_line_comes_before_the_file() {
        let settled = settle("listen = '127.0.0.1:1'\nrate_limit = 5\nkeep_audit = '2h'", |options| options.rate_limit = Some(7)).unwrap();
        assert_eq!(
            (settled.listen.as_deref(), settled.rate_limit, settled.keep_audit),
            (Some("127.0.0.1:1"), 7, Duration::from_secs(7200))
        );
        assert!(settled.socket.ends_with("stead.sock"));
    }

    #[test]
    fn what_is_wrong_in_the_file_is_placed() {
        let error = settle("listen = '127.0.0.1:1'\ncolour = 1", |_| ()).unwrap_err();
        assert!(error.message().contains("line 2, column 1") && error.message().contains("colour"), "{error}");
        assert!(settle("rate_limit = 'x'", |_| ()).is_err());
        assert!(settle("provider_alias = ['sprites']", |_| ()).is_err());
        assert!(settle("tls_cert = 'x'", |_| ()).is_err());
        assert!(settle("keep_audit = 'long'", |_| ()).is_err());
        assert!(settle("", |options| options.socket = Some(format!("/{}", "x".repeat(120)).into())).is_err());
    }

    #[test]
    fn logs_are_kept_within_sane_bounds() {
        let sizes = |config: &str| settle(config, |_| ()).map(|settled| (settled.keep_process_log, settled.keep_environment_logs));
        assert_eq!(sizes("").unwrap(), (64 << 20, 1 << 30));
        assert_eq!(sizes("keep_process_log = '4MiB'\nkeep_environment_logs = '5MiB'").unwrap(), (4 << 20, 5 << 20));
        assert_eq!(sizes("keep_process_log = '2GiB'").unwrap(), (2 << 30, 2 << 30), "what one may keep, all together may");
        for wrong in ["'1MiB'", "'17GiB'", "'0'", "'much'", "'-1'"] {
            assert!(sizes(&format!("keep_process_log = {wrong}")).is_err(), "{wrong}");
        }
        let error = sizes("keep_environment_logs = '63MiB'").unwrap_err();
        assert!(error.message().contains("less than what is kept of one process") && error.suggested().is_some(), "{error}");
    }

    #[test]
    fn ports_are_served_unless_they_are_not() {
        assert_eq!(settle("", |_| ()).unwrap().ports_listen, PortsListen::Usual);
        assert_eq!(settle("ports_listen = 'OFF'", |_| ()).unwrap().ports_listen, PortsListen::Off);
        let settled = settle("ports_domain = 'a.test'", |options| options.ports_domain = Some("https://b.test".to_owned())).unwrap();
        assert_eq!(settled.ports_domain.domain, "b.test");
        assert!(settle("ports_domain = '127.0.0.1'", |_| ()).is_err());
    }

    #[test]
    fn plain_http_stays_on_the_machine() {
        let outside: SocketAddr = "0.0.0.0:7070".parse().unwrap();
        assert!(settle("", |_| ()).unwrap().check_exposure(outside).is_err());
        assert!(settle("insecure_http = true", |_| ()).unwrap().check_exposure(outside).is_ok());
        assert!(settle("tls_cert = 'a'\ntls_key = 'b'", |_| ()).unwrap().check_exposure(outside).is_ok());
        for loopback in ["127.0.0.1:1", "[::1]:1"] {
            assert!(settle("", |_| ()).unwrap().check_exposure(loopback.parse().unwrap()).is_ok());
        }
    }
}
