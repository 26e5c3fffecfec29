//! What listens inside, and a connection to it that is handed out.
//!
//! The connection is made in the network of the place, by a process of the place: it leads nowhere but to what listens there, whoever holds
//! it afterwards.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use stead_domain::ids::ProcessId;
use stead_domain::ports::{ListeningPort, PortOrder, PortProblem, PortProcess, PortWord};

use super::voice::Voice;

/// How long something that listens may take to let somebody in.
const PATIENCE: Duration = Duration::from_secs(10);
/// As many as are told; a program may listen on all there are.
const MOST: usize = 2000;
/// As many open files as are looked at to find out whose a socket is.
const MOST_FILES: usize = 100_000;
/// What the kernel calls a socket that listens.
const LISTENS: &str = "0A";
const MARK: &[u8] = b"STEAD_PROCESS=";

pub fn serve(order: PortOrder, voice: &mut Voice) -> io::Result<()> {
    match order {
        PortOrder::ListPorts => {
            let mut found = listening();
            found.sort_unstable_by_key(|found| found.port);
            found.truncate(MOST);
            let owners = owners(&found);
            let told =
                |found: &Found| ListeningPort { process: owners.get(&found.inode).cloned(), port: found.port, address: found.address };
            voice.say(&PortWord::Ports { ports: found.iter().map(told).collect() }, &[])
        }
        PortOrder::Connect { port } => match reach(port, voice) {
            Ok(connection) => voice.hand_out(&PortWord::Connected, connection.as_fd()),
            Err((why, said)) => voice.say(&PortWord::Failed { why, said }, &[]),
        },
    }
}

struct Found {
    port: u16,
    address: IpAddr,
    inode: u64,
}

/// Every socket of this network that listens.
fn listening() -> Vec<Found> {
    // A host without IPv6 has no second list.
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1).filter_map(line)).collect()
}

fn line(text: &str) -> Option<Found> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    if *fields.get(3)? != LISTENS {
        return None;
    }
    let (address, port) = fields.get(1)?.split_once(':')?;
    Some(Found { port: u16::from_str_radix(port, 16).ok()?, address: self::address(address)?, inode: fields.get(9)?.parse().ok()? })
}

/// The kernel writes an address as words in the byte order of the machine.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(digits.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match digits.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_mut(4).enumerate() {
                part.copy_from_slice(&word(at * 8)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(bytes)))
        }
        _ => None,
    }
}

/// Who holds these sockets, as far as may be seen.
fn owners(found: &[Found]) -> HashMap<u64, PortProcess> {
    let mut owners = HashMap::new();
    let mut files = 0;
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            files += 1;
            if files > MOST_FILES || owners.len() == found.len() {
                return owners;
            }
            let inode = fs::read_link(file.path())
                .ok()
                .and_then(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok());
            if let Some(inode) = inode.filter(|inode| found.iter().any(|found| found.inode == *inode)) {
                owners.entry(inode).or_insert_with(|| describe(pid));
            }
        }
    }
    owners
}

fn describe(pid: u32) -> PortProcess {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let marked = variables.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(MARK));
    let process_id = marked.and_then(|id| std::str::from_utf8(id).ok()?.parse::<ProcessId>().ok());
    PortProcess { pid, name: String::from_utf8_lossy(&name).trim_end().to_owned(), process_id }
}

type Failure = (PortProblem, String);

/// A connection to what listens on the port. Only the two addresses of the loopback are tried that everybody means by it: no route leads from
/// there to anywhere else, and what hides at another address is not meant for whoever comes from outside.
fn reach(port: u16, voice: &Voice) -> Result<OwnedFd, Failure> {
    let found: Vec<IpAddr> = listening().into_iter().filter(|found| found.port == port).map(|found| found.address).collect();
    let mut targets: Vec<IpAddr> = found.iter().filter_map(|address| target(*address)).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut failure = match found.first() {
        None => (PortProblem::Closed, String::new()),
        Some(address) => (PortProblem::Elsewhere, address.to_string()),
    };
    for target in targets {
        match open(SocketAddr::new(target, port), voice) {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// What leads to a socket that listens at this address; none where that is neither the loopback's own nor all of them.
fn target(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(address) if address.is_unspecified() => Some(Ipv6Addr::LOCALHOST.into()),
        address => Some(address.to_canonical())
            .filter(|address| matches!(*address, IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST))),
    }
}

fn open(address: SocketAddr, voice: &Voice) -> Result<OwnedFd, Failure> {
    let other = |error: Errno| (PortProblem::Other, io::Error::from(error).to_string());
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).map_err(other)?;
    match connect(&socket, &address) {
        Ok(()) => return Ok(socket),
        Err(Errno::INPROGRESS) => {}
        Err(Errno::CONNREFUSED) => return Err((PortProblem::Closed, String::new())),
        Err(error) => return Err(other(error)),
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err((PortProblem::Silent, String::new()));
        }
        let patience = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        // Whoever asked may go away meanwhile, and says nothing until then.
        let mut watched = [PollFd::new(&socket, PollFlags::OUT), PollFd::from_borrowed_fd(voice.stream(), PollFlags::IN)];
        match poll(&mut watched, Some(&patience)) {
            Err(Errno::INTR) => continue,
            outcome => outcome.map_err(other)?,
        };
        if !watched[0].revents().is_empty() {
            return match sockopt::socket_error(&socket).map_err(other)? {
                Ok(()) => Ok(socket),
                Err(Errno::CONNREFUSED) => Err((PortProblem::Closed, String::new())),
                Err(error) => Err(other(error)),
            };
        }
        if !watched[1].revents().is_empty() {
            return Err((PortProblem::Other, "nobody waits for it any more".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_listens_is_found_with_its_holder() {
        let four = TcpListener::bind("127.0.0.1:0").unwrap();
        let all = TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).unwrap();
        let found = listening();
        let owners = owners(&found);
        for listener in [&four, &all] {
            let bound = listener.local_addr().unwrap();
            let found = found.iter().find(|found| found.port == bound.port() && found.address == bound.ip()).unwrap();
            assert_eq!(owners[&found.inode].pid, std::process::id());
        }
    }

    #[test]
    fn only_the_loopback_is_a_target() {
        let target = |text: &str| target(text.parse().unwrap()).map(|target| target.to_string());
        assert_eq!(target("0.0.0.0").as_deref(), Some("127.0.0.1"));
        assert_eq!(target("::").as_deref(), Some("::1"));
        assert_eq!(target("127.0.0.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(target("::ffff:127.0.0.1").as_deref(), Some("127.0.0.1"));
        for elsewhere in ["127.0.0.2", "127.255.255.254", "::ffff:127.0.0.2", "192.0.2.2", "8.8.8.8", "fd53::2", "::ffff:8.8.8.8"] {
            assert_eq!(target(elsewhere), None, "{elsewhere}");
        }
    }
}
