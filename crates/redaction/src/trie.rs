//! All patterns as one trie, laid out to be small and quick to make: every awake environment keeps one, and makes it before a process
//! starts.
//!
//! Nodes stand in the order of a walk through the trie, so that the first child of a node is the one after it and a node costs two bytes.
//! What few nodes have is kept beside them: further children, and ends. There are no links to go on with when nothing fits, as Aho and
//! Corasick have them: patterns are short, and looking again from the next byte is bounded by their length.

use zeroize::Zeroize;

use crate::start::{GRAM, Starts, gram};

/// The node after it is its child.
const HAS_CHILD: u8 = 1;
/// It has other children.
const BRANCHES: u8 = 2;
/// A pattern ends here.
const ENDS: u8 = 4;

/// Bytes without line breaks, and what they are a form of.
pub struct Pattern {
    pub bytes: Vec<u8>,
    pub value: u32,
    /// Whether it may have been broken into lines.
    pub folds: bool,
}

#[derive(Default)]
pub struct Trie {
    labels: Vec<u8>,
    flags: Vec<u8>,
    /// Children but the first, by parent and byte.
    branches: Vec<(u32, u8, u32)>,
    ends: Vec<End>,
    pub starts: Starts,
}

/// A pattern that ends at a node.
#[derive(Clone, Copy)]
pub struct End {
    node: u32,
    pub value: u32,
    pub folds: bool,
}

impl Trie {
    /// Of two values with one form, the pattern that stands first decides.
    pub fn new(mut patterns: Vec<Pattern>) -> Self {
        patterns.sort_by(|one, other| one.bytes.cmp(&other.bytes));
        patterns.dedup_by(|later, first| {
            let same = later.bytes == first.bytes;
            first.folds |= same && later.folds;
            same
        });
        let mut trie = Self::default();
        trie.labels.push(0);
        trie.flags.push(0);
        let mut starts = Vec::new();
        // The nodes from the root to the pattern before.
        let (mut path, mut before) = (vec![0], &[][..]);
        for pattern in &patterns {
            let shared = before.iter().zip(&pattern.bytes).take_while(|(one, other)| one == other).count();
            path.truncate(shared + 1);
            for byte in &pattern.bytes[shared..] {
                let node = trie.add(path[path.len() - 1], *byte);
                path.push(node);
                if path.len() == GRAM + 1 {
                    starts.extend(gram(&pattern.bytes, 0).map(|gram| (gram, node)));
                }
            }
            let node = path[path.len() - 1];
            trie.flags[node as usize] |= ENDS;
            trie.ends.push(End { node, value: pattern.value, folds: pattern.folds });
            before = &pattern.bytes;
        }
        trie.branches.sort_unstable();
        trie.ends.sort_unstable_by_key(|end| end.node);
        trie.starts = Starts::new(&starts, patterns.iter().map(|pattern| &pattern.bytes[..]));
        for pattern in &mut patterns {
            pattern.bytes.zeroize();
        }
        trie.labels.shrink_to_fit();
        trie.flags.shrink_to_fit();
        trie
    }

    fn add(&mut self, parent: u32, byte: u8) -> u32 {
        // Four thousand million bytes of patterns do not fit into the memory that these are for.
        let node = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        self.labels.push(byte);
        self.flags.push(0);
        if node == parent + 1 {
            self.flags[parent as usize] |= HAS_CHILD;
        } else {
            self.flags[parent as usize] |= BRANCHES;
            self.branches.push((parent, byte, node));
        }
        node
    }

    fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let flags = self.flags[node as usize];
        if flags & HAS_CHILD != 0 && self.labels[node as usize + 1] == byte {
            return Some(node + 1);
        }
        if flags & BRANCHES == 0 {
            return None;
        }
        let index = self.branches.binary_search_by_key(&(node, byte), |(parent, byte, _)| (*parent, *byte)).ok()?;
        Some(self.branches[index].2)
    }

    /// Goes on from the node that the first four bytes have led to, and tells of each pattern that ends and how long it is. Whether there
    /// are patterns that go on after the last byte.
    pub fn walk(&self, bytes: &[u8], mut node: u32, mut on_end: impl FnMut(usize, End)) -> bool {
        for (index, byte) in bytes.iter().enumerate().skip(GRAM) {
            let Some(child) = self.child(node, *byte) else { return false };
            node = child;
            if self.flags[node as usize] & ENDS != 0
                && let Ok(found) = self.ends.binary_search_by_key(&node, |end| end.node)
            {
                on_end(index + 1, self.ends[found]);
            }
        }
        self.flags[node as usize] & HAS_CHILD != 0
    }

    /// How many of the last bytes, fewer than four, are the beginning of a pattern.
    pub fn beginning(&self, last: &[u8]) -> usize {
        let begins = |bytes: &[u8]| bytes.iter().try_fold(0, |node, byte| self.child(node, *byte)).is_some();
        (1..GRAM.min(last.len() + 1)).rev().find(|count| begins(&last[last.len() - count..])).unwrap_or_default()
    }

    pub fn size(&self) -> usize {
        self.labels.len() + self.flags.len() + size_of_val(&self.branches[..]) + size_of_val(&self.ends[..]) + self.starts.size()
    }
}

impl Drop for Trie {
    fn drop(&mut self) {
        self.labels.zeroize();
        for (_, byte, _) in &mut self.branches {
            *byte = 0;
        }
    }
}
