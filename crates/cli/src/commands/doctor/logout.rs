//! Whether the server and what runs in environments survive a logout.

use std::fs;
use std::path::Path;

use super::check::Check;
use super::repair::Repair;

/// What decides about it.
#[derive(Debug, Default)]
struct Facts {
    has_systemd: bool,
    is_root: bool,
    user: Option<String>,
    /// The user's services go on without a login.
    lingers: bool,
    /// Of logind; none when no file says it, and then the distribution decided.
    kills: Option<bool>,
    /// Where the server runs, or a server would that this command starts.
    cgroup: String,
    has_loginctl: bool,
}

pub fn examine(root: &Path, server: Option<u32>) -> Check {
    let uid = rustix::process::getuid().as_raw();
    let user = user_name(&fs::read_to_string(root.join("etc/passwd")).unwrap_or_default(), uid);
    let process = server.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    judge(&Facts {
        has_systemd: root.join("run/systemd/system").is_dir(),
        is_root: uid == 0,
        lingers: user.as_ref().is_some_and(|user| root.join("var/lib/systemd/linger").join(user).exists()),
        user,
        kills: kills_processes(root),
        cgroup: fs::read_to_string(root.join("proc").join(process).join("cgroup")).unwrap_or_default(),
        has_loginctl: root.join("usr/bin/loginctl").exists() || root.join("bin/loginctl").exists(),
    })
}

fn judge(facts: &Facts) -> Check {
    let ok = |message: &str| Check::ok("SD26", "logout", message);
    if !facts.has_systemd {
        return ok("there is no systemd here that would end processes at a logout");
    }
    if facts.is_root || facts.cgroup.contains("/system.slice/") {
        return ok("the server is no part of a login session");
    }
    let (message, next) = if facts.cgroup.contains("/user@") {
        if facts.lingers {
            return ok("your services go on after a logout");
        }
        ("your services, the server among them, end with your last logout", "loginctl enable-linger")
    } else {
        match facts.kills {
            Some(false) => return ok("a logout leaves processes alone (KillUserProcesses=no)"),
            Some(true) => (
                "a logout ends everything that was started in the session (KillUserProcesses=yes)",
                "run the server as a service: loginctl enable-linger, then systemctl --user enable --now stead",
            ),
            None => (
                "whether a logout ends what was started in the session is not said (KillUserProcesses is not set)",
                "run the server as a service: loginctl enable-linger, then systemctl --user enable --now stead",
            ),
        }
    };
    let check = Check::warn("SD26", "logout", message, next);
    match &facts.user {
        Some(user) if facts.has_loginctl && !facts.lingers => {
            check.repaired_by(Repair::Run(["loginctl", "enable-linger", user].map(str::to_owned).to_vec()))
        }
        _ => check,
    }
}

fn user_name(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// The last that says so wins: the main file first, then the others in the order of their names, wherever they lie.
fn kills_processes(root: &Path) -> Option<bool> {
    let mut files: Vec<_> = ["usr/lib", "run", "etc"]
        .iter()
        .filter_map(|above| fs::read_dir(root.join(above).join("systemd/logind.conf.d")).ok())
        .flat_map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    files.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    files.insert(0, root.join("etc/systemd/logind.conf"));
    let mut said = files.iter().rev().filter_map(|path| fs::read_to_string(path).ok());
    said.find_map(|text| {
        let mut values = text.lines().filter_map(|line| line.trim().strip_prefix("KillUserProcesses="));
        values.next_back().map(|value| matches!(value.trim(), "yes" | "true" | "1" | "on"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    fn facts() -> Facts {
        let cgroup = "0::/user.slice/user-1000.slice/session-2.scope".to_owned();
        Facts { has_systemd: true, user: Some("me".to_owned()), cgroup, has_loginctl: true, ..Facts::default() }
    }

    #[test]
    fn who_would_be_ended_is_warned() {
        let service = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/stead.service".to_owned();
        for (facts, expected, mends) in [
            (Facts { has_systemd: false, ..facts() }, Status::Ok, false),
            (Facts { is_root: true, ..facts() }, Status::Ok, false),
            (Facts { kills: Some(false), ..facts() }, Status::Ok, false),
            (Facts { kills: Some(true), ..facts() }, Status::Warn, true),
            (facts(), Status::Warn, true),
            (Facts { has_loginctl: false, ..facts() }, Status::Warn, false),
            (Facts { cgroup: service.clone(), ..facts() }, Status::Warn, true),
            (Facts { cgroup: service, lingers: true, ..facts() }, Status::Ok, false),
            // A service that goes on does not save what was started in a session.
            (Facts { kills: Some(true), lingers: true, ..facts() }, Status::Warn, false),
        ] {
            let check = judge(&facts);
            assert_eq!((check.status, check.repair.is_some()), (expected, mends), "{facts:?}");
        }
    }

    #[test]
    fn the_last_file_that_says_it_wins() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(kills_processes(root.path()), None);
        write("etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=no\n");
        assert_eq!(kills_processes(root.path()), None);
        write("usr/lib/systemd/logind.conf.d/20-x.conf", "[Login]\nKillUserProcesses=yes\n");
        assert_eq!(kills_processes(root.path()), Some(true));
        write("etc/systemd/logind.conf.d/30-y.conf", "[Login]\nKillUserProcesses=no\n");
        assert_eq!(kills_processes(root.path()), Some(false));
        assert_eq!(user_name("root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n", 1000).as_deref(), Some("me"));
    }
}
