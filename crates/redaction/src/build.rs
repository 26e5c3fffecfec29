//! From patterns to their automaton.

use std::collections::HashMap;

use crate::automaton::{Automaton, BRANCHES, ENDS, End, HAS_CHILD, LINKED, Link, Place};
use crate::start::{GRAM, Starts, gram};

/// Bytes without line breaks, and what they are a form of.
pub struct Pattern {
    pub bytes: Vec<u8>,
    pub value: u32,
    pub folds: bool,
}

/// Of two values with one form, the pattern that stands first decides.
pub fn build(mut patterns: Vec<Pattern>) -> Automaton {
    patterns.sort_by(|one, other| one.bytes.cmp(&other.bytes));
    patterns.dedup_by(|later, first| {
        let same = later.bytes == first.bytes;
        first.folds |= same && later.folds;
        same
    });
    let mut automaton = Automaton { labels: vec![0], flags: vec![0], ..Automaton::default() };
    let (mut starts, mut own) = (Vec::new(), HashMap::new());
    // The nodes from the root to the pattern before.
    let (mut path, mut before) = (vec![0], &[][..]);
    for pattern in &patterns {
        let shared = before.iter().zip(&pattern.bytes).take_while(|(one, other)| one == other).count();
        path.truncate(shared + 1);
        for byte in &pattern.bytes[shared..] {
            let parent = path[path.len() - 1];
            let node = automaton.add(parent, *byte);
            path.push(node);
            if path.len() == GRAM + 1 {
                starts.extend(gram(&pattern.bytes, 0).map(|gram| (gram, node)));
            }
        }
        let node = path[path.len() - 1];
        let length = u32::try_from(pattern.bytes.len()).unwrap_or(u32::MAX);
        own.insert(node, End { node, pattern: node, length, value: pattern.value, folds: pattern.folds });
        before = &pattern.bytes;
    }
    automaton.branches.sort_unstable();
    automaton.starts = Starts::new(&starts, patterns.iter().map(|pattern| &pattern.bytes[..]));
    automaton.connect(starts, own);
    for list in [&mut automaton.labels, &mut automaton.flags] {
        list.shrink_to_fit();
    }
    automaton.branches.shrink_to_fit();
    automaton
}

impl Automaton {
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

    /// Finds the links and the ends that follow from them, one depth after the other: links lead to what is less deep.
    fn connect(&mut self, mut level: Vec<(u32, u32)>, own: HashMap<u32, End>) {
        let (mut links, mut ends) = (HashMap::<u32, Place>::new(), HashMap::<u32, End>::new());
        while !level.is_empty() {
            let mut next = Vec::with_capacity(level.len());
            for (last, node) in level {
                for (byte, child) in self.children(node) {
                    let last = last << 8 | u32::from(byte);
                    if let Some(place) = self.longest_ending(links.get(&node).copied(), &links, byte, last) {
                        links.insert(child, place);
                        self.flags[child as usize] |= LINKED;
                    }
                    let inherited = || links.get(&child).and_then(|place| ends.get(&place.node)).map(|end| End { node: child, ..*end });
                    if let Some(end) = own.get(&child).copied().or_else(inherited) {
                        ends.insert(child, end);
                        self.flags[child as usize] |= ENDS;
                    }
                    next.push((last, child));
                }
            }
            level = next;
        }
        self.links = links.into_iter().map(|(from, to)| Link { from, to }).collect();
        self.links.sort_unstable_by_key(|link| link.from);
        self.ends = ends.into_values().collect();
        self.ends.sort_unstable_by_key(|end| end.node);
    }

    fn longest_ending(&self, mut from: Option<Place>, links: &HashMap<u32, Place>, byte: u8, last: u32) -> Option<Place> {
        while let Some(place) = from {
            if let Some(node) = self.child(place.node, byte) {
                return Some(Place { node, depth: place.depth + 1 });
            }
            from = links.get(&place.node).copied();
        }
        Some(Place { node: self.starts.node(last)?, depth: GRAM as u32 })
    }

    fn children(&self, node: u32) -> Vec<(u8, u32)> {
        let first = self.has(node, HAS_CHILD).then(|| (self.labels[node as usize + 1], node + 1));
        let from = self.branches.partition_point(|(parent, ..)| *parent < node);
        let others = self.branches[from..].iter().take_while(|(parent, ..)| *parent == node).map(|(_, byte, child)| (*byte, *child));
        first.into_iter().chain(others).collect()
    }
}
