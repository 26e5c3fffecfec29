//! All patterns as one automaton (Aho and Corasick's), laid out to be small: a value of some kilobytes has forms of some hundred, and every
//! awake environment keeps them in memory.
//!
//! Nodes stand in the order of a walk through the trie, so that the first child of a node is the one after it and a node costs two bytes.
//! What few nodes have is kept beside them: further children, an end, and where to go on when nothing fits. The latter leads only to nodes
//! at least four bytes deep; below that, `Starts` looks for a new beginning.

use crate::start::{GRAM, Starts};

/// The node after it is its child.
pub const HAS_CHILD: u8 = 1;
/// It has other children.
pub const BRANCHES: u8 = 2;
/// A pattern ends here, or a shorter one that is the end of this.
pub const ENDS: u8 = 4;
/// Something that is the end of this is the beginning of a pattern.
pub const LINKED: u8 = 8;

#[derive(Default)]
pub struct Automaton {
    pub labels: Vec<u8>,
    pub flags: Vec<u8>,
    /// Children but the first, by parent and byte.
    pub branches: Vec<(u32, u8, u32)>,
    pub links: Vec<Link>,
    pub ends: Vec<End>,
    pub starts: Starts,
}

/// The longest other beginning of a pattern that a node ends with.
#[derive(Clone, Copy)]
pub struct Link {
    pub from: u32,
    pub to: Place,
}

/// A node, and how many bytes led to it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub node: u32,
    pub depth: u32,
}

/// The longest pattern that ends at a node.
#[derive(Clone, Copy)]
pub struct End {
    pub node: u32,
    /// The node of the pattern itself.
    pub pattern: u32,
    pub length: u32,
    pub value: u32,
    /// Whether it may have been broken into lines.
    pub folds: bool,
}

impl Automaton {
    pub fn has(&self, node: u32, flag: u8) -> bool {
        self.flags[node as usize] & flag != 0
    }

    pub fn child(&self, node: u32, byte: u8) -> Option<u32> {
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

    pub fn link(&self, node: u32) -> Option<Place> {
        if !self.has(node, LINKED) {
            return None;
        }
        let index = self.links.binary_search_by_key(&node, |link| link.from).ok()?;
        Some(self.links[index].to)
    }

    /// The patterns that end at a node, the longest first.
    pub fn ends(&self, node: u32) -> impl Iterator<Item = End> {
        let end = |node: u32| {
            let index = self.ends.binary_search_by_key(&node, |end| end.node).ok()?;
            Some(self.ends[index])
        };
        std::iter::successors(end(node), move |longer| end(self.link(longer.pattern)?.node))
    }

    /// From a place with one more byte; nothing when no pattern goes on, nor any that begins at least four bytes before.
    pub fn step(&self, mut place: Place, byte: u8) -> Option<Place> {
        loop {
            if let Some(node) = self.child(place.node, byte) {
                return Some(Place { node, depth: place.depth + 1 });
            }
            place = self.link(place.node)?;
        }
    }

    /// Where to wait for what comes: at the end of a pattern that no other continues, only what it ends with matters.
    pub fn settled(&self, mut place: Place) -> Option<Place> {
        while !self.has(place.node, HAS_CHILD) {
            place = self.link(place.node)?;
        }
        Some(place)
    }

    /// How many of the last bytes, fewer than four, are the beginning of a pattern.
    pub fn beginning(&self, last: &[u8]) -> usize {
        let begins = |bytes: &[u8]| bytes.iter().try_fold(0, |node, byte| self.child(node, *byte)).is_some();
        (1..GRAM.min(last.len() + 1)).rev().find(|count| begins(&last[last.len() - count..])).unwrap_or_default()
    }

    pub fn size(&self) -> usize {
        self.labels.len()
            + self.flags.len()
            + size_of_val(&self.branches[..])
            + size_of_val(&self.links[..])
            + size_of_val(&self.ends[..])
            + self.starts.size()
    }
}
