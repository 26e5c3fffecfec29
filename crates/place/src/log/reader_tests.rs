use proptest::prelude::*;
use stead_domain::process::{ExitCause, ProcessUsage};
use tempfile::TempDir;

use super::super::writer::{Caps, LogWriter};
use super::*;

fn process() -> ProcessId {
    ProcessId::new(&stead_testing::context(1).0)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_microseconds(second * 1_000_000)
}

fn exit() -> ProcessExit {
    ProcessExit {
        cause: ExitCause::Exited,
        code: Some(3),
        signal: None,
        usage: ProcessUsage::default(),
        duration_ms: 7,
        ended_at: at(9),
        limits_hit: Vec::new(),
    }
}

fn words(directory: &Path) -> Option<(u64, Option<ProcessExit>, bool)> {
    last_words(directory, process()).unwrap().map(|words| (words.end, words.exit, words.closed))
}

fn text(found: &Found) -> Vec<u8> {
    let bytes = found.pieces.iter().filter_map(|piece| match piece {
        Piece::Bytes { bytes, .. } => Some(bytes.clone()),
        Piece::Gap { .. } => None,
    });
    bytes.collect::<Vec<_>>().concat()
}

#[test]
fn what_was_written_is_read_with_its_exit() {
    let directory = TempDir::new().unwrap();
    let logs = directory.path().join("made/when/needed");
    assert!(words(&logs).is_none());
    let mut log = LogWriter::create(&logs, process(), Caps::default()).unwrap();
    assert_eq!(words(&logs), Some((0, None, false)));
    log.append(Kind::Output(OutputStream::Stdout), at(1), b"one ").unwrap();
    log.append(Kind::Output(OutputStream::Stderr), at(2), b"two ").unwrap();
    log.exit(at(3), &exit()).unwrap();
    // A child that was left behind.
    log.append(Kind::Output(OutputStream::Stdout), at(4), b"three").unwrap();
    assert_eq!(words(&logs), Some((13, Some(exit()), false)));
    log.append(Kind::Closed, at(5), b"").unwrap();
    assert_eq!(words(&logs), Some((13, Some(exit()), true)));
    let all = read(&logs, process(), 0, None, None, 1000).unwrap().unwrap();
    assert_eq!((text(&all), all.next, all.pieces.len()), (b"one two three".to_vec(), 13, 3));
    let errors = read(&logs, process(), 2, None, Some(OutputStream::Stderr), 1000).unwrap().unwrap();
    assert_eq!((text(&errors), errors.next), (b"two ".to_vec(), 13));
    let beyond = read(&logs, process(), 99, None, None, 1000).unwrap().unwrap();
    assert_eq!((beyond.pieces, beyond.next), (Vec::new(), 99));
    assert!(LogWriter::create(&logs, process(), Caps::default()).is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists));
    segments::remove(&logs, process()).unwrap();
    assert_eq!(read(&logs, process(), 0, None, None, 1000).unwrap(), None);
}

#[test]
fn room_that_was_made_beforehand_is_nothing_that_was_said() {
    let directory = TempDir::new().unwrap();
    let logs = directory.path();
    let mut log = LogWriter::create(logs, process(), Caps::default()).unwrap();
    log.make_room();
    assert!(!log.is_dirty() && words(logs) == Some((0, None, false)));
    log.append(Kind::Output(OutputStream::Stdout), at(1), b"one ").unwrap();
    // Also when the program was faster.
    log.make_room();
    let first = read(logs, process(), 0, None, None, 1000).unwrap().unwrap();
    assert_eq!((text(&first), words(logs)), (b"one ".to_vec(), Some((4, None, false))));
    log.append(Kind::Output(OutputStream::Stderr), at(2), &[7; 10_000]).unwrap();
    log.make_room();
    log.exit(at(3), &exit()).unwrap();
    let rest = read(logs, process(), 4, first.mark, None, 1 << 20).unwrap().unwrap();
    assert_eq!((text(&rest), words(logs)), (vec![7; 10_000], Some((10_004, Some(exit()), false))));
}

#[test]
fn a_torn_frame_ends_what_can_be_read() {
    let directory = TempDir::new().unwrap();
    let mut log = LogWriter::create(directory.path(), process(), Caps::default()).unwrap();
    log.append(Kind::Output(OutputStream::Stdout), at(1), b"whole").unwrap();
    log.append(Kind::Output(OutputStream::Stdout), at(1), b"torn").unwrap();
    let path = segments::first(directory.path(), process());
    let length = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
    assert_eq!(text(&read(directory.path(), process(), 0, None, None, 1000).unwrap().unwrap()), b"whole");
    assert_eq!(words(directory.path()), Some((5, None, false)));
}

