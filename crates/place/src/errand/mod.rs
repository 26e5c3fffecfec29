//! Errands: what is done inside an environment on a server's behalf, in a process of its own that sees what every other one there sees. No path
//! can lead out, because there is no other root. Whatever it says comes from where anything may run, and is believed no further.

mod entries;
mod moving;
mod ports;
mod reading;
mod removing;
mod searching;
mod voice;
mod watching;
mod writing;

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stead_domain::files::{FileOrder, FileWord};

use self::voice::Voice;
use crate::protocol::Task;
use crate::tree::trouble::{At, Result};
use crate::tree::{Moved, Packing, unpack};

/// Trees are walked by recursion, and may be deep.
const STACK: usize = 512 << 20;

/// Does one errand for whoever holds the other end.
pub fn run(descriptor: OwnedFd) {
    // As many directories may be open as a tree is deep.
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum });
    stead_sandbox::survive_broken_pipes();
    let work = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        let mut voice = Voice::new(descriptor);
        // Whoever asked and went away is told nothing.
        let _ = serve(&mut voice);
    });
    let _ = work.map(std::thread::JoinHandle::join);
}

fn serve(voice: &mut Voice) -> std::io::Result<()> {
    voice.say(&FileWord::Ready, &[])?;
    let errand = match voice.hear_task()? {
        Task::Files(errand) => errand,
        Task::Ports(order) => return ports::serve(order, voice),
    };
    // Without a workspace, only absolute paths are there.
    let _ = std::env::set_current_dir(Path::new(&errand.directory));
    match perform(errand.order, voice) {
        Ok(done) => voice.say(&done, &[]),
        Err(failure) => voice.say(&FileWord::Failed(failure), &[]),
    }
}

fn perform(order: FileOrder, voice: &mut Voice) -> Result<FileWord> {
    let done = |size| FileWord::Done { size, more: false, count: 0 };
    match order {
        FileOrder::Stat { path } => entries::stat(&path, voice).map(|()| done(0)),
        FileOrder::List { path, recursive, after, limit } => {
            let more = entries::list(&path, recursive, after.as_ref(), limit, voice)?;
            Ok(FileWord::Done { size: 0, more, count: 0 })
        }
        FileOrder::Read { path, offset, length } => reading::read(&path, offset, length, voice).map(done),
        FileOrder::Write { path, mode, parents } => writing::write(&path, mode, parents, voice).map(done),
        FileOrder::Append { path, offset, mode } => writing::append(&path, offset, mode, voice).map(done),
        FileOrder::Remove { path, recursive } => removing::remove(&path, recursive).map(|()| done(0)),
        FileOrder::MakeDirectory { path, mode, parents } => writing::make_directory(&path, mode, parents).map(|()| done(0)),
        FileOrder::Move { from, to, overwrite } => moving::rename(&from, &to, overwrite).map(|()| done(0)),
        FileOrder::Copy { from, to, overwrite } => moving::copy(&from, &to, overwrite).map(|()| done(0)),
        FileOrder::Pack { path } => {
            let packing = Packing::open(&path)?;
            voice.say(&FileWord::Begun, &[]).at(&path)?;
            let Moved { count, size } = packing.pack(|bytes| voice.say(&FileWord::Bytes, bytes))?;
            Ok(FileWord::Done { size, more: false, count })
        }
        FileOrder::Unpack { path } => {
            let Moved { count, size } = unpack(&path, || voice.piece())?;
            Ok(FileWord::Done { size, more: false, count })
        }
        FileOrder::Find(order) => searching::find(&order, voice),
        FileOrder::Grep(order) => searching::grep(&order, voice),
        FileOrder::Watch { path, recursive } => watching::watch(&path, recursive, voice),
    }
}
