//! A [`GrepLine`](stead_domain::files::GrepLine) with a line, written as it is: there may be millions of them, and what is the same for all
//! lines of a file is written once.

use std::io::{self, Write};

use stead_domain::files::FilePath;
use stead_domain::hexadecimal;

/// What is shown of a line at most.
const LONGEST_LINE: usize = 32 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Match,
    Context,
}

pub struct Line<'l> {
    number: u64,
    offset: u64,
    pub shown: &'l [u8],
    cut: bool,
}

impl<'l> Line<'l> {
    /// Of the bytes of a line, those before its end.
    pub fn new(number: u64, offset: u64, bytes: &'l [u8]) -> Self {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Self { number, offset, shown: &line[..line.len().min(LONGEST_LINE)], cut: line.len() > LONGEST_LINE }
    }
}

/// Writes the lines of one file.
pub struct LineWriter {
    path: FilePath,
    /// How each line goes on after its type, up to the number; empty until there is one.
    same: Vec<u8>,
}

impl LineWriter {
    pub fn new(path: FilePath) -> Self {
        Self { path, same: Vec::new() }
    }

    pub fn write(&mut self, out: &mut Vec<u8>, kind: Kind, line: &Line<'_>, ranges: &[[u64; 2]]) -> io::Result<()> {
        if self.same.is_empty() {
            self.same = same(&self.path)?;
        }
        out.extend_from_slice(match kind {
            Kind::Match => br#"{"type":"match""#,
            Kind::Context => br#"{"type":"context""#,
        });
        out.extend_from_slice(&self.same);
        serde_json::to_writer(&mut *out, &line.number)?;
        out.extend_from_slice(br#","offset":"#);
        serde_json::to_writer(&mut *out, &line.offset)?;
        out.extend_from_slice(br#","text":"#);
        match std::str::from_utf8(line.shown) {
            Ok(text) => quote(out, text)?,
            Err(_) => {
                quote(out, &String::from_utf8_lossy(line.shown))?;
                write!(out, r#","text_bytes":"{}""#, hexadecimal::write(line.shown))?;
            }
        }
        if line.cut {
            out.extend_from_slice(br#","cut":true"#);
        }
        if !ranges.is_empty() {
            out.extend_from_slice(br#","ranges":"#);
            serde_json::to_writer(&mut *out, ranges)?;
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }
}

fn same(path: &FilePath) -> io::Result<Vec<u8>> {
    let (shown, bytes) = path.shown();
    let mut same = br#","path":"#.to_vec();
    serde_json::to_writer(&mut same, &shown)?;
    if let Some(bytes) = bytes {
        write!(same, r#","path_bytes":"{bytes}""#)?;
    }
    same.extend_from_slice(br#","line_number":"#);
    Ok(same)
}

/// A text in quotes. Most have nothing in them that must be written differently, and to see that is much faster than to look for it.
fn quote(out: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let is_plain = text.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
    if !is_plain {
        return Ok(serde_json::to_writer(out, text)?);
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stead_domain::files::GrepLine;

    use super::*;

    fn written(path: &[u8], kind: Kind, bytes: &[u8], ranges: &[[u64; 2]]) -> serde_json::Value {
        let mut out = Vec::new();
        let mut writer = LineWriter::new(FilePath::found(path));
        // The second is like the first.
        for _ in 0..2 {
            writer.write(&mut out, kind, &Line::new(7, 99, bytes), ranges).unwrap();
        }
        let lines: Vec<&[u8]> = out.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!((lines.len(), lines[0]), (2, lines[1]));
        let read: serde_json::Value = serde_json::from_slice(lines[0]).unwrap();
        // It is what the type says, in every field and in their order.
        let typed: GrepLine = serde_json::from_value(read.clone()).unwrap();
        assert_eq!(serde_json::to_vec(&typed).unwrap(), lines[0].strip_suffix(b"\n").unwrap());
        read
    }

    #[test]
    fn a_line_says_everything_that_is_known_of_it_and_no_more() {
        let plain = written(b"a/b", Kind::Match, b"a plain one\r\n", &[[2, 7]]);
        let expected =
            serde_json::json!({"type": "match", "path": "a/b", "line_number": 7, "offset": 99, "text": "a plain one", "ranges": [[2, 7]]});
        assert_eq!(plain, expected);
        let strange = written(b"\xff", Kind::Context, b"\xfe\"", &[]);
        assert_eq!((&strange["path_bytes"], &strange["text_bytes"]), (&"ff".into(), &"fe22".into()), "{strange}");
        let long = written(b"long", Kind::Context, &[b'x'; LONGEST_LINE + 1], &[]);
        assert_eq!((&long["cut"], long["text"].as_str().unwrap().len()), (&true.into(), LONGEST_LINE));
    }

    proptest! {
        #[test]
        fn whatever_a_line_holds_is_said_as_the_type_says_it(path in prop::collection::vec(1..=255_u8, 1..20), line in prop::collection::vec(any::<u8>(), 0..200), text in ".*") {
            written(&path, Kind::Match, &line, &[[0, 1], [3, 4]]);
            let told = written(b"x", Kind::Context, text.as_bytes(), &[]);
            let expected = text.strip_suffix('\n').unwrap_or(&text);
            prop_assert_eq!(told["text"].as_str().unwrap(), expected.strip_suffix('\r').unwrap_or(expected));
        }
    }
}
