//! The one small process that forks: a server is large and has threads, and copying it would cost more than what it starts.
//!
//! It gets blueprints over the socket that is its stdin, each with the steward's end of a pair of sockets, and becomes a steward for each.
//! It ends when the server does; stewards go on.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};
use stead_sandbox::cgroup::{Availability, Group};
use stead_sandbox::{Skeleton, fork_apart, locate_arguments, message};

use crate::blueprint::{ENCLOSED, Order};
use crate::protocol::LARGEST;
use crate::{Directories, steward, steward_lock};

/// No definition comes near it.
const LONGEST_ORDER: u64 = 64 << 20;

/// Serves until the server is gone. What all places share of the root is made anew first, in the directory that is named. Its stewards speak
/// the version of the protocol that is named: an older one than ours is how tests have one that is left from before an upgrade.
pub fn run(skeleton: &Path, protocol: u32) -> io::Result<()> {
    Skeleton::build_while(skeleton, &server_is_there).map_err(io::Error::other)?;
    // A steward of the server before may keep a place that still sees what was there before.
    if skeleton.parent().is_some_and(|data_dir| !Directories::below(data_dir).anybody_is_awake()) {
        Skeleton::forget_left(skeleton).map_err(io::Error::other)?;
    }
    let available = Availability::probe();
    if available.has_groups() {
        available.prepare().map_err(io::Error::other)?;
    }
    locate_arguments();
    let socket = rustix::stdio::stdin();
    let mut stewards: Vec<OwnedFd> = Vec::new();
    let mut buffer = vec![0; LARGEST];
    loop {
        let mut watched = vec![PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        watched.extend(stewards.iter().map(|steward| PollFd::new(steward, PollFlags::IN)));
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            outcome => outcome?,
        };
        let ended: Vec<bool> = watched.iter().map(|watched| !watched.revents().is_empty()).collect();
        drop(watched);
        let mut at = 0;
        stewards.retain(|steward| {
            at += 1;
            !(ended[at] && matches!(waitid(WaitId::PidFd(steward.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(Some(_))))
        });
        if ended[0] {
            let Some(received) = message::receive(socket.as_fd(), &mut buffer)? else { return Ok(()) };
            let mut descriptors = received.descriptors;
            let order = match &buffer[..received.length] {
                ENCLOSED => enclosed(descriptors.pop()),
                bytes => serde_json::from_slice(bytes).map_err(io::Error::from),
            };
            match (order, descriptors.into_iter().next()) {
                (Ok(Order::Wake(blueprint)), Some(peer)) => {
                    // A failure is seen at the other end of the pair, which closes.
                    let begin = |mut kept: Vec<OwnedFd>| kept.pop().map_or(1, |peer| steward::run(*blueprint, peer, protocol));
                    stewards.extend(fork_apart(vec![peer], begin).map(|(_, steward)| steward));
                }
                (Ok(Order::Clear(run)), _) => clear(&available, &run),
                _ => {}
            }
        }
    }
}

/// An order that was too long for a message.
fn enclosed(descriptor: Option<OwnedFd>) -> io::Result<Order> {
    let mut file = File::from(descriptor.ok_or(io::ErrorKind::InvalidData)?);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(LONGEST_ORDER).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Whether somebody still holds the other end of our socket.
fn server_is_there() -> bool {
    let socket = rustix::stdio::stdin();
    let mut watched = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut watched, Some(&now)), Ok(1)) || !watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}

/// Removes what a steward left that was killed, unless another one is there by now.
fn clear(available: &Availability, run: &Path) {
    let Ok(Some(held)) = steward_lock::take_left(run) else { return };
    let name = run.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if let Ok(Some(group)) = Group::open(available, name) {
        // Its init ends by itself a moment after its keeper; whatever is slower is helped.
        let _ = group.kill().and_then(|()| group.remove());
    }
    let _ = steward_lock::remove(run, held);
}