#[test]
fn past_the_cap_the_middle_goes_and_the_gap_is_told() {
    let directory = TempDir::new().unwrap();
    let caps = Caps { segment: 100, total: 800 };
    let mut log = LogWriter::create(directory.path(), process(), caps).unwrap();
    for number in 0..100u8 {
        log.append(Kind::Output(OutputStream::Stdout), at(1), &[number; 100]).unwrap();
    }
    log.exit(at(2), &exit()).unwrap();
    let kept: Vec<u64> = segments::list(directory.path(), process()).unwrap().iter().map(|segment| segment.begins).collect();
    assert!(kept.len() <= 8 && kept[..2] == [0, 100], "{kept:?}");
    let all = read(directory.path(), process(), 0, None, None, 1 << 20).unwrap().unwrap();
    let gaps: Vec<_> = all.pieces.iter().filter(|piece| matches!(piece, Piece::Gap { .. })).collect();
    assert_eq!(gaps, [&Piece::Gap { from: 200, to: kept[2] }]);
    assert_eq!(all.next, 10_000);
    let inside = read(directory.path(), process(), 250, None, None, 10).unwrap().unwrap();
    assert_eq!(inside.pieces[0], Piece::Gap { from: 250, to: kept[2] });
    assert_eq!(inside.next, kept[2] + 10);
    assert_eq!(words(directory.path()), Some((10_000, Some(exit()), false)));
}

#[test]
fn what_is_held_is_not_given_up() {
    let directory = TempDir::new().unwrap();
    let mut log = LogWriter::create(directory.path(), process(), Caps { segment: 100, total: 800 }).unwrap();
    let append = |log: &mut LogWriter| log.append(Kind::Output(OutputStream::Stdout), at(1), &[7; 100]).unwrap();
    let gap = || {
        read(directory.path(), process(), 0, None, None, 1 << 20).unwrap().unwrap().pieces.into_iter().find_map(|piece| match piece {
            Piece::Gap { from, to } => Some((from, to)),
            Piece::Bytes { .. } => None,
        })
    };
    log.hold(Some(0)).unwrap();
    while log.has_room() {
        append(&mut log);
    }
    assert_eq!((log.end(), gap()), (800, None));
    // What a program left in its pipes goes past the cap.
    append(&mut log);
    append(&mut log);
    assert!(!log.has_room() && gap().is_none());
    // Behind whoever reads, a fourth of the log stays.
    log.hold(Some(500)).unwrap();
    assert_eq!((log.has_room(), gap()), (false, Some((200, 300))));
    log.hold(Some(900)).unwrap();
    assert_eq!((log.has_room(), gap()), (true, Some((200, 400))));
    append(&mut log);
    assert_eq!(gap(), Some((200, 500)));
    log.hold(None).unwrap();
    (0..20).for_each(|_| append(&mut log));
    assert_eq!(gap(), Some((200, 2500)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_reading_in_steps_gives_the_same_bytes(
        writes in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 1..300)), 1..60),
        step in 1..500usize,
    ) {
        let directory = TempDir::new().unwrap();
        let mut log = LogWriter::create(directory.path(), process(), Caps { segment: 1000, total: 1 << 20 }).unwrap();
        let mut expected: [Vec<u8>; 3] = Default::default();
        for (error, bytes) in &writes {
            let stream = if *error { OutputStream::Stderr } else { OutputStream::Stdout };
            log.append(Kind::Output(stream), at(1), bytes).unwrap();
            expected[0].extend(bytes);
            expected[1 + usize::from(*error)].extend(bytes);
        }
        for (stream, expected) in [None, Some(OutputStream::Stdout), Some(OutputStream::Stderr)].into_iter().zip(expected) {
            let (mut got, mut from, mut near) = (Vec::new(), 0, None);
            loop {
                let found = read(directory.path(), process(), from, near, stream, step).unwrap().unwrap();
                prop_assert_eq!(&found.pieces, &read(directory.path(), process(), from, None, stream, step).unwrap().unwrap().pieces);
                near = found.mark;
                let taken = text(&found);
                prop_assert!(taken.len() <= step);
                got.extend(taken);
                if found.next == from {
                    break;
                }
                from = found.next;
            }
            prop_assert_eq!(got, expected);
        }
    }
}
