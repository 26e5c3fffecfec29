//! A local provider as a server has it, with this very program as its spawner.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stead_app::{Barrier, NewSandbox, Place, PlaceError, Premises, Progress, Provider, StartProcess, Warrant};
use stead_domain::Context;
use stead_domain::checkpoint::Stack;
use stead_domain::ids::{EnvironmentId, HostId, LeaseId, ProcessId, SandboxId};
use stead_domain::process::{ExitCause, ProcessLimits};
use stead_place::client::Spawner;
use stead_place::protocol::PROTOCOL;
use stead_providers::local::{Abilities, Known, Local, Relay, Roles, Tell, skeleton};
use tokio::runtime::Runtime;

pub fn spawner(arguments: &[OsString]) {
    let protocol = arguments[1].to_str().unwrap().parse().unwrap();
    stead_place::spawner::run(Path::new(&arguments[0]), protocol).unwrap();
}

pub struct House {
    pub runtime: Runtime,
    pub local: Local,
    pub context: Context,
    pub data: PathBuf,
    pub sandbox: SandboxId,
    _tell: Tell,
}

impl House {
    pub fn new(data: &Path) -> Self {
        Self::speaking(data, PROTOCOL)
    }

    /// One whose stewards are of another version.
    pub fn speaking(data: &Path, protocol: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        // Ids of its own: groups of processes are called by them, and other tests run at the same time.
        let context = stead_testing::context(u64::from(std::process::id())).0;
        let host = HostId::new(&context);
        let sandbox = SandboxId::new(&context);
        let (tell, known) = Known::not_yet();
        tell.send_replace(Some(Arc::new(Abilities::default())));
        let local = {
            let _inside = runtime.enter();
            Local::open(data, "test", host, Vec::new()).unwrap().with_processes(data, roles(data, protocol), known)
        };
        runtime.block_on(local.create(&NewSandbox { id: sandbox, name: "web".to_owned() })).unwrap();
        Self { runtime, local, context, data: data.to_owned(), sandbox, _tell: tell }
    }

    /// Another server on the same data, with the same sandbox, whose stewards are of this version.
    pub fn next(&self) -> Self {
        let mut next = Self::speaking(&self.data, PROTOCOL);
        next.sandbox = self.sandbox;
        next.context = self.context.clone();
        next
    }

    pub fn place(&self) -> &dyn Place {
        self.local.place().unwrap()
    }

    pub fn workspace(&self) -> PathBuf {
        self.data.join("sandboxes").join(self.sandbox.to_string()).join("workspace")
    }

    pub fn fence(&self) -> PathBuf {
        self.workspace().with_file_name("fence")
    }

    pub fn environment(&self) -> Premises {
        let spec = json!({"sandbox": {"network_access": "disabled", "allow_ptrace": true}});
        Premises {
            environment: EnvironmentId::new(&self.context),
            sandbox: self.sandbox,
            stack: Stack::default(),
            name: "web".to_owned(),
            spec: serde_json::from_value(spec).unwrap(),
            spec_version: 1,
            authority: None,
            allow_unenforced: false,
        }
    }

    /// A warrant that nobody else has.
    pub fn warrant(&self, fence: u64) -> Warrant {
        Warrant { fence, lease: Some(LeaseId::new(&self.context)) }
    }

    pub fn start(&self, warrant: Warrant, script: &str) -> StartProcess {
        StartProcess {
            id: ProcessId::new(&self.context),
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: None,
            env: Vec::new(),
            stdin_open: true,
            terminal: None,
            timeout: None,
            limits: ProcessLimits::default(),
            warrant,
            hold: false,
            secrets: stead_app::secrets::Delivery::default(),
        }
    }

    pub fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    #[track_caller]
    pub fn begin(&self, premises: &Premises, start: &StartProcess) {
        self.run(self.place().start(premises, start)).unwrap();
    }

    pub fn barrier(&self, environments: &[&Premises], warrant: Warrant) -> Result<(), PlaceError> {
        let environments = environments.iter().map(|premises| premises.environment).collect();
        self.run(self.place().barrier(&Barrier { sandbox: self.sandbox, environments, warrant, stop: true }))
    }

    #[track_caller]
    pub fn end_of(&self, premises: &Premises, process: ProcessId) -> Progress {
        let mut seen = self.run(self.place().progress(premises.environment, process)).unwrap().unwrap();
        while seen.exit.is_none() {
            seen = self.run(self.place().further(premises.environment, process, &seen)).unwrap();
        }
        seen
    }

    #[track_caller]
    pub fn was_fenced(&self, premises: &Premises, process: ProcessId) {
        assert_eq!(self.end_of(premises, process).exit.unwrap().cause, ExitCause::Fenced);
    }

    /// Whoever has it does something there, to the end.
    #[track_caller]
    pub fn works(&self, premises: &Premises, warrant: Warrant) {
        let start = self.start(warrant, "echo done >> new");
        self.begin(premises, &start);
        assert_eq!(self.end_of(premises, start.id).exit.unwrap().code, Some(0));
    }

    /// Nobody on this machine sees anything of the sandbox.
    #[track_caller]
    pub fn nobody_is_inside(&self) {
        let left = self.inside();
        assert!(left.is_empty(), "{left:?}");
    }

    pub fn inside(&self) -> Vec<String> {
        let (mark, mut found) = (self.sandbox.to_string(), Vec::new());
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned)
            else {
                continue;
            };
            if fs::read(entry.path().join("mountinfo")).is_ok_and(|mounts| String::from_utf8_lossy(&mounts).contains(&mark)) {
                found.push(format!("{pid} {}", fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default()));
            }
        }
        found
    }

    pub fn sizes(&self) -> Vec<(String, u64)> {
        let entries = fs::read_dir(self.workspace()).unwrap().flatten();
        let mut sizes: Vec<_> = entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.metadata().map_or(0, |file| file.len())))
            .collect();
        sizes.retain(|(name, _)| name != "new");
        sizes.sort();
        sizes
    }

    /// Waits until each of these has been written to.
    #[track_caller]
    pub fn until_written(&self, names: &[&str]) {
        for name in names {
            let path = self.workspace().join(name);
            until(&format!("{name} is written to"), || fs::metadata(&path).is_ok_and(|file| file.len() > 0));
        }
    }
}

#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not so: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn roles(data: &Path, protocol: u32) -> Roles {
    let program = || std::env::current_exe().unwrap();
    let relay = data.join("relay");
    Roles {
        spawner: Spawner::new(program(), vec!["spawner".into(), skeleton(data).into(), protocol.to_string().into()]),
        // Nothing here leaves its environment.
        relay: Relay::new(relay, program(), Vec::new()),
        reachable: Vec::new(),
        log_bytes: 1 << 20,
    }
}
