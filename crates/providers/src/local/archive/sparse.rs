//! Files with holes: where their bytes are. What is not there is not carried, because a file may claim to be longer than any disk.

use std::fmt::Write;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::entry::BLOCK;

/// More are never told apart: in a file that is full of holes the smaller ones are carried as zeroes.
pub const MOST: usize = 4096;
/// A hole that is worth it.
const SMALLEST: u64 = 64 << 10;
/// The map of so many, in digits.
pub const LARGEST_MAP: u64 = (MOST as u64 + 1) * 2 * 21;

/// Where something lies, and how much.
pub type Extent = (u64, u64);

/// Where a file has bytes; none when it has them everywhere.
pub fn extents(file: &OwnedFd, size: u64) -> io::Result<Option<Vec<Extent>>> {
    let mut smallest = SMALLEST;
    loop {
        if let Some(found) = told_apart(file, size, smallest)? {
            return Ok((found != [(0, size)] && size > 0).then_some(found));
        }
        smallest *= 4;
    }
}

/// None when there are too many with holes as small as that between them.
fn told_apart(file: &OwnedFd, size: u64, smallest: u64) -> io::Result<Option<Vec<Extent>>> {
    let mut found: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.min(size),
            Err(Errno::NXIO) => break,
            // A file system that knows no holes.
            Err(Errno::INVAL) => return Ok(Some(vec![(0, size)])),
            Err(error) => return Err(error.into()),
        };
        if start >= size {
            break;
        }
        let end = seek(file, SeekFrom::Hole(start))?.min(size);
        match found.last().copied() {
            Some((begun, length)) if start - (begun + length) < smallest => {
                found.pop();
                found.push((begun, end - begun));
            }
            None if start < smallest => found.push((0, end)),
            _ if found.len() == MOST => return Ok(None),
            _ => found.push((start, end - start)),
        }
        at = end;
    }
    Ok(Some(found))
}

/// As tar writes it before the bytes: decimal numbers, one a line, filled up to whole blocks.
pub fn write(extents: &[Extent]) -> Vec<u8> {
    let mut text = format!("{}\n", extents.len());
    for (offset, length) in extents {
        // Into a text nothing fails.
        let _ = write!(text, "{offset}\n{length}\n");
    }
    let mut map = text.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// Reads a map from what `line` gives. Extents come one after the other within the file, and are as much as follows.
pub fn read(whole: u64, mut line: impl FnMut() -> Option<u64>) -> Option<Vec<Extent>> {
    let count = line()?;
    if count > MOST as u64 {
        return None;
    }
    let mut found = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let (offset, length) = (line()?, line()?);
        if offset < end || offset.checked_add(length)? > whole {
            return None;
        }
        end = offset + length;
        found.push((offset, length));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    fn numbers(map: &[u8]) -> impl FnMut() -> Option<u64> {
        let text = String::from_utf8(map.to_vec()).unwrap();
        let numbers: Vec<u64> = text.trim_end_matches('\0').lines().map(|line| line.parse().unwrap()).collect();
        let mut numbers = numbers.into_iter();
        move || numbers.next()
    }

    #[test]
    fn holes_are_found_and_told() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = File::options().create_new(true).read(true).write(true).open(directory.path().join("file")).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(&[7; 4096], 1 << 30).unwrap();
        file.write_all_at(&[7; 4096], 1 << 39).unwrap();
        let found = extents(&OwnedFd::from(file.try_clone().unwrap()), 1 << 40).unwrap().unwrap();
        assert_eq!(found, [(1 << 30, 4096), (1 << 39, 4096)]);
        assert_eq!(read(1 << 40, numbers(&write(&found))).unwrap(), found);
        file.set_len(0).unwrap();
        file.write_all_at(&[7; 10_000], 0).unwrap();
        assert_eq!(extents(&OwnedFd::from(file), 10_000).unwrap(), None);
    }

    #[test]
    fn a_map_that_lies_is_refused() {
        for (map, why) in
            [("1\n5\n6\n", "beyond the end"), ("2\n4\n2\n3\n1\n", "backwards"), ("2\n0\n1\n", "too short"), ("9999999\n", "too many")]
        {
            assert_eq!(read(10, numbers(map.as_bytes())), None, "{why}");
        }
        assert_eq!(read(10, numbers(b"1\n18446744073709551615\n2\n")), None);
    }
}
