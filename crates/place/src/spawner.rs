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
use stead_sandbox::cgroup::Availability;
use stead_sandbox::{Skeleton, bury_children, fork_apart, locate_arguments, message};

use crate::blueprint::{ENCLOSED, Order};
use crate::protocol::LARGEST;
use crate::{Directories, remains, steward, steward_lock};

/// No definition comes near it.
const LONGEST_ORDER: u64 = 64 << 20;

/// Serves until the server is gone. What all places share of the root is made anew first, in the directory that is named. Its stewards speak
/// the version of the protocol that is named: an older one than ours is how tests have one that is left from before an upgrade.
pub fn run(skeleton: &Path, protocol: u32) -> io::Result<()> {
    make_skeleton(skeleton)?;
    let available = Availability::probe();
    if available.has_groups() {
        available.prepare().map_err(io::Error::other)?;
    }
    locate_arguments();
    // Nothing is kept of a steward here, neither a descriptor nor a way to hear of its end: every copy of us begins with what we hold.
    bury_children();
    loop {
        let Some((order, peer)) = hear()? else { return Ok(()) };
        match (order, peer) {
            (Ok(Order::Wake(blueprint)), Some(peer)) => {
                // A failure is seen at the other end of the pair, which closes.
                let begin = |mut kept: Vec<OwnedFd>| kept.pop().map_or(1, |peer| steward::run(*blueprint, peer, protocol));
                let _ = fork_apart(vec![peer], begin);
            }
            (Ok(Order::Clear(run)), _) => clear(&available, &run),
            _ => {}
        }
    }
}

/// Makes what all places share, in a copy of us: the memory that it takes is not for every steward to begin with.
fn make_skeleton(skeleton: &Path) -> io::Result<()> {
    let server = rustix::stdio::stdin().try_clone_to_owned()?;
    let make = |kept: Vec<OwnedFd>| {
        let made = Skeleton::build_while(skeleton, &|| kept.iter().all(somebody_is_there));
        // A steward of the server before may keep a place that still sees what was there before.
        let awake = || skeleton.parent().is_none_or(|data_dir| Directories::below(data_dir).anybody_is_awake());
        i32::from(made.and_then(|_| if awake() { Ok(()) } else { Skeleton::forget_left(skeleton) }).is_err())
    };
    let (_, child) = fork_apart(vec![server], make).map_err(io::Error::other)?;
    loop {
        match waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => {
                let made = outcome?.is_some_and(|status| status.exit_status() == Some(0));
                return if made { Ok(()) } else { Err(io::Error::other("what all places share could not be made")) };
            }
        }
    }
}

/// The next order and what came with it; none when the server is gone.
fn hear() -> io::Result<Option<(io::Result<Order>, Option<OwnedFd>)>> {
    // Gone before anybody is made: no copy of us has to carry it.
    let mut buffer = vec![0; LARGEST];
    let Some(received) = message::receive(rustix::stdio::stdin(), &mut buffer)? else { return Ok(None) };
    let mut descriptors = received.descriptors;
    let order = match &buffer[..received.length] {
        ENCLOSED => enclosed(descriptors.pop()),
        bytes => serde_json::from_slice(bytes).map_err(io::Error::from),
    };
    Ok(Some((order, descriptors.into_iter().next())))
}

/// An order that was too long for a message.
fn enclosed(descriptor: Option<OwnedFd>) -> io::Result<Order> {
    let mut file = File::from(descriptor.ok_or(io::ErrorKind::InvalidData)?);
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(LONGEST_ORDER).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Whether somebody still holds the other end of a socket.
fn somebody_is_there(socket: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut watched, Some(&now)), Ok(1)) || !watched[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP)
}

/// Removes what a steward left that was killed, unless another one is there by now.
fn clear(available: &Availability, run: &Path) {
    let Ok(Some(held)) = steward_lock::take_left(run) else { return };
    let name = run.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    steward::clear_group(available, name);
    // The directory goes last, and only when nobody is left of whom it tells. Whoever waits for that asks again.
    if !remains::are_gone(run).unwrap_or(false) {
        return;
    }
    let _ = steward_lock::remove(run, held);
}
