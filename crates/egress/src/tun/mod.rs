//! The second source of connections, for `enabled`: a TUN device whose packets are taken apart here, so that every port of every address works
//! without a listener, without root and without a rule in the host's firewall.

mod datagrams;
mod flow;
mod packet;
mod stack;

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::environment::Environment;
use crate::reason::Reason;
use crate::relay::{Incoming, accept};
use crate::sniff::Protocol;
use datagrams::Datagrams;
use packet::Packet;
use stack::Stack;

/// Read before the others get their turn.
const BURST: usize = 64;

/// A TUN device, made without packet information (`IFF_NO_PI`).
pub(crate) struct Device {
    // It is read and written like a pipe, one packet at a time.
    reader: pipe::Receiver,
    writer: pipe::Sender,
    mtu: u16,
}

impl Device {
    pub fn new(descriptor: OwnedFd, mtu: u16) -> io::Result<Self> {
        if !(576..=9216).contains(&mtu) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let second = descriptor.try_clone()?;
        Ok(Self {
            reader: pipe::Receiver::from_owned_fd_unchecked(descriptor)?,
            writer: pipe::Sender::from_owned_fd_unchecked(second)?,
            mtu,
        })
    }

    async fn write(&self, packet: &[u8]) {
        loop {
            match self.writer.try_write(packet) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.writer.writable().await.is_err() {
                        return;
                    }
                }
                // A packet that cannot be delivered is a lost packet.
                _ => return,
            }
        }
    }
}

/// Takes packets until the environment is removed.
pub(crate) async fn serve(environment: Arc<Environment>, device: Device) {
    let mut seed = [0; 8];
    environment.shared.randomness.fill(&mut seed);
    let stack = Stack::new(device.mtu, u64::from_ne_bytes(seed));
    let (replies, mut answered) = mpsc::channel(256);
    let mut datagrams = Datagrams::new(environment.clone(), replies, device.mtu);
    let mut buffer = vec![0; usize::from(device.mtu) + 64];
    loop {
        let step = stack.step();
        for packet in step.outgoing {
            device.write(&packet).await;
        }
        for (destination, flow) in step.begun {
            accept(Incoming { environment: environment.clone(), destination, stream: Box::new(flow) });
        }
        tokio::select! {
            () = stack.changed() => {}
            () = sleep(step.wait) => {}
            Some(packet) = answered.recv() => device.write(&packet).await,
            ready = device.reader.readable() => {
                for _ in 0..BURST {
                    match device.reader.try_read(&mut buffer) {
                        Ok(length) if length > 0 => receive(&environment, &stack, &mut datagrams, &buffer[..length]),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        // The device is down, or gone.
                        Ok(_) | Err(_) => {
                            sleep(std::time::Duration::from_millis(50)).await;
                            break;
                        }
                    }
                }
                if ready.is_err() {
                    return;
                }
            }
        }
    }
}

fn receive(environment: &Arc<Environment>, stack: &Stack, datagrams: &mut Datagrams, bytes: &[u8]) {
    match packet::parse(bytes) {
        Some(Packet::Datagram { source, destination, payload }) => datagrams.take(source, destination, payload),
        Some(Packet::Segment { source, destination, begins }) => {
            if begins && !stack.expect(source, destination, environment.shared.limits.connections) {
                return environment.note_refusal(destination.ip(), destination.port(), Protocol::Tcp, Reason::TooManyConnections);
            }
            stack.push(bytes);
        }
        None => {}
    }
}
