//! Files that become later segments: whoever reads, and whenever the writer was killed, finds what was written or a gap, and never anything
//! else, although the program that is logged knows the format and prints frames of its own making.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use stead_domain::Timestamp;
use stead_domain::ids::ProcessId;
use stead_domain::process::OutputStream;
use tempfile::TempDir;

use super::Kind;
use super::frame::Header;
use super::reader::{Piece, last_words, read};
use super::segments;
use super::writer::{Caps, LogWriter};

const CAPS: Caps = Caps { segment: 1000, total: 8000 };
const STDOUT: Kind = Kind::Output(OutputStream::Stdout);

fn process() -> ProcessId {
    ProcessId::new(&stead_testing::context(1).0)
}

fn at() -> Timestamp {
    Timestamp::from_microseconds(1_000_000)
}

/// A frame that nobody wrote, with more output from further on: 40 bytes.
fn forged(offset: u64) -> Vec<u8> {
    let words = b"never said..".as_slice();
    [Header::new(None, STDOUT, offset + 100_000, at(), words).to_bytes().as_slice(), words].concat()
}

/// Reads from an offset on and compares with everything that was ever appended; how far that goes.
fn compare(directory: &Path, from: usize, all: &[u8]) -> usize {
    let found = read(directory, process(), from as u64, None, None, 20_000).unwrap().unwrap();
    let mut reached = from;
    for piece in found.pieces {
        match piece {
            Piece::Bytes { offset, bytes, .. } => {
                assert_eq!(offset as usize, reached);
                assert_eq!(bytes, &all[reached..reached + bytes.len()], "from {from}, at {reached}");
                reached += bytes.len();
            }
            Piece::Gap { from, to } => {
                assert_eq!(from as usize, reached);
                reached = to as usize;
            }
        }
    }
    assert_eq!(found.next as usize, reached);
    assert!(reached <= all.len().max(from));
    assert!(last_words(directory, process()).unwrap().is_some_and(|words| words.exit.is_none()));
    reached
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let segments = segments::list(directory, process()).unwrap();
    segments.into_iter().map(|segment| (segment.path.clone(), fs::read(&segment.path).unwrap())).collect()
}

#[test]
fn a_writer_that_is_killed_while_it_takes_a_file_over_leaves_what_came_before() {
    let directory = TempDir::new().unwrap();
    let mut log = LogWriter::create(directory.path(), process(), CAPS).unwrap();
    let mut all = Vec::new();
    let mut taken_over = 0;
    for round in 0..60 {
        let before = files(directory.path());
        // Its frames are a little shorter each time that it comes round: behind one of them then lies the end of an older one, and that is
        // a frame of the program's own making.
        let length = if (round / 18) % 2 == 0 { 330 } else { 290 };
        let piece: Vec<u8> = (0..length / 40 + 1).flat_map(|_| forged(log.end())).collect::<Vec<u8>>().split_off(40 - length % 40);
        log.append(STDOUT, at(), &piece).unwrap();
        let (known, after) = (all.len(), files(directory.path()));
        all.extend(piece);
        let Some((old, _)) = before.iter().find(|(path, _)| !after.contains_key(*path)) else { continue };
        let (path, new) = after.iter().find(|(path, _)| !before.contains_key(*path)).unwrap();
        let old = &before[old];
        taken_over += 1;
        let file = File::options().write(true).open(path).unwrap();
        // Any part of what was to be written is there, and then what the file was before.
        let changed = new.iter().zip(old).rposition(|(new, old)| new != old).unwrap() + 1;
        for written in (0..=changed + 1).filter(|written| *written < 100 || *written + 50 > changed || written % 13 == 0) {
            let torn: Vec<u8> = new[..written].iter().chain(old.get(written..).unwrap_or_default()).copied().collect();
            file.write_all_at(&torn, 0).unwrap();
            let whole = torn == *new;
            assert_eq!(compare(directory.path(), 0, &all), if whole { all.len() } else { known }, "{written} bytes");
        }
        // And after a power cut, pages in any order.
        for pages in 0u32..64 {
            let mixed: Vec<u8> = (0..new.len()).map(|at| if pages >> (at / 64 % 6) & 1 == 1 { new[at] } else { old[at] }).collect();
            file.write_all_at(&mixed, 0).unwrap();
            compare(directory.path(), 0, &all);
        }
        file.write_all_at(new, 0).unwrap();
        for from in (0..all.len()).step_by(997) {
            assert_eq!(compare(directory.path(), from, &all), all.len());
        }
    }
    assert!(taken_over > 5, "{taken_over}");
}

#[test]
fn who_reads_while_files_become_others_gets_what_was_written_or_a_gap() {
    /// Each byte follows from where it stands.
    fn byte(offset: u64) -> u8 {
        let line = offset / 8;
        line.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[(offset % 8) as usize]
    }
    let directory = TempDir::new().unwrap();
    let mut log = LogWriter::create(directory.path(), process(), CAPS).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = [100, 700, 3000]
            .into_iter()
            .map(|step| {
                let (done, directory) = (&done, directory.path());
                scope.spawn(move || {
                    let (mut next, mut near) = (0, None);
                    loop {
                        // Whatever was written before this is found, whatever is given up meanwhile.
                        let last = done.load(Ordering::Acquire);
                        let found = read(directory, process(), next, near, None, step).unwrap().unwrap();
                        let before = next;
                        for piece in found.pieces {
                            match piece {
                                Piece::Bytes { offset, bytes, .. } => {
                                    assert_eq!(offset, next);
                                    let expected: Vec<u8> = (offset..offset + bytes.len() as u64).map(byte).collect();
                                    assert_eq!(bytes, expected, "at {offset}");
                                    next += bytes.len() as u64;
                                }
                                Piece::Gap { from, to } => {
                                    assert_eq!(from, next);
                                    next = to;
                                }
                            }
                        }
                        assert_eq!(found.next, next);
                        near = found.mark;
                        if last && next == before {
                            return next;
                        }
                    }
                })
            })
            .collect();
        for round in 0..40_000u64 {
            let bytes: Vec<u8> = (log.end()..log.end() + 100 + round % 350).map(byte).collect();
            log.append(STDOUT, at(), &bytes).unwrap();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), log.end());
        }
    });
}
