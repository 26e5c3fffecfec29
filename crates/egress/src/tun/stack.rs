//! TCP in user space: segments in, streams out.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::flow::Flow;

/// For each direction of each stream: the program waits when the way out is slow.
const BUFFER: usize = 32 * 1024;
const MOST_WAITING: usize = 256;
/// How long a stream that nobody holds any more may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(30);
/// After a turn nothing is due at once; what claims to be waits for somebody else.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// Shared by the task that moves packets and the streams that move bytes.
#[derive(Clone)]
pub struct Stack(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    changed: Notify,
}

pub struct Inner {
    interface: Interface,
    queues: Queues,
    pub sockets: SocketSet<'static>,
    streams: HashMap<(SocketAddr, SocketAddr), SocketHandle>,
    /// Made for a first segment that was not taken in yet.
    expected: Vec<(SocketAddr, SocketAddr)>,
    dropped: Vec<(SocketHandle, Instant)>,
    started: Instant,
}

/// What one turn brought.
pub struct Step {
    pub outgoing: VecDeque<Vec<u8>>,
    pub begun: Vec<(SocketAddr, Flow)>,
    /// How long nothing has to be done if nothing happens.
    pub wait: Duration,
}

impl Stack {
    pub fn new(mtu: u16, seed: u64) -> Self {
        let mut queues = Queues { incoming: VecDeque::new(), outgoing: VecDeque::new(), mtu: usize::from(mtu) };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, StackInstant::ZERO);
        // An address of its own that nobody uses; through it, all others are its own as well.
        let (four, six) = (Ipv4Address::new(192, 0, 0, 8), Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv4(four), 32));
            let _ = addresses.push(IpCidr::new(IpAddress::Ipv6(six), 128));
        });
        let _ = interface.routes_mut().add_default_ipv4_route(four);
        let _ = interface.routes_mut().add_default_ipv6_route(six);
        interface.set_any_ip(true);
        let inner = Inner {
            interface,
            queues,
            sockets: SocketSet::new(Vec::new()),
            streams: HashMap::new(),
            expected: Vec::new(),
            dropped: Vec::new(),
            started: Instant::now(),
        };
        Self(Arc::new(Shared { inner: Mutex::new(inner), changed: Notify::new() }))
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream has room, or bytes, or has ended.
    pub fn notify(&self) {
        self.0.changed.notify_one();
    }

    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Prepares for the first segment of a stream. False when there are too many.
    pub fn expect(&self, source: SocketAddr, destination: SocketAddr, most: usize) -> bool {
        let mut inner = self.lock();
        if inner.streams.contains_key(&(source, destination)) {
            return true;
        }
        if inner.streams.len() >= most {
            return false;
        }
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        // The program's `connect` succeeds when ours has, and is refused when ours is.
        socket.pause_synack(true);
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket.set_keep_alive(Some(smoltcp::time::Duration::from_secs(60)));
        socket.set_timeout(Some(smoltcp::time::Duration::from_secs(180)));
        if socket.listen((IpAddress::from(destination.ip()), destination.port())).is_err() {
            return false;
        }
        let handle = inner.sockets.add(socket);
        inner.streams.insert((source, destination), handle);
        inner.expected.push((source, destination));
        true
    }

    pub fn push(&self, packet: &[u8]) {
        let queue = &mut self.lock().queues.incoming;
        if queue.len() < MOST_WAITING {
            queue.push_back(packet.to_vec());
        }
    }

    /// A stream that nobody holds any more.
    pub fn release(&self, handle: SocketHandle, finished: bool) {
        let mut inner = self.lock();
        if !finished {
            inner.sockets.get_mut::<Socket<'_>>(handle).abort();
        }
        inner.dropped.push((handle, Instant::now() + GOODBYE));
        drop(inner);
        self.notify();
    }

    /// Takes in what came, and hands out what is to be sent.
    pub fn step(&self) -> Step {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let now = StackInstant::from_micros(i64::try_from(inner.started.elapsed().as_micros()).unwrap_or(i64::MAX));
        inner.interface.poll(now, &mut inner.queues, &mut inner.sockets);
        let mut begun = Vec::new();
        for stream in std::mem::take(&mut inner.expected) {
            let Some(&handle) = inner.streams.get(&stream) else { continue };
            if inner.sockets.get::<Socket<'_>>(handle).state() == State::SynReceived {
                begun.push((stream.1, Flow::new(self.clone(), handle)));
            } else {
                // The segment was not a good one after all.
                inner.sockets.remove(handle);
                inner.streams.remove(&stream);
            }
        }
        inner.abort_listening();
        inner.forget_dropped();
        let wait = inner.interface.poll_delay(now, &inner.sockets).map_or(Duration::from_secs(60), Duration::from);
        Step { outgoing: std::mem::take(&mut inner.queues.outgoing), begun, wait: wait.max(SHORTEST_WAIT) }
    }
}

