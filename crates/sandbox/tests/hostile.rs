//! Hostile code inside a place: each probe must fail there, as root and as an ordinary user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const ORDINARY: u32 = 5001;

/// Who calls the library.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caller {
    Root,
    Ordinary,
}

/// The callers that this machine can have: both where the tests run as root, else only the one they run as.
fn callers() -> Vec<Caller> {
    if rustix::process::geteuid().is_root() { vec![Caller::Root, Caller::Ordinary] } else { vec![Caller::Ordinary] }
}

struct Bench {
    directory: TempDir,
    program: PathBuf,
    caller: Caller,
}

impl Bench {
    fn new(caller: Caller) -> Self {
        let directory = tempfile::Builder::new().prefix("stead-hostile-").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // Where the ordinary user can read it.
        let program = directory.path().join("stead-sandbox");
        std::fs::copy(env!("CARGO_BIN_EXE_stead-sandbox"), &program).unwrap();
        let workspace = directory.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(directory.path().join("secret"), "of the host").unwrap();
        if caller == Caller::Ordinary && rustix::process::geteuid().is_root() {
            chown(&workspace, Some(ORDINARY), Some(ORDINARY)).unwrap();
            // The skeleton is made there at the first run.
            chown(directory.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
        Self { directory, program, caller }
    }

    fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    fn run(&self, options: &[&str], argv: &[&str]) -> Output {
        self.command(options, argv).output().expect("the sandbox starts")
    }

    fn command(&self, options: &[&str], argv: &[&str]) -> Command {
        let mut command = if self.caller == Caller::Ordinary && rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &ORDINARY.to_string(), "--regid", &ORDINARY.to_string(), "--clear-groups", "--"]).arg(&self.program);
            command
        } else {
            Command::new(&self.program)
        };
        command.arg(self.directory.path().join("skeleton"));
        let bind = format!("{}:/workspace:rw", self.workspace().display());
        command.args(["--bind", &bind, "--directory", "/workspace"]).args(options).arg("--").args(argv);
        // A variable and a descriptor of the caller's must not be seen inside.
        command.env("HOST_SECRET", "in the environment");
        command
    }

    fn python(&self, script: &str) -> Output {
        self.run(&[], &["python3", "-c", script])
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Python that calls the kernel by number and prints what came back.
const KERNEL: &str = "
import ctypes, os, sys, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    ctypes.set_errno(0)
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return r, errno.errorcode.get(ctypes.get_errno(), '0')
";

/// What is tried, and the answer that it must get.
const CALLS: &[(&str, &str, &str)] = &[
    ("unshare a user namespace", "call(272, 0x10000000)", "EPERM"),
    ("unshare a mount namespace", "call(272, 0x00020000)", "EPERM"),
    ("clone into a user namespace", "call(56, 0x10000000 | 17, 0, 0, 0, 0)", "EPERM"),
    ("clone3", "call(435, 0, 0)", "ENOSYS"),
    ("mount", "call(165, b'none', b'/tmp', b'tmpfs', 0, 0)", "EPERM"),
    ("umount", "call(166, b'/workspace', 2)", "EPERM"),
    ("pivot_root", "call(155, b'/', b'/tmp')", "EPERM"),
    ("chroot", "call(161, b'/tmp')", "EPERM"),
    ("open_tree", "call(428, -100, b'/', 1)", "EPERM"),
    ("setns", "call(308, 0, 0)", "EPERM"),
    ("ptrace pid 1", "call(101, 16, 1, 0, 0)", "EPERM"),
    ("read another's memory", "call(310, 1, 0, 0, 0, 0, 0)", "EPERM"),
    ("take a descriptor of another", "call(438, 0, 0, 0)", "EPERM"),
    ("bpf", "call(321, 0, 0, 0)", "EPERM"),
    ("perf_event_open", "call(298, 0, 0, 0, 0, 0)", "EPERM"),
    ("keyctl", "call(250, 0, 0, 0, 0, 0)", "EPERM"),
    ("add_key", "call(248, b'user', b'x', b'y', 1, 0)", "EPERM"),
    ("io_uring_setup", "call(425, 1, 0)", "EPERM"),
    ("userfaultfd", "call(323, 0)", "EPERM"),
    ("kexec_load", "call(246, 0, 0, 0, 0)", "EPERM"),
    ("init_module", "call(175, 0, 0, 0)", "EPERM"),
    ("reboot", "call(169, 0, 0, 0, 0)", "EPERM"),
    ("set the clock", "call(227, 0, 0)", "EPERM"),
    ("set the hostname", "call(170, b'x', 1)", "EPERM"),
    ("limits of pid 1", "call(302, 1, 7, 0, 0)", "EPERM"),
    ("open by handle", "call(304, 0, 0, 0)", "EPERM"),
    ("a vsock socket", "call(41, 40, 1, 0)", "EAFNOSUPPORT"),
    ("a packet socket", "call(41, 17, 3, 0)", "EAFNOSUPPORT"),
    ("a netfilter socket", "call(41, 16, 3, 12)", "EAFNOSUPPORT"),
    ("an alg socket", "call(41, 38, 5, 0)", "EAFNOSUPPORT"),
    ("a call that is newer than the filter", "call(600, 0)", "ENOSYS"),
];

#[test]
fn the_kernel_refuses_what_the_inside_has_no_business_with() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let script = CALLS.iter().map(|(name, code, _)| format!("print({name:?}, {code}[1], sep='|')\n")).collect::<String>();
        let output = bench.python(&format!("{KERNEL}{script}"));
        let said = text(&output);
        for (name, _, expected) in CALLS {
            assert!(said.lines().any(|line| line == format!("{name}|{expected}")), "{caller:?}: {name}: {said}");
        }
    }
}

