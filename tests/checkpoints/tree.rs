//! A tree of files as a plain copy would keep it, and random changes to it that a shell can make.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::crashes::Dice;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Directory(u32),
    File(u32, Vec<u8>),
    Link(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Node>);

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Prints a tree in the words of [`Tree::manifest`].
pub const MANIFEST: &str = "find . -mindepth 1 \\( -type d -printf 'd %m %P\\n' -o -type l -printf 'l %l %P\\n' -o -type f -printf 'f %m %P\\n' \\) | LC_ALL=C sort; \
    find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum";

impl Tree {
    pub fn manifest(&self) -> String {
        let mut lines: Vec<String> = self
            .0
            .iter()
            .map(|(path, node)| match node {
                Node::Directory(mode) => format!("d {mode:o} {path}\n"),
                Node::Link(target) => format!("l {target} {path}\n"),
                Node::File(mode, _) => format!("f {mode:o} {path}\n"),
            })
            .collect();
        lines.sort();
        let mut files: Vec<(String, &Vec<u8>)> = self
            .0
            .iter()
            .filter_map(|(path, node)| match node {
                Node::File(_, bytes) => Some((format!("./{path}"), bytes)),
                _ => None,
            })
            .collect();
        files.sort();
        let mut text = lines.concat();
        for (path, bytes) in files {
            let digest = Sha256::digest(bytes);
            for byte in digest {
                let _ = write!(text, "{byte:02x}");
            }
            let _ = writeln!(text, "  {path}");
        }
        text
    }

    /// Makes a random change here, and gives the command that makes it there.
    pub fn change(&mut self, dice: &mut Dice) -> String {
        loop {
            let path = self.some_path(dice);
            let known = self.0.get(&path).cloned();
            let command = match (dice.roll(8), known) {
                (0 | 1, None | Some(Node::File(..))) => {
                    let bytes = vec![b'a' + dice.roll(26) as u8; dice.roll(9000) as usize];
                    let mode = match &self.0.get(&path) {
                        Some(Node::File(mode, _)) => *mode,
                        _ => 0o644,
                    };
                    let command = match bytes.first() {
                        Some(byte) => format!("head -c {} /dev/zero | tr '\\0' '{}' > {path}", bytes.len(), *byte as char),
                        None => format!(": > {path}"),
                    };
                    self.0.insert(path, Node::File(mode, bytes));
                    command
                }
                (2, Some(Node::File(mode, mut bytes))) => {
                    bytes.extend_from_slice(b"more");
                    self.0.insert(path.clone(), Node::File(mode, bytes));
                    format!("printf more >> {path}")
                }
                (3, None) => {
                    self.0.insert(path.clone(), Node::Directory(0o755));
                    format!("mkdir {path}")
                }
                (4, None) => {
                    self.0.insert(path.clone(), Node::Link("a".to_owned()));
                    format!("ln -s a {path}")
                }
                (5, Some(_)) => {
                    self.remove(&path);
                    format!("rm -r {path}")
                }
                (6, Some(Node::File(_, bytes))) => {
                    let mode = [0o600, 0o644, 0o755, 0o640][dice.roll(4) as usize];
                    self.0.insert(path.clone(), Node::File(mode, bytes));
                    format!("chmod {mode:o} {path}")
                }
                (6, Some(Node::Directory(_))) => {
                    self.0.insert(path.clone(), Node::Directory(0o700));
                    format!("chmod 700 {path}")
                }
                (7, Some(_)) => {
                    let to = self.some_path(dice);
                    // Into itself, or onto something: other commands do that.
                    if self.0.contains_key(&to) || format!("{to}/").starts_with(&format!("{path}/")) {
                        continue;
                    }
                    let below = format!("{path}/");
                    let moved: Vec<String> = self.0.keys().filter(|key| **key == path || key.starts_with(&below)).cloned().collect();
                    for key in moved {
                        if let Some(node) = self.0.remove(&key) {
                            self.0.insert(format!("{to}{}", &key[path.len()..]), node);
                        }
                    }
                    format!("mv {path} {to}")
                }
                _ => continue,
            };
            return command;
        }
    }

    fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.0.retain(|key, _| key != path && !key.starts_with(&below));
    }

    /// A path whose parent is a directory; something may be there.
    fn some_path(&self, dice: &mut Dice) -> String {
        let mut path = NAMES[dice.roll(4) as usize].to_owned();
        while matches!(self.0.get(&path), Some(Node::Directory(_))) && dice.roll(3) > 0 {
            path = format!("{path}/{}", NAMES[dice.roll(4) as usize]);
        }
        path
    }
}
