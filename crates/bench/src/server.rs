//! The server that is measured: started on a directory, ended with the measurement.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    child: Child,
    pub address: String,
    directory: PathBuf,
    /// From its start to its first 200 on `/readyz`.
    pub ready_after: Duration,
}

impl Server {
    pub fn start(binary: &Path, directory: &Path, database: Option<&str>) -> Self {
        let mut command = Command::new(binary);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("STEAD_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--listen", "127.0.0.1:0", "--rate-limit", "0", "--data-dir"]).arg(directory);
        if let Some(url) = database {
            command.args(["--database", url]);
        }
        let log = std::fs::File::create(directory.with_extension("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        // An interruption from the terminal is ours to pass on, when everything is cleared up.
        command.process_group(0);
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().trim_start_matches("http://").to_owned();
        assert!(!address.is_empty(), "the server did not start: {}", std::fs::read_to_string(directory.with_extension("log")).unwrap());
        while !is_ready(&address) {
            std::thread::yield_now();
        }
        Self { child, address, directory: directory.to_owned(), ready_after: started.elapsed() }
    }

    pub fn key(&self) -> String {
        std::fs::read_to_string(self.directory.join("owner.key")).unwrap().trim().to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory in KiB.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// What it has used of the processors, in its own code and in the kernel's.
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // In hundredths of a second, as the kernel counts for programs.
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// Ends it in good order, so that the next finds everything in its place.
    pub fn end(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(self.directory.with_extension("log"));
    }
}

fn is_ready(address: &str) -> bool {
    let Ok(mut socket) = TcpStream::connect(address) else { return false };
    let mut reply = [0; 12];
    let asked = socket.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    asked.is_ok() && socket.read_exact(&mut reply).is_ok() && reply.ends_with(b"200")
}