#[test]
fn old_and_foreign_ways_into_the_kernel_kill() {
    // int 0x80 is the i386 entry, and 0x40000000 marks x32: both reach system calls past a filter that looks at numbers only.
    let i386 = "
import ctypes, mmap
code = b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3'
page = mmap.mmap(-1, 4096, prot=7)
page.write(code)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
print('alive', ctypes.CFUNCTYPE(ctypes.c_int)(address)())
";
    for caller in callers() {
        let bench = Bench::new(caller);
        for script in [i386.to_owned(), format!("{KERNEL}print('alive', call(0x40000000 | 39))")] {
            let output = bench.python(&script);
            assert!(!text(&output).contains("alive") && !output.status.success(), "{caller:?}: {}", text(&output));
        }
    }
}

#[test]
fn nothing_of_the_host_is_seen_or_written() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let secret = bench.directory.path().join("secret");
        for (what, script) in [
            ("a file of the host", format!("cat {}", secret.display())),
            ("homes", "ls /root/.ssh /home/*/.ssh /root/.cargo".to_owned()),
            ("shadow", "cat /etc/shadow".to_owned()),
            ("the host's processes", "ls /proc | grep -E '^[0-9]{3,}$'".to_owned()),
            ("init's environment", "cat /proc/1/environ".to_owned()),
            ("init's memory", "head -c1 /proc/1/mem".to_owned()),
            ("init's descriptors", "ls /proc/1/fd/".to_owned()),
            ("init's root", "ls /proc/1/root/".to_owned()),
            ("the kernel's symbols", "test -s /proc/kallsyms".to_owned()),
            ("kcore", "head -c1 /proc/kcore | grep -q .".to_owned()),
            ("the kernel's settings", "echo 1 > /proc/sys/kernel/core_uses_pid".to_owned()),
            ("sysrq", "echo b > /proc/sysrq-trigger && test ! -c /proc/sysrq-trigger".to_owned()),
            ("the core pattern", "echo '|/workspace/x' > /proc/sys/kernel/core_pattern".to_owned()),
            ("/usr", "touch /usr/bin/x".to_owned()),
            ("/etc", "touch /etc/x".to_owned()),
            ("the root", "touch /x".to_owned()),
            ("/sys", "ls /sys/kernel".to_owned()),
            ("a disk", "ls /dev/vda /dev/sda /dev/mem /dev/kmsg".to_owned()),
            ("a new device", "mknod /workspace/d b 8 0".to_owned()),
            ("the network", "timeout 2 sh -c 'exec 3<>/dev/tcp/127.0.0.1/22' || python3 -c \"import socket; socket.create_connection(('192.0.2.1', 9), 1)\"".to_owned()),
            ("a variable of the caller", "test -n \"$HOST_SECRET\"".to_owned()),
            ("another user", "su -c true nobody".to_owned()),
            ("the docker socket", "ls /run/docker.sock /var/run/docker.sock".to_owned()),
            ("a capability", "grep -E 'Cap(Prm|Eff|Bnd|Amb):' /proc/self/status | grep -qv 0000000000000000".to_owned()),
            ("new privileges", "grep -q 'NoNewPrivs:.*0' /proc/self/status".to_owned()),
        ] {
            let output = bench.run(&[], &["sh", "-c", &script]);
            assert!(!output.status.success(), "{caller:?} reached {what}: {}", text(&output));
        }
    }
}

#[test]
fn inherited_descriptors_do_not_come_along() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let output = bench.run(&[], &["sh", "-c", "ls /proc/self/fd"]);
        // Its own three, and the directory that ls reads.
        assert_eq!(String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"], "{caller:?}");
    }
}

#[test]
fn what_the_inside_makes_belongs_to_the_owner_of_the_workspace() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let output = bench.run(&[], &["sh", "-c", "echo made > file && mkdir directory && id -u && stat -c %u file"]);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>(), ["1000", "1000"]);
        let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).unwrap());
        let workspace = bench.workspace();
        assert_eq!(owner(&workspace.join("file")), owner(&workspace), "{caller:?}");
    }
}

#[test]
fn set_user_id_programs_gain_nothing() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let program = bench.workspace().join("id");
        std::fs::copy("/usr/bin/id", &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o6755)).unwrap();
        let output = bench.run(&[], &["/workspace/id", "-u"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1000", "{caller:?}");
    }
}

