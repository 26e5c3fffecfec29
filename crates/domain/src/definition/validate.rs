//! What a definition must hold beyond its types.

use std::collections::HashSet;

use super::{NetworkAccess, RootView, Spec};
use crate::error::{Error, Result};
use crate::{names, repository};

/// No list in a definition is longer than this.
pub(super) const LONGEST_LIST: usize = 256;
/// GitHub takes no more repositories for one token.
const MOST_REPOSITORIES: usize = 500;

impl Spec {
    /// Checks every field that is there; `prefix` names where the definition stands.
    pub fn validate(&self, prefix: &str) -> Result<()> {
        let path = |field: &str| if prefix.is_empty() { field.to_owned() } else { format!("{prefix}.{field}") };
        if let Some(name) = &self.name {
            names::check_text(&path("name"), name, 128)?;
        }
        self.validate_sandbox(&path)?;
        self.validate_mounts(&path)?;
        self.validate_repos(&path)?;
        self.validate_secrets(&path)?;
        self.validate_lease(&path)?;
        self.validate_rest(&path)
    }

    fn validate_sandbox(&self, path: &impl Fn(&str) -> String) -> Result<()> {
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        let hosts = sandbox.allowed_hosts.as_deref().unwrap_or_default();
        check_length(&path("sandbox.allowed_hosts"), hosts.len(), LONGEST_LIST)?;
        for (index, host) in hosts.iter().enumerate() {
            check_host(&path(&format!("sandbox.allowed_hosts[{index}]")), host)?;
        }
        if sandbox.network_access != Some(NetworkAccess::Allowlist) && !hosts.is_empty() {
            return Err(Error::field(path("sandbox.allowed_hosts"), "is only used with `network_access: allowlist`, which is not set")
                .suggestion("set sandbox.network_access to allowlist, or leave allowed_hosts out"));
        }
        for (field, list) in [("protected_paths", &sandbox.protected_paths), ("hidden_paths", &sandbox.hidden_paths)] {
            let list = list.as_deref().unwrap_or_default();
            check_length(&path(&format!("sandbox.{field}")), list.len(), LONGEST_LIST)?;
            for (index, entry) in list.iter().enumerate() {
                check_path(&path(&format!("sandbox.{field}[{index}]")), entry.strip_prefix('/').unwrap_or(entry), false)?;
            }
        }
        if let Some(resources) = &sandbox.resources {
            if let Some(cpus) = resources.cpus
                && !(0.01..=1024.0).contains(&cpus)
            {
                return Err(Error::field(path("sandbox.resources.cpus"), "must be between 0.01 and 1024"));
            }
            for (field, value, least, most) in [
                ("memory_mb", resources.memory_mb, 4, 16 << 20),
                ("pids", resources.pids, 1, 4 << 20),
                ("disk_mb", resources.disk_mb, 1, 1 << 30),
            ] {
                if let Some(value) = value
                    && !(least..=most).contains(&value)
                {
                    return Err(Error::field(path(&format!("sandbox.resources.{field}")), format!("must be between {least} and {most}")));
                }
            }
        }
        Ok(())
    }

    fn validate_mounts(&self, path: &impl Fn(&str) -> String) -> Result<()> {
        let mut taken: Vec<(String, &str)> = Vec::new();
        if let Some(defaults) = &self.workspace_mount_defaults {
            for (field, value) in [("workspace_path", &defaults.workspace_path), ("runtime_path", &defaults.runtime_path)] {
                if let Some(value) = value {
                    let field = path(&format!("workspace_mount_defaults.{field}"));
                    check_path(&field, value, true)?;
                    taken.push((field, value));
                }
            }
        }
        let mounts = self.mounts.as_deref().unwrap_or_default();
        check_length(&path("mounts"), mounts.len(), LONGEST_LIST)?;
        for (index, mount) in mounts.iter().enumerate() {
            let field = path(&format!("mounts[{index}].path"));
            check_path(&field, &mount.path, true)?;
            taken.push((field, &mount.path));
            let source = path(&format!("mounts[{index}].source"));
            match mount.source.split_once(':') {
                Some(("host", host_path)) => check_path(&source, host_path, true)?,
                Some(("artifact", id)) if id.starts_with("art_") && id[4..].bytes().all(|b| b.is_ascii_alphanumeric()) && id.len() > 4 => {}
                _ => return Err(Error::field(source, "must be `host:/path` or `artifact:art_…`")),
            }
        }
        let workspace = path("workspace_mount_defaults.workspace_path");
        let is_host = |field: &String| {
            mounts
                .iter()
                .enumerate()
                .any(|(index, mount)| mount.source.starts_with("host:") && *field == path(&format!("mounts[{index}].path")))
        };
        for (index, (field, value)) in taken.iter().enumerate() {
            // A directory of the host in the workspace's place is the workspace.
            let may_share = |other: &String| *other == workspace && is_host(field);
            if let Some((other, _)) = taken[..index].iter().find(|(other, earlier)| earlier == value && !may_share(other)) {
                return Err(Error::field(field.clone(), format!("`{value}` is the place of `{other}` already")));
            }
        }
        Ok(())
    }

