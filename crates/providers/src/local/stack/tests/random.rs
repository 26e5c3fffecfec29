//! What somebody inside might do to a tree, drawn at random. What the kernel refuses is simply not done.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mknodat};

/// Few names and few levels, so that the same ones are met again and again.
const NAMES: &[&[u8]] = &[b"a", b"a-b", b"\xff\n"];

#[derive(Clone, Debug)]
pub enum Operation {
    Write(Where, u8),
    Append(Where, u8),
    Directory(Where),
    Remove(Where),
    /// Removes what is there and makes a directory of the same name, in which the layers below have no part.
    Renew(Where),
    Rename(Where, Where),
    Link(Where, Where),
    Symlink(Where, u8),
    Pipe(Where),
    Socket(Where),
    Mode(Where, u8),
    Owner(Where, u8),
    Attribute(Where, u8),
    /// Written again with what it holds.
    Touch(Where),
}

pub type Where = Vec<u8>;

fn place() -> impl Strategy<Value = Where> {
    let names = |length| prop::collection::vec(0..NAMES.len() as u8, length);
    prop_oneof![3 => names(1), 4 => names(2), 2 => names(3)]
}

pub fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        6 => (place(), any::<u8>()).prop_map(|(place, byte)| Write(place, byte)),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Append(place, byte)),
        5 => place().prop_map(Directory),
        4 => place().prop_map(Remove),
        2 => place().prop_map(Renew),
        3 => (place(), place()).prop_map(|(from, to)| Rename(from, to)),
        2 => (place(), place()).prop_map(|(from, to)| Link(from, to)),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Symlink(place, byte)),
        1 => place().prop_map(Pipe),
        1 => place().prop_map(Socket),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Mode(place, byte)),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Owner(place, byte)),
        1 => (place(), any::<u8>()).prop_map(|(place, byte)| Attribute(place, byte)),
        1 => place().prop_map(Touch),
    ]
}

/// Several times something is done, and then sealed.
pub fn rounds() -> impl Strategy<Value = Vec<Vec<Operation>>> {
    prop::collection::vec(prop::collection::vec(operation(), 0..40), 1..6)
}

fn path(root: &Path, place: &Where) -> PathBuf {
    place.iter().fold(root.to_owned(), |path, index| path.join(OsStr::from_bytes(NAMES[*index as usize])))
}

impl Operation {
    pub fn run(&self, root: &Path) {
        let path = |place| path(root, place);
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        let is_plain = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() || metadata.is_dir());
        let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
        let _ = match self {
            Self::Write(place, byte) if !path(place).exists() || is_file(&path(place)) => {
                fs::write(path(place), vec![b'0' + byte % 3; usize::from(byte % 4)])
            }
            Self::Append(place, byte) if is_file(&path(place)) => {
                OpenOptions::new().append(true).open(path(place)).and_then(|mut file| file.write_all(&[*byte]))
            }
            Self::Touch(place) if is_file(&path(place)) => fs::read(path(place)).and_then(|content| fs::write(path(place), content)),
            Self::Directory(place) => fs::create_dir(path(place)),
            Self::Remove(place) => remove(&path(place)),
            Self::Renew(place) => remove(&path(place)).and_then(|()| fs::create_dir(path(place))),
            Self::Rename(from, to) => fs::rename(path(from), path(to)),
            Self::Link(from, to) => fs::hard_link(path(from), path(to)),
            Self::Symlink(place, byte) => symlink(OsStr::from_bytes(NAMES[usize::from(*byte) % NAMES.len()]), path(place)),
            Self::Pipe(place) => mknodat(CWD, path(place), FileType::Fifo, Mode::from_raw_mode(0o600), 0).map_err(Into::into),
            Self::Socket(place) => UnixListener::bind(path(place)).map(drop),
            Self::Mode(place, byte) if is_plain(&path(place)) => {
                fs::set_permissions(path(place), Permissions::from_mode(0o700 | (u32::from(*byte) % 0o100)))
            }
            Self::Owner(place, byte) if is_link(&path(place)) => lchown(path(place), Some(u32::from(*byte)), None),
            Self::Owner(place, byte) if is_plain(&path(place)) => chown(path(place), Some(u32::from(*byte)), Some(u32::from(*byte % 3))),
            Self::Attribute(place, byte) if is_plain(&path(place)) => {
                lsetxattr(path(place), "user.colour", &[*byte], XattrFlags::empty()).map_err(Into::into)
            }
            _ => Ok(()),
        };
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