#[test]
fn everything_inside_ends_with_the_place() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let marker = format!("{}", std::process::id() + 600_000);
        // Twice forked, in a session of its own, deaf to signals.
        let output = bench
            .run(&[], &["sh", "-c", &format!("setsid sh -c 'trap \"\" TERM HUP INT; sleep {marker}' >/dev/null 2>&1 & sleep 0.2; exit 5")]);
        assert_eq!(output.status.code(), Some(5));
        let left = Command::new("pgrep").args(["-f", &format!("sleep {marker}")]).output().unwrap();
        assert!(left.stdout.is_empty(), "{caller:?}: {}", text(&left));
    }
}

#[test]
fn pid_1_cannot_be_ended_or_stopped_from_inside() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let output = bench.run(&[], &["sh", "-c", "kill -9 1; kill -STOP 1; kill -TERM 1; sleep 0.1; true; echo alive"]);
        assert!(text(&output).contains("alive") && output.status.success(), "{caller:?}: {}", text(&output));
    }
}

#[test]
fn exit_codes_and_signals_are_told() {
    for caller in callers() {
        let bench = Bench::new(caller);
        assert_eq!(bench.run(&[], &["sh", "-c", "exit 7"]).status.code(), Some(7));
        assert_eq!(bench.run(&[], &["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
        assert_eq!(bench.run(&[], &["no-such-program"]).status.code(), Some(127));
        assert_eq!(bench.run(&[], &["/workspace"]).status.code(), Some(126));
        assert_eq!(bench.run(&["--directory", "/nowhere"], &["true"]).status.code(), Some(127));
    }
}

#[test]
fn read_only_is_read_only_and_a_target_cannot_lead_out() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let extra = bench.directory.path().join("extra");
        std::fs::create_dir(&extra).unwrap();
        std::fs::set_permissions(&extra, std::fs::Permissions::from_mode(0o777)).unwrap();
        let bind = |target: &str| format!("{}:{target}", extra.display());
        assert!(!bench.run(&["--bind", &bind("/data")], &["touch", "/data/x"]).status.success());
        assert!(bench.run(&["--bind", &bind("/deep/er/data")], &["ls", "/deep/er/data"]).status.success());
        for target in ["/../data", "/", "data/..", "/a/../../b"] {
            assert_eq!(bench.run(&["--bind", &bind(target)], &["true"]).status.code(), Some(125), "{target}");
        }
    }
}

#[test]
fn the_inside_ends_with_a_keeper_that_is_killed() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let marker = format!("{}", std::process::id() + 700_000);
        let script = format!("setsid sleep {marker} & touch /workspace/ready; sleep {marker}");
        let mut keeper = bench.command(&[], &["sh", "-c", &script]).spawn().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !bench.workspace().join("ready").exists() {
            assert!(std::time::Instant::now() < until, "{caller:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        loop {
            let left = Command::new("pgrep").args(["-f", &format!("sleep {marker}")]).output().unwrap();
            if left.stdout.is_empty() {
                break;
            }
            assert!(std::time::Instant::now() < until, "{caller:?}: {}", text(&left));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// Words that a shell reads as they are.
fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
}

#[test]
fn mounts_made_later_cross_neither_way() {
    if !rustix::process::geteuid().is_root() {
        println!("NOT RUN: only root can mount on the host");
        return;
    }
    for caller in callers() {
        let bench = Bench::new(caller);
        let workspace = bench.workspace();
        std::fs::create_dir(workspace.join("point")).unwrap();
        // As on hosts where every mount is shared, in a namespace that goes with the test.
        let inside = bench.command(
            &[],
            &[
                "sh",
                "-c",
                "touch /workspace/ready; while ! test -e /workspace/go; do sleep 0.02; done; ls /workspace/point; cat /proc/self/mountinfo",
            ],
        );
        let script = format!(
            "mount --make-rshared / && {} > {1}/said 2>&1 & while ! test -e {1}/ready; do sleep 0.02; done; mount -t tmpfs none {1}/point && touch {1}/point/new && touch {1}/go; wait",
            quoted(&inside),
            workspace.display()
        );
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let said = std::fs::read_to_string(workspace.join("said")).unwrap();
        assert!(said.contains(" / / ") || said.contains("/workspace"), "{said}");
        assert!(!said.contains("new") && !said.contains("shared:") && !said.contains("master:"), "{caller:?}: {said}");
    }
}

#[test]
fn what_the_keeper_does_about_signals_and_descriptors_stays_with_it() {
    for caller in callers() {
        let bench = Bench::new(caller);
        let command = bench.command(&[], &["sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; kill -TERM $$; exit 7"]);
        let line = quoted(&command);
        let ignoring = format!("trap '' CHLD TERM HUP INT QUIT PIPE; exec {}", line);
        let output = Command::new("sh").args(["-c", &ignoring]).output().unwrap();
        assert_eq!(output.status.code(), Some(143), "{caller:?}: {}", text(&output));
        assert!(!text(&output).lines().any(|line| !line.ends_with("0000000000000000")), "{caller:?}: {}", text(&output));
        let closed = format!("exec 0<&- 1>&- 2>&-; exec {}", line.replace("kill -TERM", "echo"));
        assert_eq!(Command::new("sh").args(["-c", &closed]).status().unwrap().code(), Some(7), "{caller:?}");
    }
}
