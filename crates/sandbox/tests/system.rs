//! Who the inside is on the host, and a system of a place's own in which packages can be installed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use common::{Case, Outcome, command, fresh, library_path, little_system, plan, request, run, started};
use stead_sandbox::{Bind, Error, Overlay, Place, Plan, RootView};

const CASES: &[(&str, Case)] = &[
    ("the inside is nobody on the host, and each place another", identities),
    ("numbers that belong to somebody are refused", refused_identities),
    ("packages can be installed and the host does not change", packages),
    ("root of its own system is root of nothing else", little_root),
    ("a system of its own can come from a directory", from_directory),
    ("a layer that root has written to is refused", foreign_layer),
    ("a system of its own is refused to ordinary users", refused_system),
];

fn main() {
    common::main(CASES);
}

fn by_root() -> Outcome {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err("only root can choose ids".to_owned()) }
}

/// A line of what the host says of a process.
fn status(pid: i32, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().map(str::to_owned).collect()
}

fn identities(directory: &Path) -> Outcome {
    by_root()?;
    for (identity, expected) in [(None, 0x6000_0000_u32), (Some(0x6100_0000), 0x6100_0000)] {
        let mut place = Place::start(&Plan { identity, ..plan(directory) }).unwrap();
        request(&mut place, 1, &command(&["sleep", "100"]));
        started(&mut place);
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", place.pid())).unwrap();
        for pid in [place.pid(), children.trim().parse().unwrap()] {
            assert_eq!(status(pid, "Uid:"), vec![expected.to_string(); 4]);
            assert_eq!(status(pid, "Gid:"), vec![expected.to_string(); 4]);
            assert!(status(pid, "Groups:").is_empty(), "the keeper's groups are left");
        }
    }
    Ok(())
}

fn refused_identities(directory: &Path) -> Outcome {
    by_root()?;
    for identity in [0, 1000, 65_534, 65_535, u32::MAX, u32::MAX - 1] {
        assert!(Place::start(&Plan { identity: Some(identity), ..plan(directory) }).is_err(), "{identity}");
    }
    Ok(())
}

fn refused_system(directory: &Path) -> Outcome {
    let plan = Plan { system: true, ..system(directory).0 };
    if rustix::process::geteuid().is_root() {
        return Err("this is root".to_owned());
    }
    assert!(matches!(Place::start(&plan), Err(Error::Unavailable { .. })));
    Ok(())
}

fn system(directory: &Path) -> (Plan, PathBuf, PathBuf) {
    let (layers, workspace) = (directory.join("system-layers"), directory.join("system-workspace"));
    fs::create_dir_all(&workspace).unwrap();
    let plan = Plan {
        root: RootView::HostCopy { layers: layers.clone(), below: Vec::new(), volatile: false },
        system: true,
        identity: Some(0x6200_0000),
        binds: vec![Bind::read_write(&workspace, "/workspace")],
        directory: "/workspace".into(),
        ..plan(directory)
    };
    (plan, layers, workspace)
}

fn shell(plan: &Plan, script: &str) -> (Option<i32>, String) {
    let mut place = Place::start(plan).unwrap();
    let mut command = command(&["sh", "-ec", script]);
    command.env[0].1 = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into();
    command.env.push(("DEBIAN_FRONTEND".into(), "noninteractive".into()));
    let (exit, text) = run(&mut place, &command);
    (exit.code, text)
}