impl Inner {
    /// A program that gives up before the handshake is complete sends its socket back to listening, where it must not take somebody else's
    /// stream.
    fn abort_listening(&mut self) {
        for handle in self.streams.values() {
            let socket = self.sockets.get_mut::<Socket<'_>>(*handle);
            if socket.state() == State::Listen {
                socket.abort();
            }
        }
    }

    fn forget_dropped(&mut self) {
        let now = Instant::now();
        let sockets = &mut self.sockets;
        let mut gone = Vec::new();
        self.dropped.retain(|(handle, until)| {
            let socket = sockets.get::<Socket<'_>>(*handle);
            // Once closed it still has one reset to send, as long as it knows to whom.
            let over = socket.state() == State::TimeWait || (socket.state() == State::Closed && socket.remote_endpoint().is_none());
            if over || *until <= now {
                sockets.remove(*handle);
                gone.push(*handle);
                return false;
            }
            true
        });
        if !gone.is_empty() {
            self.streams.retain(|_, handle| !gone.contains(handle));
        }
    }
}

/// The stack's side of the device.
struct Queues {
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Received(Vec<u8>);
struct Sent<'queue>(&'queue mut VecDeque<Vec<u8>>);

impl phy::Device for Queues {
    type RxToken<'queue> = Received;
    type TxToken<'queue> = Sent<'queue>;

    fn receive(&mut self, _: StackInstant) -> Option<(Received, Sent<'_>)> {
        self.incoming.pop_front().map(|packet| (Received(packet), Sent(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: StackInstant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ip, self.mtu);
        capabilities
    }
}

impl phy::RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, work: F) -> R {
        work(&self.0)
    }
}

impl phy::TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, work: F) -> R {
        let mut packet = vec![0; length];
        let outcome = work(&mut packet);
        self.0.push_back(packet);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{IpProtocol, IpRepr, TcpPacket};

    use super::*;

    fn segment(from: SocketAddr, to: SocketAddr, sequence: u32, flags: u8, window: u16, tail: &[u8]) -> Vec<u8> {
        let (source, target) = (from.ip().into(), to.ip().into());
        let ip = IpRepr::new(source, target, IpProtocol::Tcp, 20 + tail.len(), 64);
        let mut bytes = vec![0; ip.buffer_len()];
        ip.emit(&mut bytes[..], &ChecksumCapabilities::default());
        let tcp = &mut bytes[ip.header_len()..];
        tcp[..2].copy_from_slice(&from.port().to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        // Options of any content, as far as there are four bytes for each word of them.
        let words = 5 + (usize::from(flags >> 6) * 3).min(tail.len() / 4);
        (tcp[12], tcp[13]) = ((words as u8) << 4, flags & 0x3f);
        tcp[14..16].copy_from_slice(&window.to_be_bytes());
        tcp[20..].copy_from_slice(tail);
        TcpPacket::new_unchecked(tcp).fill_checksum(&source, &target);
        bytes
    }

    #[tokio::test]
    async fn a_program_that_gives_up_leaves_nothing_behind() {
        let stack = Stack::new(1500, 1);
        let (from, to) = ("10.0.0.2:4000".parse().unwrap(), "9.9.9.9:443".parse().unwrap());
        assert!(stack.expect(from, to, 1));
        assert!(!stack.expect("10.0.0.2:4001".parse().unwrap(), to, 1), "one is the most");
        stack.push(&segment(from, to, 100, 0x02, 1000, &[]));
        let step = stack.step();
        assert_eq!((step.begun.len(), step.outgoing.len()), (1, 0), "no answer before somebody wants the stream");
        stack.push(&segment(from, to, 101, 0x04, 0, &[]));
        stack.step();
        drop(step);
        stack.step();
        let inner = stack.lock();
        assert!(inner.streams.is_empty() && inner.dropped.is_empty() && inner.sockets.iter().next().is_none());
    }

    proptest! {
        #[test]
        fn hostile_segments_never_panic(
            segments in proptest::collection::vec((any::<u8>(), 0u32..4, any::<u16>(), proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 1..30),
            six in any::<bool>(),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _entered = runtime.enter();
            let stack = Stack::new(1500, 7);
            let (from, to): (SocketAddr, SocketAddr) = if six {
                ("[fd99::2]:4000".parse().unwrap(), "[2606:4700::1]:443".parse().unwrap())
            } else {
                ("10.0.0.2:4000".parse().unwrap(), "9.9.9.9:443".parse().unwrap())
            };
            let mut flows = Vec::new();
            for (flags, offset, window, tail, used) in segments {
                let bytes = segment(from, to, offset.wrapping_mul(0x4000_0000).wrapping_add(offset), flags, window, &tail);
                if flags & 0x16 == 0x02 {
                    stack.expect(from, to, 8);
                }
                stack.push(&bytes);
                let step = stack.step();
                flows.extend(step.begun);
                for (_, flow) in &mut flows {
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    if used {
                        let _ = tokio::io::AsyncWrite::poll_write(std::pin::Pin::new(flow), &mut context, b"hello");
                    }
                }
                if !used {
                    flows.clear();
                }
            }
            flows.clear();
            stack.step();
        }
    }
}
