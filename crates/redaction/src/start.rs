//! Where a pattern may begin. Most bytes are no part of any, and this is what passes over them: four bytes are looked at, then some are
//! left out, then the next four. As many are left out as the shortest pattern allows.

/// Bytes that are looked at together.
pub const GRAM: usize = 4;
/// More than this saves nothing, and each makes the filter fuller.
const LONGEST_STRIDE: usize = 8;
/// Bits of the filter for each thing in it: one look in thirty-two is in vain where bytes are random.
const ROOM: usize = 32;
const MOST_BITS: usize = 1 << 24;

/// The beginnings of all patterns.
#[derive(Default)]
pub struct Starts {
    stride: usize,
    /// A bit for each four bytes that stand within the first of some pattern.
    filter: Vec<u64>,
    filter_shift: u32,
    /// The first four bytes of patterns and where they lead, by hash; 0 is free, because nothing leads to the root.
    table: Vec<(u32, u32)>,
    table_shift: u32,
}

fn hash(gram: u32, shift: u32) -> usize {
    (gram.wrapping_mul(0x9E37_79B1) >> shift) as usize
}

/// The bytes from a position on as one number, or nothing when there are fewer.
pub fn gram(bytes: &[u8], from: usize) -> Option<u32> {
    bytes.get(from..)?.first_chunk::<GRAM>().map(|bytes| u32::from_be_bytes(*bytes))
}

impl Starts {
    /// From the first four bytes of patterns with the node that they lead to, and all patterns.
    pub fn new<'a>(nodes: &[(u32, u32)], patterns: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let shortest = patterns.clone().map(<[u8]>::len).min().unwrap_or_default();
        let stride = (shortest + 1).saturating_sub(GRAM).clamp(1, LONGEST_STRIDE);
        let mut grams: Vec<u32> = patterns.flat_map(|pattern| (0..stride).filter_map(|from| gram(pattern, from))).collect();
        grams.sort_unstable();
        grams.dedup();
        let bits = (grams.len() * ROOM).next_power_of_two().clamp(1 << 10, MOST_BITS);
        let places = (nodes.len() * 2).next_power_of_two().max(2);
        let mut starts = Self {
            stride,
            filter: vec![0; bits / 64],
            filter_shift: 32 - bits.trailing_zeros(),
            table: vec![(0, 0); places],
            table_shift: 32 - places.trailing_zeros(),
        };
        for gram in grams {
            let bit = hash(gram, starts.filter_shift);
            starts.filter[bit / 64] |= 1 << (bit % 64);
        }
        for (gram, node) in nodes {
            let mut place = hash(*gram, starts.table_shift);
            while starts.table[place].1 != 0 {
                place = (place + 1) % places;
            }
            starts.table[place] = (*gram, *node);
        }
        starts
    }

    /// The node that four bytes lead to, if a pattern begins with them.
    pub fn node(&self, gram: u32) -> Option<u32> {
        let mut place = hash(gram, self.table_shift);
        loop {
            match self.table[place] {
                (_, 0) => return None,
                (found, node) if found == gram => return Some(node),
                _ => place = (place + 1) % self.table.len(),
            }
        }
    }

    fn may_be_within(&self, gram: u32) -> bool {
        let bit = hash(gram, self.filter_shift);
        self.filter[bit / 64] >> (bit % 64) & 1 != 0
    }

    /// The first position from there on where a pattern may begin with four bytes that are there, and the node they lead to.
    pub fn find(&self, view: &[u8], from: usize) -> Option<(usize, u32)> {
        let mut next = from;
        while let Some(gram) = gram(view, next + self.stride - 1) {
            if self.may_be_within(gram)
                && let Some(found) = self.first(view, next, next + self.stride)
            {
                return Some(found);
            }
            next += self.stride;
        }
        self.first(view, next, view.len())
    }

    fn first(&self, view: &[u8], from: usize, until: usize) -> Option<(usize, u32)> {
        (from..until).find_map(|position| Some((position, self.node(gram(view, position)?)?)))
    }

    pub fn size(&self) -> usize {
        self.filter.len() * 8 + self.table.len() * 8
    }
}
