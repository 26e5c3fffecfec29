//! What an entry of a directory is, as its metadata says it.

use rustix::fs::{FileType, Stat};
use stead_domain::changes::EntryType;

pub fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub fn is_directory(stat: &Stat) -> bool {
    file_type(stat) == FileType::Directory
}

pub fn entry_type(stat: &Stat) -> EntryType {
    match file_type(stat) {
        FileType::Directory => EntryType::Directory,
        FileType::Symlink => EntryType::Symlink,
        FileType::Fifo => EntryType::Fifo,
        FileType::Socket => EntryType::Socket,
        FileType::CharacterDevice | FileType::BlockDevice => EntryType::Device,
        _ => EntryType::File,
    }
}

pub fn size(stat: &Stat) -> u64 {
    if is_directory(stat) { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) }
}
