//! What people run works inside as it does outside, and what it has no business with does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::Path;

use common::{Case, Outcome, command, plan, run};
use stead_sandbox::{Bind, Command, Network, Place, Plan};

const CASES: &[(&str, Case)] = &[
    ("shells, pipes and temporary files", shell),
    ("git", git),
    ("a C compiler", compiler),
    ("python, with threads, processes and sockets", python),
    ("cargo", cargo),
    ("a terminal with job control", terminal),
    ("abstract sockets of the host are out of reach on its network", abstract_sockets),
    ("sockets inside work, also abstract ones", own_sockets),
    ("writing ends where the plan ends", writing),
    ("debuggers work where the plan says so, and not on init", debuggers),
];

fn main() {
    common::main(CASES);
}

fn workspace(directory: &Path) -> (Plan, std::path::PathBuf) {
    let workspace = directory.join("workspace");
    let _ = std::fs::remove_dir_all(&workspace);
    std::fs::create_dir(&workspace).unwrap();
    let plan = Plan { binds: vec![Bind::read_write(&workspace, "/workspace")], directory: "/workspace".into(), ..plan(directory) };
    (plan, workspace)
}

fn works(plan: &Plan, script: &str) -> String {
    let mut place = Place::start(plan).unwrap();
    let mut command = command(&["bash", "-ec", script]);
    command.env.push(("HOME".into(), "/home/stead".into()));
    command.env.push(("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()));
    command.env.remove(0);
    let (exit, text) = run(&mut place, &command);
    assert_eq!(exit.code, Some(0), "{script}: {text}");
    text
}

fn missing(program: &str) -> Outcome {
    let found = std::process::Command::new("sh").args(["-c", &format!("PATH=/usr/local/bin:/usr/bin:/bin command -v {program}")]).output();
    if found.unwrap().status.success() { Ok(()) } else { Err(format!("there is no {program} here")) }
}

fn shell(directory: &Path) -> Outcome {
    let (plan, _) = workspace(directory);
    let text = works(
        &plan,
        "seq 1 1000 | sort -rn | head -1; mktemp; cat <<< here; echo x > /dev/null; diff <(echo a) <(echo a); mkdir -p a/b; mv a c; cp -a c d; \
         ln -s c e; ln c/../d/b/../../d/b 2>/dev/null || true; tar cf x.tar c d e; mkdir y; tar xf x.tar -C y; find . | wc -l; df /tmp; id -un; \
         date; nproc; free; uptime; ps aux | wc -l; cat /proc/cpuinfo /proc/meminfo /proc/self/status /proc/sys/kernel/pid_max >/dev/null; getent passwd stead",
    );
    assert!(text.starts_with("1000\n/tmp/tmp."), "{text}");
    Ok(())
}

fn git(directory: &Path) -> Outcome {
    missing("git")?;
    let (plan, _) = workspace(directory);
    let text = works(
        &plan,
        "git init -q r; cd r; git config user.email a@b; git config user.name n; seq 1 2000 > f; git add .; git commit -qm one; git checkout -qb two; \
         echo x >> f; git commit -qam two; git checkout -q -; git merge -q two; git gc -q; git clone -q . ../s; git -C ../s log --oneline | wc -l; git worktree add -q ../w -b two2; git stash list; git status --short",
    );
    assert_eq!(text.trim(), "2");
    // A repository of the host whose hooks and settings are protected can be worked in.
    let protected = vec!["/workspace/r/.git/hooks".into(), "/workspace/r/.git/config".into()];
    works(&Plan { protected, ..plan }, "cd r; echo y >> f; git commit -qam three; git checkout -qb four; git log --oneline | wc -l");
    Ok(())
}

fn compiler(directory: &Path) -> Outcome {
    missing("gcc")?;
    let (plan, _) = workspace(directory);
    let source = "#include <stdio.h>\\n#include <pthread.h>\\nvoid *f(void *x) { return x; }\\nint main() { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts(\"built\"); }\\n";
    let text = works(&plan, &format!("printf '{}' > x.c; gcc -O2 -g -pthread x.c -o x; ./x; strip x; ./x", source.replace("%", "%%")));
    assert_eq!(text, "built\nbuilt\n");
    Ok(())
}

fn python(directory: &Path) -> Outcome {
    missing("python3")?;
    let (plan, _) = workspace(directory);
    let script = "
import asyncio, concurrent.futures, multiprocessing, os, socket, sqlite3, subprocess, tempfile, threading
from multiprocessing import shared_memory
def double(x): return 2 * x
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool: assert pool.map(double, [1, 2]) == [2, 4]
    with concurrent.futures.ThreadPoolExecutor() as pool: assert list(pool.map(double, [1])) == [2]
    m = shared_memory.SharedMemory(create=True, size=100); m.close(); m.unlink()
    c = sqlite3.connect('x.db'); c.execute('pragma journal_mode=wal'); c.execute('create table t (x)'); c.commit(); c.close()
    s = socket.create_server(('127.0.0.1', 0)); k = socket.create_connection(s.getsockname()); k.close(); s.close()
    assert subprocess.run(['true']).returncode == 0
    async def go():
        p = await asyncio.create_subprocess_exec('echo', 'x', stdout=-1); return await p.communicate()
    assert asyncio.run(go())[0] == b'x\\n'
    pid, fd = os.forkpty()
    if pid == 0: os.execvp('tty', ['tty'])
    assert b'/dev/pts/' in os.read(fd, 100)
    os.memfd_create('x'); os.nice(1)
    print('done')
";
    std::fs::write(directory.join("workspace/x.py"), script).unwrap();
    std::fs::set_permissions(directory.join("workspace/x.py"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(works(&plan, "python3 x.py").trim(), "done");
    Ok(())
}

fn cargo(directory: &Path) -> Outcome {
    let home = std::env::var_os("RUSTUP_HOME").map(Into::into).or_else(|| std::env::home_dir().map(|home| home.join(".rustup")));
    let toolchains = home.map(|home: std::path::PathBuf| home.join("toolchains")).filter(|path| path.is_dir());
    let toolchain =
        toolchains.and_then(|path| std::fs::read_dir(path).ok()?.next()?.ok()).ok_or("there is no toolchain to be read here")?;
    let (mut plan, _) = workspace(directory);
    plan.binds.push(Bind::read_only(toolchain.path(), "/toolchain"));
    let text = works(
        &plan,
        "export PATH=/toolchain/bin:$PATH CARGO_HOME=/workspace/.cargo CARGO_BUILD_JOBS=1; cargo new -q --vcs none x 2>&1; cd x; cargo build -q --offline; ./target/debug/x; cargo test -q --offline >/dev/null",
    );
    assert_eq!(text.trim(), "Hello, world!");
    Ok(())
}

fn terminal(directory: &Path) -> Outcome {
    missing("script")?;
    let (plan, _) = workspace(directory);
    let text = works(&plan, "script -qec 'bash -ic \"sleep 0.1 & jobs; fg\"' /dev/null </dev/null");
    assert!(text.contains("Running"), "{text}");
    Ok(())
}

fn on_host_network(directory: &Path) -> Plan {
    Plan { network: Network::Host, ..plan(directory) }
}

fn abstract_sockets(directory: &Path) -> Outcome {
    if !stead_sandbox::keeps_abstract_sockets_apart() {
        assert!(Place::start(&on_host_network(directory)).is_err(), "it is refused unless the plan allows it");
        return Err("this kernel cannot keep them apart".to_owned());
    }
    let name = format!("stead-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let datagrams = format!("{name}-datagrams");
    let _datagrams = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&datagrams).unwrap()).unwrap();
    let script = format!(
        "import socket
for kind, name in [(socket.SOCK_STREAM, '\\0{name}'), (socket.SOCK_DGRAM, '\\0{datagrams}')]:
    try:
        socket.socket(socket.AF_UNIX, kind).connect(name)
        print('reached')
    except PermissionError:
        print('refused')
try:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '\\0{datagrams}')
    print('reached')
except PermissionError:
    print('refused')"
    );
    let mut place = Place::start(&on_host_network(directory)).unwrap();
    let (_, text) = run(&mut place, &command(&["python3", "-c", &script]));
    assert_eq!(text, "refused\nrefused\nrefused\n");
    Ok(())
}

fn own_sockets(directory: &Path) -> Outcome {
    let script = "import socket
a = socket.socket(socket.AF_UNIX); a.bind('\\0inside'); a.listen()
b = socket.socket(socket.AF_UNIX); b.connect('\\0inside')
c = socket.socket(socket.AF_UNIX); c.bind('/tmp/s'); c.listen()
d = socket.socket(socket.AF_UNIX); d.connect('/tmp/s')
print('ok')";
    for plan in [plan(directory), Plan { allow_abstract_sockets: true, ..on_host_network(directory) }] {
        let mut place = Place::start(&plan).unwrap();
        let (_, text) = run(&mut place, &command(&["python3", "-c", script]));
        assert_eq!(text, "ok\n");
    }
    Ok(())
}

fn writing(directory: &Path) -> Outcome {
    let (plan, _) = workspace(directory);
    let mut place = Place::start(&plan).unwrap();
    for path in ["/usr/x", "/etc/x", "/x", "/dev/x", "/proc/x", "/dev/pts/x", "/opt/x", "/var/log/x", "/proc/sys/kernel/x", "/srv/x"] {
        let (exit, _) = run(&mut place, &command(&["touch", path]));
        assert_ne!(exit.code, Some(0), "{path}");
    }
    for path in ["/workspace/x", "/tmp/x", "/var/tmp/x", "/home/stead/x", "/run/x", "/dev/shm/x", "/dev/null"] {
        let (exit, text) = run(&mut place, &command(&["touch", path]));
        assert_eq!(exit.code, Some(0), "{path}: {text}");
    }
    // Across directories, and renaming over what is there.
    let move_about: Command =
        command(&["sh", "-c", "cd /workspace && mkdir a b && touch a/x b/y && mv a/x b/y && mv b a && ln a/b/y z && rm -r a"]);
    assert_eq!(run(&mut place, &move_about).0.code, Some(0));
    Ok(())
}

fn debuggers(directory: &Path) -> Outcome {
    missing("strace")?;
    let trace = command(&["strace", "-f", "-o", "/tmp/trace", "true"]);
    let trace_init = command(&["timeout", "-s", "KILL", "2", "strace", "-o", "/tmp/trace", "-p", "1"]);
    for allow_ptrace in [false, true] {
        let mut place = Place::start(&Plan { allow_ptrace, ..plan(directory) }).unwrap();
        assert_eq!(run(&mut place, &trace).0.code == Some(0), allow_ptrace);
        let (exit, text) = run(&mut place, &trace_init);
        assert!(exit.code != Some(0) && text.contains("not permitted"), "{text}");
        assert_eq!(run(&mut place, &command(&["true"])).0.code, Some(0));
    }
    Ok(())
}
