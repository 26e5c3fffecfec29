//! What has to come out.

use crate::trie::Pattern;

pub struct Reference<'a> {
    pub patterns: &'a [Pattern],
    pub replacements: &'a [String],
    pub run: usize,
}

impl Reference<'_> {
    /// The text without its values, and how many times one was replaced.
    pub fn redact(&self, text: &[u8]) -> (Vec<u8>, u64) {
        let view = self.view(text);
        let mut spans: Vec<(usize, usize, u32)> = (0..view.len()).filter_map(|from| self.longest(&view[from..])).collect();
        spans.sort_by_key(|(start, end, _)| (*start, usize::MAX - end));
        let mut merged: Vec<(usize, usize, u32)> = Vec::new();
        for (start, end, value) in spans {
            match merged.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end, value)),
            }
        }
        let (mut out, mut from) = (Vec::new(), 0);
        for (start, end, value) in &merged {
            out.extend_from_slice(&text[from..*start]);
            out.extend_from_slice(self.replacements[*value as usize].as_bytes());
            from = *end;
        }
        out.extend_from_slice(&text[from..]);
        (out, merged.len() as u64)
    }

    /// The bytes that are looked at, with where they stand.
    fn view(&self, text: &[u8]) -> Vec<(u8, usize)> {
        let (mut view, mut run) = (Vec::new(), 0);
        for (at, byte) in text.iter().enumerate() {
            if !matches!(byte, b'\n' | b'\r') {
                run = 0;
                view.push((*byte, at));
            } else if run < self.run {
                run += 1;
            } else {
                view.push((*byte, at));
            }
        }
        view
    }

    fn longest(&self, view: &[(u8, usize)]) -> Option<(usize, usize, u32)> {
        let fits = |pattern: &&Pattern| {
            let length = pattern.bytes.len();
            length <= view.len()
                && view.iter().zip(&pattern.bytes).all(|((one, _), other)| one == other)
                && (pattern.folds || view[length - 1].1 + 1 - view[0].1 == length)
        };
        // The first of those that are the same decides, and `max_by_key` takes the last.
        let pattern = self.patterns.iter().rev().filter(fits).max_by_key(|pattern| pattern.bytes.len())?;
        Some((view[0].1, view[pattern.bytes.len() - 1].1 + 1, pattern.value))
    }
}
