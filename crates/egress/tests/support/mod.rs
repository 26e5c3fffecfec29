//! A relay in this process, servers on loopback addresses of our own, and a network namespace for the programs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use stead_egress::control::{Client, Socket};
use stead_egress::host::HostName;
use stead_egress::journal::{Entry, read};
use stead_egress::limits::Limits;
use stead_egress::policy::{Access, PolicyText};
use stead_egress::reason::Reason;
use stead_egress::upstream::Resolver;
use stead_egress::{Options, run};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub const PROXY: u16 = 3128;
pub const ENVIRONMENT: &str = "env_1";

/// Knows what a test says, and counts who asks.
#[derive(Default)]
pub struct TestResolver {
    names: Mutex<HashMap<String, Vec<IpAddr>>>,
    pub asked: AtomicUsize,
}

#[async_trait]
impl Resolver for TestResolver {
    async fn resolve(&self, name: &HostName) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.names.lock().unwrap().get(name.as_str()).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A network namespace where every address is local, as `stead-sandbox` makes it.
pub struct Inside {
    keeper: Child,
    namespace: Arc<File>,
}

impl Inside {
    pub fn new() -> Self {
        Self::with("ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo")
    }

    /// Prepared by a script.
    pub fn with(script: &str) -> Self {
        let script = format!("{script} && echo ready && exec sleep 600");
        let mut keeper = Command::new("unshare").args(["--net", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "the network namespace could not be made");
        let namespace = File::open(format!("/proc/{}/ns/net", keeper.id())).unwrap();
        Self { keeper, namespace: Arc::new(namespace) }
    }

    pub fn pid(&self) -> u32 {
        self.keeper.id()
    }

    /// Runs on a thread that has entered the namespace; sockets made there belong to it.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = self.namespace.clone();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            let _ = sender.send(work());
        });
        receiver.await.expect("the program inside failed")
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

pub struct World {
    pub inside: Inside,
    pub resolver: Arc<TestResolver>,
    pub directory: tempfile::TempDir,
    pub client: Client,
    pub stop: CancellationToken,
    tasks: TaskTracker,
    /// An address of this test alone, so that it can have port 443.
    pub upstream: Ipv4Addr,
}

static NEXT: AtomicU8 = AtomicU8::new(1);

/// Certificates are made for the time that it is, and programs look at their own clocks.
fn as_late_as_it_is() -> stead_domain::Context {
    let (context, clock) = stead_testing::context(1);
    #[allow(clippy::disallowed_methods, reason = "the programs of these tests do not take their time from anybody")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    clock.advance(now.saturating_sub(Duration::from_micros(context.now().microseconds() as u64)));
    context
}

pub fn policy(hosts: &[&str]) -> PolicyText {
    PolicyText {
        access: Access::Allowlist,
        allowed_hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        reachable: vec!["127.0.0.0/8".to_owned()],
    }
}

impl World {
    pub async fn new(policy: PolicyText) -> Self {
        Self::with_limits(policy, Limits::default()).await
    }

    pub async fn with_limits(policy: PolicyText, limits: Limits) -> Self {
        let mut world = Self::around(Inside::new(), limits).await;
        world.add(policy, &[80, 443, 2222]).await;
        world
    }