    fn validate_repos(&self, path: &impl Fn(&str) -> String) -> Result<()> {
        let Some(repos) = &self.repos else { return Ok(()) };
        let allowed = repos.allowed.as_deref().unwrap_or_default();
        check_length(&path("repos.allowed"), allowed.len(), MOST_REPOSITORIES)?;
        let mut seen = HashSet::new();
        for (index, name) in allowed.iter().enumerate() {
            let field = path(&format!("repos.allowed[{index}]"));
            repository::check(&field, name)?;
            if !seen.insert(repository::key(name)) {
                return Err(Error::field(field, format!("`{name}` stands twice; capital letters make no other repository")));
            }
        }
        if let Some(default) = &repos.default {
            repository::check(&path("repos.default"), default)?;
            if !allowed.iter().any(|name| name.eq_ignore_ascii_case(default)) {
                return Err(Error::field(path("repos.default"), format!("`{default}` is not in `repos.allowed`"))
                    .suggestion(format!("add \"{default}\" to repos.allowed")));
            }
        }
        match repos.github_installation_id {
            None => return Ok(()),
            // Ids of rows are positive, and JSON's readers elsewhere lose what is larger than this.
            Some(id) if !(1..=(1 << 53)).contains(&id) => {
                return Err(Error::field(path("repos.github_installation_id"), "is no id of an installation"));
            }
            Some(_) => {}
        }
        // Tokens are asked for by bare names: one of another owner would open a repository that nobody named.
        let owner = |name: &str| repository::split(name).map(|(owner, _)| owner.to_ascii_lowercase());
        let first = allowed.first().and_then(|name| owner(name));
        match allowed.iter().position(|name| owner(name) != first) {
            None => Ok(()),
            Some(index) => Err(Error::field(
                path(&format!("repos.allowed[{index}]")),
                format!("`{}` has another owner than `{}`, and an installation is of one account", allowed[index], allowed[0]),
            )
            .suggestion("name repositories of one owner, or make an environment for each owner")),
        }
    }

    fn validate_lease(&self, path: &impl Fn(&str) -> String) -> Result<()> {
        let Some(lease) = &self.lease else { return Ok(()) };
        let day = 24 * 3_600_000;
        for (field, value, least, most) in [
            ("default_ttl", lease.default_ttl, 1000, day),
            ("max_lifetime", lease.max_lifetime, 1000, 30 * day),
            ("lock_delay", lease.lock_delay, 0, 60_000),
        ] {
            check_duration(&path(&format!("lease.{field}")), value, least, most)?;
        }
        Ok(())
    }

