//! Everything there is to see of a tree.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, fgetxattr, flistxattr, getxattr, listxattr, readlinkat};
use stead_domain::changes::{ChangeKind, RelativePath};
use stead_domain::checkpoint_diff::{FileDifference, Side};

use super::super::Stack;
use super::super::merged::Merged;
use super::super::names::Names;
use crate::local::entry::{entry_type, file_type};

/// By the names on the way, so that the order is that of a walk.
pub type View = BTreeMap<Vec<Vec<u8>>, Node>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub mode: u32,
    pub owner: (u32, u32),
    pub device: u64,
    pub modified: (i64, i64),
    /// What a file holds, or where a link leads.
    pub content: Vec<u8>,
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Node {
    fn side(&self) -> Side {
        let mut stat = rustix::fs::stat("/").unwrap();
        stat.st_mode = self.mode;
        Side { r#type: entry_type(&stat), size: self.content.len() as u64, mode: self.mode }
    }

    fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Directory
    }
}

pub fn relative(names: &[Vec<u8>]) -> RelativePath {
    let mut path = RelativePath::default();
    names.iter().for_each(|name| path.push(name));
    path
}

fn attributes(list: Vec<u8>, value: impl Fn(&OsStr) -> Vec<u8>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !name.starts_with(b"user.overlay."));
    names.map(|name| (name.to_vec(), value(OsStr::from_bytes(name)))).collect()
}

/// By plain paths, with nothing of ours.
pub fn of_tree(root: &Path) -> View {
    let mut view = View::new();
    let mut ahead = vec![Vec::new()];
    while let Some(names) = ahead.pop() {
        let path = names.iter().fold(root.join("."), |path, name: &Vec<u8>| path.join(OsStr::from_bytes(name)));
        let metadata = match fs::symlink_metadata(&path) {
            // The kernel lists names of what it says is not there, in directories that only one layer has.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            outcome => outcome.unwrap(),
        };
        let kind = FileType::from_raw_mode(metadata.mode());
        let content = match kind {
            FileType::RegularFile => fs::read(&path).unwrap(),
            FileType::Symlink => fs::read_link(&path).unwrap().into_os_string().into_vec(),
            _ => Vec::new(),
        };
        let mut list = vec![0; 4096];
        let attributes = match kind {
            FileType::RegularFile | FileType::Directory => {
                let length = listxattr(&path, &mut list).unwrap();
                attributes(list[..length].to_vec(), |name| {
                    let mut value = vec![0; 4096];
                    let length = getxattr(&path, name, &mut value).unwrap();
                    value[..length].to_vec()
                })
            }
            _ => BTreeMap::new(),
        };
        if metadata.is_dir() {
            for entry in fs::read_dir(&path).unwrap() {
                ahead.push(names.iter().cloned().chain([entry.unwrap().file_name().into_vec()]).collect());
            }
        }
        let node = Node {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            device: metadata.rdev(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            content,
            attributes,
        };
        // Of the uppermost directory the kernel shows the one that it was mounted with.
        if !names.is_empty() {
            view.insert(names, node);
        }
    }
    view
}

/// As our walk sees it, in the order in which it comes.
pub fn of_stack(stack: &Stack) -> Vec<(Vec<Vec<u8>>, Node)> {
    let mut merged = Merged::open(stack).unwrap();
    let mut found = Vec::new();
    let mut path: Vec<Vec<u8>> = Vec::new();
    let mut levels = vec![Names::default()];
    while let Some(names) = levels.last_mut() {
        let Some(name) = merged.next_name(names).unwrap() else {
            levels.pop();
            if path.pop().is_some() {
                merged.leave().unwrap();
            }
            continue;
        };
        let Some(entry) = merged.look(&name).unwrap() else { continue };
        let mut content = Vec::new();
        let mut found_attributes = BTreeMap::new();
        match file_type(&entry.stat) {
            FileType::RegularFile | FileType::Directory => {
                let file = File::from(merged.open_file(&name, &entry).unwrap());
                let mut list = vec![0; 4096];
                let length = flistxattr(&file, &mut list).unwrap();
                found_attributes = attributes(list[..length].to_vec(), |name| {
                    let mut value = vec![0; 4096];
                    let length = fgetxattr(&file, name, &mut value).unwrap();
                    value[..length].to_vec()
                });
                if file_type(&entry.stat) == FileType::RegularFile {
                    (&file).read_to_end(&mut content).unwrap();
                }
            }
            FileType::Symlink => content = readlinkat(merged.holder(&entry).unwrap(), &name, Vec::new()).unwrap().into_bytes(),
            _ => {}
        }
        let node = Node {
            mode: entry.stat.st_mode,
            owner: (entry.stat.st_uid, entry.stat.st_gid),
            device: entry.stat.st_rdev,
            modified: (entry.stat.st_mtime, entry.stat.st_mtime_nsec as i64),
            content,
            attributes: found_attributes,
        };
        let here: Vec<Vec<u8>> = path.iter().cloned().chain([name.as_bytes().to_vec()]).collect();
        if node.is_directory() {
            merged.enter(&name).unwrap();
            path.push(OsString::into_vec(name));
            levels.push(Names::default());
        }
        found.push((here, node));
    }
    found
}

/// What differs, by comparing everything with everything.
pub fn differences(before: &View, after: &View) -> Vec<FileDifference> {
    let paths: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let told = |path: &Vec<Vec<u8>>| {
        let (left, right) = (before.get(path), after.get(path));
        let kind = match (left, right) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Deleted,
            (Some(left), Some(right)) if (left.mode, &left.content, left.device) == (right.mode, &right.content, right.device) => {
                return None;
            }
            _ => ChangeKind::Modified,
        };
        Some(FileDifference::new(&relative(path), kind, left.map(Node::side), right.map(Node::side)))
    };
    paths.into_iter().filter_map(told).collect()
}

/// Where a layer says something to the kernel: whiteouts, and attributes of the kernel's own.
pub fn marks(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut ahead = vec![PathBuf::new()];
    while let Some(path) = ahead.pop() {
        let there = root.join(&path);
        let metadata = fs::symlink_metadata(&there).unwrap();
        if FileType::from_raw_mode(metadata.mode()) == FileType::CharacterDevice && metadata.rdev() == 0 {
            found.push((path.clone(), Vec::new()));
        }
        if metadata.is_dir() || metadata.is_file() {
            let mut list = vec![0; 4096];
            let length = listxattr(&there, &mut list).unwrap();
            for name in list[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.overlay.")) {
                let mut value = vec![0; 4096];
                let length = getxattr(&there, OsStr::from_bytes(name), &mut value).unwrap();
                found.push((path.clone(), [name, &value[..length]].concat()));
            }
        }
        if metadata.is_dir() {
            ahead.extend(fs::read_dir(&there).unwrap().map(|entry| path.join(entry.unwrap().file_name())));
        }
    }
    found.sort();
    found
}

/// Names that are listed, and then nothing is there.
pub fn phantoms(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![root.join(".")];
    while let Some(path) = ahead.pop() {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path())),
            Ok(_) => {}
            Err(_) => found.push(path),
        }
    }
    found
}
