//! What is to be replaced and is not yet: spans that do not overlap, because those that did are one.

use std::collections::VecDeque;
use std::sync::Arc;

/// From one position of the stream to another, and what stands there instead.
#[derive(Clone)]
pub struct Region {
    pub start: usize,
    pub end: usize,
    pub replacement: Arc<str>,
}

#[derive(Default)]
pub struct Regions(VecDeque<Region>);

impl Regions {
    /// Merges with all that it overlaps; the one that begins first gives the name, and of those the longest.
    pub fn insert(&mut self, mut region: Region) {
        let from = self.0.partition_point(|other| other.end <= region.start);
        let until = self.0.partition_point(|other| other.start < region.end);
        let overlapping: Vec<Region> = self.0.drain(from..until.max(from)).collect();
        if let (Some(first), Some(last)) = (overlapping.first(), overlapping.last()) {
            region.end = region.end.max(last.end);
            if first.start < region.start || (first.start == region.start && first.end == region.end) {
                (region.start, region.replacement) = (first.start, first.replacement.clone());
            }
        }
        self.0.insert(from, region);
    }

    pub fn first(&self) -> Option<&Region> {
        self.0.front()
    }

    pub fn remove_first(&mut self) {
        self.0.pop_front();
    }

    /// How many bytes from a position on are in one.
    pub fn covered_from(&self, position: usize) -> usize {
        self.0.iter().map(|region| region.end.saturating_sub(region.start.max(position))).sum()
    }

    /// How many end after a position.
    pub fn after(&self, position: usize) -> usize {
        self.0.len() - self.0.partition_point(|region| region.end <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(spans: &[(usize, usize, u32)]) -> Vec<(usize, usize, u32)> {
        let mut regions = Regions::default();
        spans
            .iter()
            .for_each(|(start, end, value)| regions.insert(Region { start: *start, end: *end, replacement: value.to_string().into() }));
        regions.0.iter().map(|region| (region.start, region.end, region.replacement.parse().unwrap())).collect()
    }

    #[test]
    fn what_overlaps_is_one_and_what_only_touches_is_two() {
        assert_eq!(merged(&[(0, 6, 1), (6, 12, 2)]), [(0, 6, 1), (6, 12, 2)]);
        assert_eq!(merged(&[(0, 6, 1), (5, 12, 2)]), [(0, 12, 1)]);
        assert_eq!(merged(&[(2, 8, 1), (10, 16, 2), (20, 26, 3), (0, 18, 4)]), [(0, 18, 4), (20, 26, 3)]);
        assert_eq!(merged(&[(0, 6, 1), (8, 14, 2), (4, 9, 3)]), [(0, 14, 1)]);
    }

    #[test]
    fn the_first_gives_the_name_and_of_two_that_begin_together_the_longer() {
        assert_eq!(merged(&[(0, 6, 1), (0, 9, 2)]), [(0, 9, 2)]);
        assert_eq!(merged(&[(0, 9, 2), (0, 6, 1)]), [(0, 9, 2)]);
        assert_eq!(merged(&[(3, 9, 1), (0, 12, 2)]), [(0, 12, 2)]);
    }
}
