//! The journal read in pieces, oldest first. A position is good for as long as the line before it is kept.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

use super::{Entry, paths};

/// Which file, and where in it. A file keeps its number when it becomes the older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    file: u64,
    offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.file, self.offset)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (file, offset) = text.split_once('.').ok_or(())?;
        Ok(Self { file: file.parse().map_err(drop)?, offset: offset.parse().map_err(drop)? })
    }
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest line that is kept.
    Oldest,
    /// With the line after this. If it is no longer kept, with the oldest.
    After(Position),
    /// With as many of the latest as are asked for.
    Latest,
}

#[derive(Clone, Debug, Default)]
pub struct Piece {
    pub entries: Vec<Entry>,
    /// Where the next piece begins, now or when there is more; none while nothing was ever written.
    pub next: Option<Position>,
    /// More is there already.
    pub has_more: bool,
}

/// At most `limit` lines about an environment.
pub fn read_piece(directory: &Path, environment: &str, start: Start, limit: usize) -> io::Result<Piece> {
    let files = open(directory, environment)?;
    let first = match start {
        Start::After(position) => files.iter().position(|(file, _)| *file == position.file).map(|at| (at, position.offset)),
        Start::Oldest | Start::Latest => None,
    };
    let (skipped, mut offset) = first.unwrap_or((0, 0));
    let mut entries = VecDeque::new();
    let mut next = None;
    for (number, file) in files.into_iter().skip(skipped) {
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(offset))?;
        next = Some(Position { file: number, offset });
        loop {
            let mut line = Vec::new();
            let length = reader.read_until(b'\n', &mut line)?;
            // What does not end yet is still being written, or was cut off by a crash.
            if line.last() != Some(&b'\n') {
                break;
            }
            if let Ok(entry) = serde_json::from_slice(&line) {
                if entries.len() == limit && start != Start::Latest {
                    return Ok(Piece { entries: entries.into(), next, has_more: true });
                }
                entries.push_back(entry);
                if entries.len() > limit {
                    entries.pop_front();
                }
            }
            offset += length as u64;
            next = Some(Position { file: number, offset });
        }
        offset = 0;
    }
    Ok(Piece { entries: entries.into(), next, has_more: false })
}

/// The files that are there, the older one first, each with its number.
fn open(directory: &Path, environment: &str) -> io::Result<Vec<(u64, File)>> {
    let mut files: Vec<(u64, File)> = Vec::new();
    for path in paths(directory, environment) {
        match File::open(path) {
            Ok(file) => {
                let number = file.metadata()?.ino();
                // It became the older one between the two looks.
                if files.iter().all(|(known, _)| *known != number) {
                    files.push((number, file));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;
    use crate::journal::files::Files;
    use crate::journal::{Decision, JournalOptions};
    use crate::sniff::Protocol;

    #[test]
    fn pieces_join_also_across_files_and_a_follower_misses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::new(JournalOptions { directory: directory.path().to_owned(), largest_file: 2000 });
        let environment: Arc<str> = "env_1".into();
        assert!(read_piece(directory.path(), "env_1", Start::Oldest, 10).unwrap().next.is_none());
        let mut start = Start::Oldest;
        let mut seen = Vec::new();
        for number in 0..100 {
            files.append(&[(environment.clone(), Entry::new("a.example", number, Protocol::Tcp, Decision::Allowed))]).unwrap();
            let piece = read_piece(directory.path(), "env_1", start, 3).unwrap();
            assert!(!piece.has_more);
            seen.extend(piece.entries.iter().map(|entry| entry.port));
            let next = piece.next.unwrap();
            assert_eq!(next.to_string().parse(), Ok(next));
            start = Start::After(next);
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        let latest = read_piece(directory.path(), "env_1", Start::Latest, 3).unwrap();
        assert_eq!(latest.entries.iter().map(|entry| entry.port).collect::<Vec<_>>(), [97, 98, 99]);
        assert_eq!(Start::After(latest.next.unwrap()), start);
        let (mut kept, mut start) = (Vec::new(), Start::Oldest);
        loop {
            let piece = read_piece(directory.path(), "env_1", start, 4).unwrap();
            kept.extend(piece.entries.iter().map(|entry| entry.port));
            if !piece.has_more {
                break;
            }
            start = Start::After(piece.next.unwrap());
        }
        assert_eq!(kept.last(), Some(&99));
        assert!(kept.len() > 10 && kept.windows(2).all(|pair| pair[1] == pair[0] + 1));
        // A line that is not finished is not told, and told once it is.
        let [_, current] = paths(directory.path(), "env_1");
        let mut half = std::fs::OpenOptions::new().append(true).open(current).unwrap();
        half.write_all(b"{").unwrap();
        assert!(read_piece(directory.path(), "env_1", start, 4).unwrap().entries.len() <= 4);
    }
}
