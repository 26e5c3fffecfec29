//! What would make something work that does not.

use std::path::Path;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remedy {
    /// AppArmor lets only programs with a profile use user namespaces.
    AppArmorProfile,
    /// `kernel.unprivileged_userns_clone` is off.
    AllowUserNamespaces,
    /// `user.max_user_namespaces` is too low.
    MoreUserNamespaces,
    /// Something around us covers parts of /proc, usually a container.
    UncoverProc,
    LoadTun,
    OpenTun,
    LoadOverlay,
    OtherFilesystem,
    /// The cgroup that the server runs in must be its user's to divide.
    DelegateCgroup,
    /// With the old hierarchies nobody but root can divide one.
    UnifiedCgroups,
    NewerKernel,
    /// A bound on files is watched, and would be exact with it.
    ProjectQuota,
}

impl Remedy {
    pub fn advice(self) -> &'static str {
        match self {
            Self::AppArmorProfile => "`stead doctor --fix` writes an AppArmor profile that lets this program use user namespaces",
            Self::AllowUserNamespaces => "`stead doctor --fix` sets kernel.unprivileged_userns_clone=1",
            Self::MoreUserNamespaces => "`stead doctor --fix` raises user.max_user_namespaces",
            Self::UncoverProc => "run it outside the container, or in one whose /proc is not masked",
            Self::LoadTun => "`stead doctor --fix` loads the kernel module `tun`, now and at every start",
            Self::OpenTun => {
                "let this user open /dev/net/tun for reading and writing (mode 0666 is usual), or allow the device to the container"
            }
            Self::LoadOverlay => "`stead doctor --fix` loads the kernel module `overlay`, now and at every start",
            Self::OtherFilesystem => "put the data directory on another filesystem, such as ext4, xfs or btrfs (--data-dir)",
            Self::DelegateCgroup => {
                "run the server as the user service `stead` (`systemctl --user enable --now stead`); `stead doctor --fix` delegates the controllers to it"
            }
            Self::UnifiedCgroups => "run the server as root, or boot with systemd.unified_cgroup_hierarchy=1",
            Self::ProjectQuota => {
                "put the data directory on ext4 with the features `quota` and `project` (`tune2fs -O quota,project -Q prjquota`, unmounted) or on XFS, mounted with `prjquota`"
            }
            Self::NewerKernel => "use Linux 6.12 or newer, with `landlock` among its security modules",
        }
    }
}

/// Why user namespaces fail, by the settings below `sys` (/proc/sys): what to say, and what would help.
pub fn of_user_namespaces(sys: &Path, by_root: bool, error: &str) -> (String, Option<Remedy>) {
    let setting = |name: &str| std::fs::read_to_string(sys.join(name)).ok().and_then(|text| text.trim().parse::<u64>().ok());
    // Each would be enough to fail. The first two also bind root, and none is of AppArmor's making.
    if setting("user/max_user_namespaces") == Some(0) {
        return (format!("user.max_user_namespaces is 0 ({error})"), Some(Remedy::MoreUserNamespaces));
    }
    if !by_root && setting("kernel/unprivileged_userns_clone") == Some(0) {
        return (format!("kernel.unprivileged_userns_clone is 0 ({error})"), Some(Remedy::AllowUserNamespaces));
    }
    if !by_root && setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return (
            format!("kernel.apparmor_restrict_unprivileged_userns is 1, and no profile is there for this program ({error})"),
            Some(Remedy::AppArmorProfile),
        );
    }
    (error.to_owned(), None)
}

/// Why the device fails: it is not there, or it is not ours to open.
pub fn of_device(device: &Path) -> Option<Remedy> {
    if !device.exists() {
        return Some(Remedy::LoadTun);
    }
    let open = std::fs::OpenOptions::new().read(true).write(true).open(device);
    open.is_err().then_some(Remedy::OpenTun)
}

/// Why overlays fail: the kernel knows none, or the filesystem cannot hold one.
pub fn of_overlay(filesystems: &str) -> Remedy {
    let known = filesystems.lines().any(|line| line.split_whitespace().next_back() == Some("overlay"));
    if known { Remedy::OtherFilesystem } else { Remedy::LoadOverlay }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_namespaces_is_named() {
        let sys = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| {
            let path = sys.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, value).unwrap();
        };
        let found = |by_root: bool| of_user_namespaces(sys.path(), by_root, "EPERM").1;
        assert_eq!(found(false), None);
        set("user/max_user_namespaces", "96343\n");
        set("kernel/apparmor_restrict_unprivileged_userns", "1\n");
        assert_eq!((found(false), found(true)), (Some(Remedy::AppArmorProfile), None));
        set("kernel/unprivileged_userns_clone", "0\n");
        assert_eq!((found(false), found(true)), (Some(Remedy::AllowUserNamespaces), None));
        set("user/max_user_namespaces", "0\n");
        assert_eq!((found(false), found(true)), (Some(Remedy::MoreUserNamespaces), Some(Remedy::MoreUserNamespaces)));
    }

    #[test]
    fn a_device_that_is_missing_is_told_from_one_that_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(of_device(&directory.path().join("tun")), Some(Remedy::LoadTun));
        assert_eq!(of_device(directory.path()), Some(Remedy::OpenTun), "a directory cannot be written");
        assert_eq!(of_overlay("nodev\ttmpfs\n\text4\n"), Remedy::LoadOverlay);
        assert_eq!(of_overlay("nodev\toverlay\n"), Remedy::OtherFilesystem);
    }
}
