//! From what would help to what would have to be written and run for it.

use std::path::{Path, PathBuf};

use super::repair::{Install, Repair};
use crate::host::Remedy;

/// Whose settings would be changed.
pub struct Machine {
    /// `/`, but for tests.
    pub root: PathBuf,
    /// This very program, where it is installed.
    pub program: PathBuf,
    pub has_systemd: bool,
}

impl Machine {
    pub fn this() -> Self {
        Self {
            root: PathBuf::from("/"),
            program: std::env::current_exe().unwrap_or_default(),
            has_systemd: Path::new("/run/systemd/system").is_dir(),
        }
    }

    /// None for what nobody can mend by writing a file.
    pub fn repair(&self, remedy: Remedy) -> Option<Repair> {
        let install = match remedy {
            Remedy::AppArmorProfile => {
                let path = self.path("etc/apparmor.d/stead");
                Install::new(path.clone(), profile(&self.program)?).then(&["apparmor_parser", "-r"], &path)
            }
            Remedy::AllowUserNamespaces => self.setting("60-stead-namespaces", "kernel.unprivileged_userns_clone = 1"),
            Remedy::MoreUserNamespaces => self.setting("60-stead-more-namespaces", "user.max_user_namespaces = 65536"),
            Remedy::LoadTun => self.module("tun"),
            Remedy::LoadOverlay => self.module("overlay"),
            Remedy::DelegateCgroup if self.has_systemd => {
                let path = self.path("etc/systemd/system/user@.service.d/stead.conf");
                let text = "# Written by `stead doctor --fix`: services of a user may bound what they start.\n[Service]\nDelegate=yes\n";
                Install::new(path, text.to_owned()).then_run(&["systemctl", "daemon-reload"])
            }
            Remedy::DelegateCgroup
            | Remedy::UncoverProc
            | Remedy::OpenTun
            | Remedy::OtherFilesystem
            | Remedy::UnifiedCgroups
            | Remedy::NewerKernel
            | Remedy::ProjectQuota => return None,
        };
        Some(Repair::Install(install))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn setting(&self, name: &str, line: &str) -> Install {
        let path = self.path(&format!("etc/sysctl.d/{name}.conf"));
        Install::new(path.clone(), format!("# Written by `stead doctor --fix`: places are made of user namespaces.\n{line}\n"))
            .then(&["sysctl", "-p"], &path)
    }

    fn module(&self, name: &str) -> Install {
        let path = self.path(&format!("etc/modules-load.d/stead-{name}.conf"));
        Install::new(path, format!("# Written by `stead doctor --fix`.\n{name}\n")).then_run(&["modprobe", name])
    }
}

/// A profile that confines nothing and grants one thing. None for a path that would mean something else there.
fn profile(program: &Path) -> Option<String> {
    let program = program.to_str().filter(|path| path.starts_with('/'))?;
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._+- ".contains(character);
    if !program.chars().all(plain) {
        return None;
    }
    Some(format!(
        "# Written by `stead doctor --fix`: lets this program make user namespaces, and restricts nothing.\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile stead \"{program}\" flags=(unconfined) {{\n  userns,\n\n  include if exists <local/stead>\n}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(root: &Path) -> Machine {
        Machine { root: root.to_owned(), program: "/usr/local/bin/stead".into(), has_systemd: true }
    }

    fn install(machine: &Machine, remedy: Remedy) -> Install {
        match machine.repair(remedy) {
            Some(Repair::Install(install)) => install,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_file_says_what_is_needed_and_nothing_else_is_written() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        for (remedy, path, line, command) in [
            (Remedy::AppArmorProfile, "etc/apparmor.d/stead", "  userns,", "apparmor_parser"),
            (Remedy::AllowUserNamespaces, "etc/sysctl.d/60-stead-namespaces.conf", "kernel.unprivileged_userns_clone = 1", "sysctl"),
            (Remedy::MoreUserNamespaces, "etc/sysctl.d/60-stead-more-namespaces.conf", "user.max_user_namespaces = 65536", "sysctl"),
            (Remedy::LoadTun, "etc/modules-load.d/stead-tun.conf", "tun", "modprobe"),
            (Remedy::LoadOverlay, "etc/modules-load.d/stead-overlay.conf", "overlay", "modprobe"),
            (Remedy::DelegateCgroup, "etc/systemd/system/user@.service.d/stead.conf", "Delegate=yes", "systemctl"),
        ] {
            let install = install(&machine, remedy);
            install.write().unwrap();
            let written = std::fs::read_to_string(root.path().join(path)).unwrap();
            assert!(written.lines().any(|found| found == line), "{written}");
            assert_eq!(install.commands()[0][0], command);
            // What is shown is what is written.
            let shown = Repair::Install(install).to_string();
            assert!(written.lines().all(|line| shown.contains(line)) && shown.contains(path), "{shown}");
        }
    }

    #[test]
    fn the_profile_is_for_the_installed_program() {
        assert!(
            profile(Path::new("/usr/local/bin/stead")).unwrap().contains("profile stead \"/usr/local/bin/stead\" flags=(unconfined) {\n")
        );
        for strange in ["/home/*/stead", "/opt/{a,b}/stead", "/a\"b/stead", "stead", "/a\nb/stead"] {
            assert_eq!(profile(Path::new(strange)), None, "{strange}");
        }
    }

    #[test]
    fn some_things_nobody_can_write() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine { has_systemd: false, ..machine(root.path()) };
        for remedy in [Remedy::UncoverProc, Remedy::OtherFilesystem, Remedy::NewerKernel, Remedy::DelegateCgroup] {
            assert!(machine.repair(remedy).is_none(), "{remedy:?}");
        }
    }
}
