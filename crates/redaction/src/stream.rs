//! One stream, cut into pieces anywhere.

use std::fmt;
use std::ops::Range;

use crate::automaton::{ENDS, Place};
use crate::known::Known;
use crate::regions::{Region, Regions};
use crate::start::GRAM;
use crate::view::View;

/// What is looked at together: little enough to stay in the nearest memory, and to keep little.
const PIECE: usize = 16 << 10;

/// What goes out: a part of what was just given, or something else.
pub(crate) enum Part<'a> {
    Given(Range<usize>),
    Other(&'a [u8]),
}

/// Replaces known values in a stream.
///
/// Only what may be the beginning of one is held back. Positions count from the first byte of that; bytes that went out already but may
/// still turn out to be a beginning are kept too.
pub struct Redactor {
    known: Known,
    /// The stream from there on.
    kept: Vec<u8>,
    view: View,
    /// Bytes at the front of `kept` and of the view that nobody needs any more.
    spent: (usize, usize),
    /// How far the view was read, and where in the automaton that has led; the root is where nothing has begun.
    read: usize,
    place: Place,
    regions: Regions,
    /// Up to there everything went out.
    gone: usize,
    found: u64,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Redactor").field("known", &self.known).field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Redactor {
    pub fn new(known: Known) -> Self {
        Self {
            known,
            kept: Vec::new(),
            view: View::default(),
            spent: (0, 0),
            read: 0,
            place: Place::default(),
            regions: Regions::default(),
            gone: 0,
            found: 0,
        }
    }