    fn validate_rest(&self, path: &impl Fn(&str) -> String) -> Result<()> {
        let variables = self.env.iter().flatten();
        check_length(&path("env"), self.env.as_ref().map_or(0, std::collections::BTreeMap::len), LONGEST_LIST)?;
        for (name, value) in variables {
            let field = path(&format!("env.{}", name.chars().take(64).collect::<String>()));
            check_variable(&field, name)?;
            if value.contains('\0') || value.len() > 32_768 {
                return Err(Error::field(field, "holds a NUL or is longer than 32768 bytes"));
            }
        }
        if let Some(root) = &self.root {
            let is_image = root.view == Some(RootView::Image);
            if is_image && root.image.is_none() {
                return Err(Error::field(path("root.image"), "`view: image` needs one"));
            }
            if !is_image && (root.image.is_some() || root.digest.is_some()) {
                return Err(Error::field(path("root.view"), "`image` and `digest` are only used with `view: image`"));
            }
            if let Some(image) = &root.image {
                check_path(&path("root.image"), image, true)?;
            }
            if let Some(digest) = &root.digest
                && !digest.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
            {
                return Err(Error::field(path("root.digest"), "must be `sha256:` and 64 hexadecimal digits"));
            }
        }
        let ports = self.ports.as_deref().unwrap_or_default();
        check_length(&path("ports"), ports.len(), LONGEST_LIST)?;
        for (index, port) in ports.iter().enumerate() {
            if port.port == 0 || ports[..index].iter().any(|earlier| earlier.port == port.port) {
                return Err(Error::field(path(&format!("ports[{index}].port")), "must be between 1 and 65535 and stand once"));
            }
        }
        if ports.iter().filter(|port| port.primary).count() > 1 {
            return Err(Error::field(path("ports"), "at most one is primary"));
        }
        check_duration(&path("idle_timeout"), self.idle_timeout, 1000, 30 * 24 * 3_600_000)?;
        if let Some(checkpoints) = &self.checkpoints {
            check_duration(&path("checkpoints.every"), checkpoints.every, 60_000, 30 * 24 * 3_600_000)?;
            if let Some(keep) = checkpoints.keep
                && !(1..=1000).contains(&keep)
            {
                return Err(Error::field(path("checkpoints.keep"), "must be between 1 and 1000"));
            }
        }
        let artifacts = self.artifacts.as_deref().unwrap_or_default();
        check_length(&path("artifacts"), artifacts.len(), LONGEST_LIST)?;
        for (index, rule) in artifacts.iter().enumerate() {
            check_path(&path(&format!("artifacts[{index}].path")), &rule.path, false)?;
        }
        let providers = self.providers.as_deref().unwrap_or_default();
        for (index, provider) in providers.iter().enumerate() {
            if providers[..index].contains(provider) {
                return Err(Error::field(path(&format!("providers[{index}]")), format!("`{provider}` stands twice")));
            }
        }
        if let Some(script) = self.setup.as_ref().and_then(|setup| setup.script.as_ref())
            && (script.contains('\0') || script.len() > 262_144)
        {
            return Err(Error::field(path("setup.script"), "holds a NUL or is longer than 262144 bytes"));
        }
        Ok(())
    }
}

pub(super) fn check_length(field: &str, length: usize, most: usize) -> Result<()> {
    if length <= most {
        return Ok(());
    }
    Err(Error::field(field, format!("holds {length} entries, at most {most} are taken")))
}

fn check_duration(field: &str, value: Option<crate::duration::Duration>, least: u64, most: u64) -> Result<()> {
    match value {
        Some(value) if !(least..=most).contains(&value.as_millis()) => {
            let show = crate::duration::Duration::from_millis;
            Err(Error::field(field, format!("must be between {} and {}", show(least), show(most))))
        }
        _ => Ok(()),
    }
}

/// A path inside the place: no empty, `.` or `..` segment, no control character, and absolute where it must be.
fn check_path(field: &str, value: &str, absolute: bool) -> Result<()> {
    let relative = match (absolute, value.strip_prefix('/')) {
        (true, Some(rest)) => rest,
        (false, None) => value,
        (true, None) => return Err(Error::field(field, "must be an absolute path")),
        (false, Some(_)) => return Err(Error::field(field, "must be a relative path")),
    };
    let well_formed = value.len() <= 4096
        && !value.chars().any(char::is_control)
        && relative.split('/').all(|segment| !matches!(segment, "" | "." | "..") && segment.len() <= 255);
    if well_formed {
        return Ok(());
    }
    Err(Error::field(field, "must be a plain path below the root, without `.`, `..`, empty segments or control characters"))
}

/// `host`, `host:port` or `*.suffix[:port]`.
pub(super) fn check_host(field: &str, value: &str) -> Result<()> {
    let (host, port) = match value.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (value, None),
    };
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let port_is_fine = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0) && !port.starts_with(['+', '0']));
    if name.len() <= 253 && name.split('.').all(label) && port_is_fine {
        return Ok(());
    }
    Err(Error::field(field, "must be `host`, `host:port` or `*.suffix`, by name"))
}

/// A variable of a process; secrets are upper case.
fn check_variable(field: &str, name: &str) -> Result<()> {
    let letter = |b: u8| b == b'_' || b.is_ascii_alphabetic();
    let well_formed =
        (1..=128).contains(&name.len()) && name.bytes().enumerate().all(|(at, b)| letter(b) || (at > 0 && b.is_ascii_digit()));
    if well_formed {
        return Ok(());
    }
    Err(Error::field(field, "must match ^[A-Za-z_][A-Za-z0-9_]*$"))
}