    pub async fn around(inside: Inside, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let resolver = Arc::new(TestResolver::default());
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let mut options = Options::new(directory.path().join("relay"), directory.path().join("journal"));
        (options.limits, options.resolver) = (limits, resolver.clone());
        options.roots = Some(directory.path().join("roots.pem"));
        let (context, stopped) = (as_late_as_it_is(), stop.clone());
        tasks.spawn(async move { run(options, context, stopped).await.unwrap() });
        let client = loop {
            match Client::connect(&directory.path().join("relay")).await {
                Ok(client) => break client,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let pid = std::process::id();
        let upstream = Ipv4Addr::new(127, 64 + (pid >> 8) as u8 % 128, pid as u8, NEXT.fetch_add(1, Ordering::SeqCst));
        Self { inside, resolver, directory, client, stop, tasks, upstream }
    }

    /// Makes the sockets inside and hands them over, as the sandbox will.
    pub async fn add(&mut self, policy: PolicyText, ports: &'static [u16]) {
        let mut sockets: Vec<(Socket, OwnedFd)> = self
            .inside
            .run(move || {
                let any = |port| TcpListener::bind(("::", port)).unwrap().into();
                let mut sockets: Vec<(Socket, OwnedFd)> = ports.iter().map(|&port| (Socket::Tcp { port }, any(port))).collect();
                sockets.push((Socket::Proxy, TcpListener::bind(("127.0.0.1", PROXY)).unwrap().into()));
                sockets.push((Socket::DnsStreams, any(53)));
                sockets.push((Socket::DnsDatagrams, UdpSocket::bind("127.0.0.1:53").unwrap().into()));
                sockets
            })
            .await;
        sockets.push((Socket::Packets, self.packet_socket().await));
        let borrowed = sockets.iter().map(|(socket, descriptor)| (*socket, descriptor.as_fd())).collect();
        self.client.add(ENVIRONMENT, policy, borrowed).await.unwrap();
    }

    async fn packet_socket(&self) -> OwnedFd {
        use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
        self.inside
            .run(|| {
                let every = Protocol::from_raw(std::num::NonZeroU32::new(u32::from(3u16.to_be())).unwrap());
                socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(every)).unwrap()
            })
            .await
    }

    pub fn name(&self, name: &str, addresses: &[IpAddr]) {
        self.resolver.names.lock().unwrap().insert(name.to_owned(), addresses.to_vec());
    }

    /// A server at our address that does `serve` with each connection.
    pub fn server(&self, port: u16, serve: impl Fn(TcpStream) + Send + Sync + 'static) {
        let listener = TcpListener::bind((self.upstream, port)).unwrap();
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
    }

    /// What was journalled, once `enough` of it is there.
    pub async fn journal(&self, enough: impl Fn(&[Entry]) -> bool) -> Vec<Entry> {
        let mut entries = Vec::new();
        for _ in 0..400 {
            entries = read(&self.directory.path().join("journal"), ENVIRONMENT).unwrap();
            if enough(&entries) {
                return entries;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let short: Vec<_> = entries.iter().map(|entry| (&entry.host, entry.port, entry.reason)).collect();
        panic!("the journal has only {short:?}");
    }

    pub async fn refused(&self, host: &str, port: u16, reason: Reason) {
        let of = |entry: &Entry| entry.host == host && entry.port == port && entry.reason == Some(reason);
        self.journal(|entries| entries.iter().any(of)).await;
    }

    /// Ends the relay and waits for it.
    pub async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Asks as a resolver library does; the answer's code and its address.
pub fn ask(name: &str, kind: u16) -> (u8, Option<IpAddr>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.connect("127.0.0.1:53").unwrap();
    socket.send(&question(name, kind)).unwrap();
    let mut reply = [0; 512];
    let length = socket.recv(&mut reply).unwrap();
    answer(&reply[..length])
}

pub fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend(label.as_bytes());
    }
    packet.push(0);
    packet.extend(kind.to_be_bytes());
    packet.extend([0, 1]);
    packet
}

pub fn answer(reply: &[u8]) -> (u8, Option<IpAddr>) {
    let address = match reply[6..8] {
        [0, 1] if reply[reply.len() - 5] == 4 => Some(<[u8; 4]>::try_from(&reply[reply.len() - 4..]).unwrap().into()),
        [0, 1] => Some(<[u8; 16]>::try_from(&reply[reply.len() - 16..]).unwrap().into()),
        _ => None,
    };
    (reply[3] & 0xf, address)
}

/// Looks a name up and connects to what it is told.
pub fn connect(name: &str, port: u16) -> TcpStream {
    let address = ask(name, 1).1.expect("the name has an address");
    connect_to(SocketAddr::new(address, port)).unwrap()
}

pub fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

/// Everything until the other side closes; also when it does so rudely.
pub fn rest(stream: &mut impl Read) -> String {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut part) {
        bytes.extend(&part[..length]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn exchange(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).unwrap();
    rest(stream)
}

/// Whether something can be tried here at all; said aloud when it cannot.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        #[allow(clippy::print_stderr, reason = "nothing is skipped silently")]
        {
            eprintln!("NOT RUN: a network namespace can only be entered as root");
        }
    }
    root
}