    /// Takes what comes next, and appends what can be told by now.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let clean = self.pass(bytes, out);
        out.extend_from_slice(clean);
    }

    /// The same without copying what nothing was found in: what is returned comes after what was appended. Of a piece that holds nothing
    /// that is all of it, but for a few bytes that may be the beginning of something.
    #[must_use = "what is returned goes out after what was appended"]
    pub fn pass<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let mut clean = 0..0;
        self.feed(bytes, &mut |part| match part {
            Part::Given(range) if range.start == clean.end && !clean.is_empty() => clean.end = range.end,
            Part::Given(range) => out.extend_from_slice(&bytes[std::mem::replace(&mut clean, range)]),
            Part::Other(other) => {
                out.extend_from_slice(&bytes[std::mem::take(&mut clean)]);
                out.extend_from_slice(other);
            }
        });
        &bytes[clean]
    }

    /// Only looks, for whoever wants to know.
    pub(crate) fn look(&mut self, bytes: &[u8]) {
        self.feed(bytes, &mut |_| {});
    }

    /// The stream has ended: what is held back goes out. Another one may begin.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(self.kept.len(), &[], 0, &mut |part| append(part, &[], out));
        self.restart();
    }

    /// Bytes that came and are not yet told.
    pub fn held(&self) -> usize {
        self.kept.len() - self.gone.max(self.spent.0)
    }

    /// How often a value was found.
    pub fn found(&self) -> u64 {
        self.found
    }

    /// When nothing has come for a while: what is held back goes out, such as the end of a prompt, unless more than `at_most` bytes of what
    /// may be a value were shown by that. Values that are whole are replaced. What went out is not forgotten: when it turns out to be the
    /// beginning of a value, the rest is replaced, and no more than `at_most` bytes of a value are ever shown, however slowly it comes.
    pub fn release(&mut self, at_most: usize, out: &mut Vec<u8>) {
        let shown = self.kept.len() - self.spent.0 - self.regions.covered_from(self.spent.0);
        if shown <= at_most {
            self.flush(self.kept.len(), &[], 0, &mut |part| append(part, &[], out));
        }
    }

    /// Looks for other values from now on, and for those in what is held back. What was found by then stays replaced.
    pub fn learn(&mut self, known: Known, out: &mut Vec<u8>) {
        let kept = self.kept.split_off(self.spent.0);
        let (regions, gone) = (std::mem::take(&mut self.regions), self.gone);
        let spent = self.restart();
        (self.known, self.regions, self.gone) = (known, regions, gone);
        self.count_from(spent);
        self.feed(&kept, &mut |part| append(part, &kept, out));
    }

    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Part<'_>)) {
        if self.known.is_empty() && self.kept.is_empty() && self.gone == 0 && self.regions.first().is_none() {
            return sink(Part::Given(0..bytes.len()));
        }
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            self.view.extend(piece, self.known.run());
            self.read();
            let begun = self.read - self.place.depth as usize;
            let end = self.kept.len() + piece.len();
            let start = if begun == self.view.bytes.len() { end } else { self.view.place(begun) };
            self.flush(start, piece, index * PIECE, sink);
            self.keep(piece, start, begun);
        }
    }

    /// Reads the view to its end.
    fn read(&mut self) {
        let known = self.known.clone();
        let automaton = known.automaton();
        loop {
            if self.place.depth == 0 {
                let Some((position, node)) = automaton.starts.find(&self.view.bytes, self.read) else {
                    self.read = self.view.bytes.len() - automaton.beginning(&self.view.bytes[self.read..]);
                    return;
                };
                self.place = Place { node, depth: GRAM as u32 };
                self.read = position + GRAM;
            }
            loop {
                let Some(byte) = self.view.bytes.get(self.read) else { return };
                let next = automaton.step(self.place, *byte).and_then(|place| {
                    self.read += 1;
                    if automaton.has(place.node, ENDS) {
                        self.find(&known, place.node);
                    }
                    automaton.settled(place)
                });
                self.place = next.unwrap_or_default();
                // Nothing that is four bytes long is a beginning; what is shorter may become one.
                if next.is_none() {
                    self.read -= GRAM - 1;
                    break;
                }
            }
        }
    }

    /// Something ends at this node. The longest counts; what is broken into lines counts only if it may be.
    fn find(&mut self, known: &Known, node: u32) {
        for end in known.automaton().ends(node) {
            let length = end.length as usize;
            let region = self.view.place(self.read - length)..self.view.place(self.read - 1) + 1;
            if end.folds || region.len() == length {
                self.found += 1;
                self.regions.insert(Region { start: region.start, end: region.end, replacement: known.replacement(end.value) });
                return;
            }
        }
    }

    /// Everything before `limit` is certain, and goes out. `piece` follows what is kept, and begins at `offset` of what was given.
    fn flush(&mut self, limit: usize, piece: &[u8], offset: usize, sink: &mut dyn FnMut(Part<'_>)) {
        let clean = |range: Range<usize>, sink: &mut dyn FnMut(Part<'_>)| {
            let kept = self.kept.len();
            if range.start < kept.min(range.end) {
                sink(Part::Other(&self.kept[range.start..kept.min(range.end)]));
            }
            if range.end > range.start.max(kept) {
                debug_assert!(range.end - kept <= piece.len());
                sink(Part::Given(offset + range.start.max(kept) - kept..offset + range.end - kept));
            }
        };
        while let Some(region) = self.regions.first().filter(|region| region.start < limit) {
            clean(self.gone..region.start, sink);
            // What is in it never goes out, and where it ends may not be certain.
            if region.end > limit {
                self.gone = self.gone.max(limit);
                return;
            }
            if region.end > self.gone {
                self.gone = region.end;
                sink(Part::Other(region.replacement.as_bytes()));
            }
            self.regions.remove_first();
        }
        clean(self.gone..limit, sink);
        self.gone = self.gone.max(limit);
    }

    /// Keeps what may be a beginning. Much of it is not moved for every byte that comes.
    fn keep(&mut self, piece: &[u8], start: usize, begun: usize) {
        self.spent = (start, begun);
        match start.checked_sub(self.kept.len()) {
            Some(from) => {
                self.kept.clear();
                self.kept.extend_from_slice(&piece[from..]);
            }
            None => {
                self.kept.extend_from_slice(piece);
                if start <= self.kept.len() / 2 {
                    return;
                }
                self.kept.drain(..start);
            }
        }
        self.view.forget(begun);
        self.read -= begun;
        self.spent = (0, 0);
        self.count_from(start);
    }

    /// Positions count from there from now on.
    fn count_from(&mut self, start: usize) {
        self.regions.shift(start);
        self.gone = self.gone.saturating_sub(start);
    }

    /// As at the beginning of a stream; says from where positions have counted.
    fn restart(&mut self) -> usize {
        self.kept.clear();
        self.view.clear();
        self.regions = Regions::default();
        (self.read, self.gone, self.place) = (0, 0, Place::default());
        std::mem::take(&mut self.spent).0
    }
}

fn append(part: Part<'_>, given: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(match part {
        Part::Given(range) => &given[range],
        Part::Other(other) => other,
    });
}
