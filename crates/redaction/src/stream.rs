//! One stream, cut into pieces anywhere.

use std::fmt;
use std::ops::Range;

use zeroize::Zeroize;

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
/// Only what may be the beginning of one is held back. Bytes that went out already but may still turn out to be a beginning are kept too.
/// Positions count from the beginning of the stream.
pub struct Redactor {
    known: Known,
    /// The end of the stream, from the first byte on that may be the beginning of a value; and where that is.
    kept: Vec<u8>,
    kept_at: usize,
    /// The same without line breaks.
    view: View,
    regions: Regions,
    /// Up to there everything went out.
    gone: usize,
    replaced: u64,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Redactor").field("known", &self.known).field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Drop for Redactor {
    fn drop(&mut self) {
        self.kept.zeroize();
        self.view.bytes.zeroize();
    }
}

impl Redactor {
    pub fn new(known: Known) -> Self {
        Self { known, kept: Vec::new(), kept_at: 0, view: View::default(), regions: Regions::default(), gone: 0, replaced: 0 }
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
        self.flush(self.kept_at + self.kept.len(), &[], 0, &mut |part| append(part, &[], out));
        self.kept.clear();
        self.view.clear();
        self.regions = Regions::default();
        (self.kept_at, self.gone) = (0, 0);
    }

    /// Bytes that came and are not yet told.
    pub fn held(&self) -> usize {
        (self.kept_at + self.kept.len()).saturating_sub(self.gone)
    }

    /// How often a value was replaced, or is going to be.
    pub fn found(&self) -> u64 {
        self.replaced + self.regions.after(self.gone) as u64
    }

    /// When nothing has come for a while: what is held back goes out, such as the end of a prompt, unless more than `at_most` bytes of what
    /// may be a value were shown by that. Values that are whole are replaced. What went out is not forgotten: when it turns out to be the
    /// beginning of a value, the rest is replaced, and no more than `at_most` bytes of a value are ever shown, however slowly it comes.
    pub fn release(&mut self, at_most: usize, out: &mut Vec<u8>) {
        if self.kept.len() - self.regions.covered_from(self.kept_at) <= at_most {
            self.flush(self.kept_at + self.kept.len(), &[], 0, &mut |part| append(part, &[], out));
        }
    }

    /// Looks for other values from now on, and for those in what is held back. What was found by then stays replaced.
    pub fn learn(&mut self, known: Known, out: &mut Vec<u8>) {
        self.known = known;
        let mut kept = std::mem::take(&mut self.kept);
        self.view.clear();
        self.take_in(&kept, 0, &mut |part| append(part, &kept, out));
        kept.zeroize();
    }

    fn feed(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Part<'_>)) {
        if self.known.is_empty() && self.kept.is_empty() {
            return sink(Part::Given(0..bytes.len()));
        }
        for (index, piece) in bytes.chunks(PIECE).enumerate() {
            self.take_in(piece, index * PIECE, sink);
        }
    }

    fn take_in(&mut self, piece: &[u8], offset: usize, sink: &mut dyn FnMut(Part<'_>)) {
        self.view.extend(piece, self.known.run());
        let begun = self.look_through();
        let start = if begun == self.view.bytes.len() { self.kept.len() + piece.len() } else { self.view.place(begun) };
        self.flush(self.kept_at + start, piece, offset, sink);
        match start.checked_sub(self.kept.len()) {
            Some(from) => {
                self.kept.clear();
                self.kept.extend_from_slice(&piece[from..]);
            }
            None => {
                self.kept.drain(..start);
                self.kept.extend_from_slice(piece);
            }
        }
        self.kept_at += start;
        self.view.forget(begun);
    }

    /// Finds what there is in the view, and says from where on it may be the beginning of more.
    fn look_through(&mut self) -> usize {
        let known = self.known.clone();
        let (trie, view) = (known.trie(), &self.view);
        let (mut from, mut begun) = (0, None);
        while let Some((position, node)) = trie.starts.find(&view.bytes, from) {
            let mut longest = None;
            let goes_on = trie.walk(&view.bytes[position..], node, |length, end| {
                let (start, until) = (view.place(position), view.place(position + length - 1) + 1);
                if end.folds || until - start == length {
                    longest = Some((start..until, end.value));
                }
            });
            if let Some((span, value)) = longest {
                let (start, end) = (self.kept_at + span.start, self.kept_at + span.end);
                self.regions.insert(Region { start, end, replacement: known.replacement(value) });
            }
            if goes_on && begun.is_none() {
                begun = Some(position);
            }
            from = position + 1;
        }
        let rest = &view.bytes[from.max((view.bytes.len() + 1).saturating_sub(GRAM)).min(view.bytes.len())..];
        begun.unwrap_or(view.bytes.len() - trie.beginning(rest))
    }

    /// Everything before `limit` is certain, and goes out. `piece` follows what is kept, and begins at `offset` of what was given.
    fn flush(&mut self, limit: usize, piece: &[u8], offset: usize, sink: &mut dyn FnMut(Part<'_>)) {
        let (kept_at, given_at) = (self.kept_at, self.kept_at + self.kept.len());
        let clean = |range: Range<usize>, sink: &mut dyn FnMut(Part<'_>)| {
            if range.start < given_at.min(range.end) {
                sink(Part::Other(&self.kept[range.start - kept_at..given_at.min(range.end) - kept_at]));
            }
            if range.end > range.start.max(given_at) {
                debug_assert!(range.end - given_at <= piece.len());
                sink(Part::Given(offset + range.start.max(given_at) - given_at..offset + range.end - given_at));
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
                self.replaced += 1;
                sink(Part::Other(region.replacement.as_bytes()));
            }
            self.regions.remove_first();
        }
        clean(self.gone..limit, sink);
        self.gone = self.gone.max(limit);
    }
}

fn append(part: Part<'_>, given: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(match part {
        Part::Given(range) => &given[range],
        Part::Other(other) => other,
    });
}
