//! Values that are known, and what can be done with them at once.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::trie::{Pattern, Trie};
use crate::{Detector, Redactor, forms, parts, view};

/// The shortest value that is looked for. A shorter one would be found in places that have nothing to do with it: logs would be ruined, and
/// would tell the value to whoever sees where.
pub const SHORTEST: usize = 6;

/// The fewest different bytes of a value that is looked for. What has fewer is a ruler, a row of zeros, or no secret.
const FEWEST_DIFFERENT: usize = 4;

/// Line breaks in a row that are looked past, if no value has more: one, as it is written on any system.
const LONGEST_RUN: usize = 2;

/// A value, and what is to stand in its place.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    pub replacement: &'a str,
    pub bytes: &'a [u8],
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Value").field("replacement", &self.replacement).finish_non_exhaustive()
    }
}

/// Values in all their forms. A clone is the same one.
#[derive(Clone)]
pub struct Known(Arc<Inner>);

struct Inner {
    trie: Trie,
    replacements: Vec<Arc<str>>,
    patterns: usize,
    longest: usize,
    run: usize,
}

impl fmt::Debug for Known {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { replacements, patterns, .. } = &*self.0;
        formatter.debug_struct("Known").field("values", &replacements.len()).field("patterns", patterns).finish_non_exhaustive()
    }
}

impl Default for Known {
    fn default() -> Self {
        Self::new([])
    }
}

impl Known {
    /// Values that are weak are left out. Of two with the same bytes, the first names both.
    pub fn new<'a>(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        let values: Vec<Value<'a>> = values.into_iter().filter(|value| !Self::is_weak(value.bytes)).collect();
        let run = values.iter().map(|value| 2 * view::longest_run(value.bytes)).max().unwrap_or_default().max(LONGEST_RUN);
        let replacements: Vec<Arc<str>> = values.iter().map(|value| value.replacement.into()).collect();
        let known = Self::of(patterns(&values), replacements.clone(), run);
        let own = known.own(&values);
        if own.is_empty() {
            return known;
        }
        Self::of([own, patterns(&values)].into_iter().flatten().collect(), replacements, run)
    }

    /// A replacement may hold a value, such as the word "secret". It is known too, as what it is, and so it stays.
    fn own(&self, values: &[Value<'_>]) -> Vec<Pattern> {
        let holds = |(_, value): &(u32, &Value<'_>)| self.contains(value.replacement.as_bytes());
        (0..).zip(values).filter(holds).map(itself).collect()
    }

    /// All patterns, those that decide first.
    #[cfg(test)]
    pub(crate) fn looked_for(&self, values: &[Value<'_>]) -> Vec<Pattern> {
        [self.own(values), patterns(values)].into_iter().flatten().collect()
    }

    fn of(patterns: Vec<Pattern>, replacements: Vec<Arc<str>>, run: usize) -> Self {
        let longest = patterns.iter().map(|pattern| pattern.bytes.len()).max().unwrap_or_default() * (1 + run);
        let count = patterns.len();
        Self(Arc::new(Inner { trie: Trie::new(patterns), replacements, patterns: count, longest, run }))
    }

    /// Whether a value is not looked for, because it is shorter than six bytes, line breaks and white space around it not counted, or has
    /// fewer than four different ones. Whoever stores one is to be told.
    pub fn is_weak(value: &[u8]) -> bool {
        let bare = view::without_breaks(value.trim_ascii());
        let mut different = bare.clone();
        different.sort_unstable();
        different.dedup();
        bare.len() < SHORTEST || different.len() < FEWEST_DIFFERENT
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.0.patterns == 0
    }

    /// The most bytes that something to be replaced takes: the longest form, with a line break wherever one is looked past.
    pub fn longest(&self) -> usize {
        self.0.longest
    }

    /// The bytes of memory that it takes, however many clones there are.
    pub fn size(&self) -> usize {
        self.0.trie.size() + self.0.replacements.iter().map(|replacement| replacement.len() + size_of::<Arc<str>>()).sum::<usize>()
    }

    /// A whole text without its values.
    pub fn redact<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let (mut redactor, mut out) = (Redactor::new(self.clone()), Vec::new());
        let clean = redactor.pass(bytes, &mut out);
        if redactor.found() == 0 {
            return Cow::Borrowed(bytes);
        }
        out.extend_from_slice(clean);
        redactor.finish(&mut out);
        Cow::Owned(out)
    }

    /// A whole text without its values. Where a value is no text and ends within a character, what is left of that is shown as unreadable.
    pub fn redact_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => {
                Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
            }
        }
    }

    /// Whether there is any value in it.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        Detector::new(self.clone()).push(bytes)
    }

    pub(crate) fn trie(&self) -> &Trie {
        &self.0.trie
    }

    pub(crate) fn run(&self) -> usize {
        self.0.run
    }

    pub(crate) fn replacement(&self, value: u32) -> Arc<str> {
        self.0.replacements[value as usize].clone()
    }
}

/// Values before parts of values: where both are the same, the name of the whole one is the better.
pub(crate) fn patterns(values: &[Value<'_>]) -> Vec<Pattern> {
    let (mut whole, mut of_parts) = (Vec::new(), Vec::new());
    for (number, value) in (0..).zip(values) {
        for (index, part) in parts::all(value.bytes).iter().enumerate() {
            let patterns = if index == 0 { &mut whole } else { &mut of_parts };
            for (piece, stands) in parts::pieces(part) {
                patterns.extend(forms::all(piece, stands).into_iter().map(|(bytes, folds)| Pattern { bytes, value: number, folds }));
            }
        }
    }
    whole.append(&mut of_parts);
    whole
}

fn itself((number, value): (u32, &Value<'_>)) -> Pattern {
    Pattern { bytes: view::without_breaks(value.replacement.as_bytes()), value: number, folds: false }
}