fn packages(directory: &Path) -> Outcome {
    by_root()?;
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        return Err("there is no dpkg here".to_owned());
    }
    let (plan, layers, workspace) = system(directory);
    // A package with a program that runs as another, a user of its own, and a script that asks for both.
    let tree = directory.join("package");
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::write(
        tree.join("DEBIAN/control"),
        "Package: stead-probe\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <n@localhost>\nDescription: a probe\n",
    )
    .unwrap();
    fs::write(
        tree.join("DEBIAN/postinst"),
        "#!/bin/sh\nset -e\necho 'probe:x:777:777::/:/bin/false' >> /etc/passwd\necho 'probe:x:777:' >> /etc/group\nchown probe:probe /usr/bin/stead-probe\nchmod 6755 /usr/bin/stead-probe\nmkdir -p /var/lib/stead-probe\nchown probe /var/lib/stead-probe\n",
    )
    .unwrap();
    fs::write(tree.join("usr/bin/stead-probe"), "#!/bin/sh\necho installed\n").unwrap();
    for name in ["DEBIAN/postinst", "usr/bin/stead-probe"] {
        fs::set_permissions(tree.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let built =
        std::process::Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(&tree).arg(workspace.join("probe.deb")).output();
    assert!(built.unwrap().status.success());
    let before = fs::metadata("/var/lib/dpkg/status").unwrap().mtime();

    let (code, text) = shell(
        &plan,
        "id -u; apt-get install -y ./probe.deb; stead-probe; dpkg -s stead-probe | grep Status; stat -c '%u %a' /usr/bin/stead-probe /var/lib/stead-probe; touch /workspace/made",
    );
    assert_eq!(code, Some(0), "{text}");
    for line in ["0", "installed", "Status: install ok installed", "777 6755", "777 755"] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    // It is still there in the next place of the same layers, and can be taken away again.
    let (code, text) = shell(&Plan { identity: Some(0x6300_0000), ..plan.clone() }, "stead-probe; stat -c %u /usr/bin/stead-probe");
    assert_eq!((code, text.as_str()), (Some(0), "installed\n777\n"));
    // The host knows nothing of it, and nothing there runs as somebody.
    assert!(!Path::new("/usr/bin/stead-probe").exists());
    assert_eq!(fs::metadata("/var/lib/dpkg/status").unwrap().mtime(), before);
    assert!(!fs::read_to_string("/etc/passwd").unwrap().contains("probe:x:777"));
    assert_eq!(fs::metadata(layers.join("usr/upper/bin/stead-probe")).unwrap().uid(), 0x5fff_0000 + 777);
    assert_eq!(fs::metadata(layers.join("etc/upper/passwd")).unwrap().uid(), 0x5fff_0000);
    assert_eq!(fs::metadata(workspace.join("made")).unwrap().uid(), fs::metadata(&workspace).unwrap().uid());
    let (code, text) = shell(&plan, "apt-get remove -y stead-probe >/dev/null; test ! -e /usr/bin/stead-probe && echo gone");
    assert_eq!((code, text.lines().last()), (Some(0), Some("gone")), "{text}");
    Ok(())
}

fn own_image(directory: &Path) -> (Plan, PathBuf) {
    let image = little_system(directory);
    let layers = fresh(directory, "image-layers");
    for name in ["upper", "work"] {
        fs::create_dir(layers.join(name)).unwrap();
    }
    let overlay = Overlay { lower: vec![image], upper: layers.join("upper"), work: layers.join("work"), volatile: false };
    (Plan { root: RootView::Overlay(overlay), system: true, ..plan(directory) }, layers)
}

fn from_directory(directory: &Path) -> Outcome {
    by_root()?;
    let (plan, layers) = own_image(directory);
    let mut place = Place::start(&plan).unwrap();
    let script =
        "id -u; touch /etc/made /new; echo more >> /etc/passwd; chown 33:44 /etc/made; chmod 4755 /etc/made; ls -ln /etc/made /usr/bin/id";
    let (exit, text) = run(&mut place, &library_path(command(&["sh", "-ec", script])));
    assert_eq!(exit.code, Some(0), "{text}");
    assert!(text.starts_with("0\n") && text.contains("-rwsr-xr-x 1 33 44") && text.contains("1  0  0 "), "{text}");
    drop(place);
    let owner = |name: &str| fs::metadata(layers.join("upper").join(name)).unwrap().uid();
    assert_eq!((owner("new"), owner("etc/made"), owner("etc/passwd")), (0x5fff_0000, 0x5fff_0000 + 33, 0x5fff_0000));
    Ok(())
}

fn foreign_layer(directory: &Path) -> Outcome {
    by_root()?;
    let (plan, layers) = own_image(directory);
    fs::write(layers.join("upper/file"), "of root").unwrap();
    assert!(Place::start(&plan).err().unwrap().to_string().contains("not empty"));
    let (plan, _, _) = system(directory);
    assert!(Place::start(&Plan { system: false, ..plan }).is_err(), "a copy of the host needs the ids of a system");
    Ok(())
}

fn little_root(directory: &Path) -> Outcome {
    by_root()?;
    let (plan, _, _) = system(directory);
    let capabilities = shell(&plan, "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status; grep NoNewPrivs /proc/self/status").1;
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID, SYS_CHROOT.
    let kept = format!("{:016x}", 1 | 2 | 8 | 16 | 64 | 128 | 1 << 18);
    for line in [
        format!("CapPrm:\t{kept}"),
        format!("CapEff:\t{kept}"),
        format!("CapBnd:\t{kept}"),
        "CapInh:\t0000000000000000".into(),
        "CapAmb:\t0000000000000000".into(),
        "NoNewPrivs:\t1".into(),
    ] {
        assert!(capabilities.contains(&line), "{line}: {capabilities}");
    }
    let mut place = Place::start(&plan).unwrap();
    fs::write(directory.join("host-only"), "secret").unwrap();
    let host_only = directory.join("host-only").display().to_string();
    for attempt in [
        "mount -t tmpfs none /mnt",
        "umount /proc",
        "umount /workspace",
        "mount -o remount,rw /proc/sys",
        "mknod /tmp/d b 8 0",
        "mknod /usr/d c 1 3",
        "unshare -m true",
        "unshare -U true",
        "hostname other",
        "date -s 2000-01-01",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        "echo x > /proc/sys/kernel/hostname",
        "cat /proc/1/environ",
        "ls /proc/1/root/",
        "kill -9 1 && sleep 0.1 && ! true",
        "ip link set lo down",
        "ls /root/.ssh",
        "ls /root/.cargo",
        &format!("cat {host_only}"),
        "grep -v '[*]' /etc/shadow | grep .",
        "touch /x",
        "touch /dev/x",
        "nice -n -5 true 2>&1 | grep -v cannot",
        // The way out of a root that was changed twice.
        "python3 -c \"import os; d = os.open('/', os.O_RDONLY); os.mkdir('/tmp/j'); os.chroot('/tmp/j'); os.fchdir(d); [os.chdir('..') for _ in range(99)]; os.chroot('.'); print(open('HOST').read())\"".replace("HOST", &host_only).as_str(),
    ] {
        let mut command = command(&["sh", "-c", attempt]);
        command.env[0].1 = "/usr/sbin:/usr/bin:/sbin:/bin".into();
        let (exit, text) = run(&mut place, &command);
        assert_ne!(exit.code, Some(0), "{attempt}: {text}");
    }
    // Within its system it is root: it may become others and own what they own.
    let (exit, text) = run(
        &mut place,
        &command(&[
            "sh",
            "-c",
            "setpriv --reuid 33 --regid 33 --clear-groups id -u && touch /etc/x && chown 33:33 /etc/x && chmod u+s /etc/x && stat -c %u /etc/x",
        ]),
    );
    assert_eq!((exit.code, text.as_str()), (Some(0), "33\n33\n"));
    Ok(())
}
