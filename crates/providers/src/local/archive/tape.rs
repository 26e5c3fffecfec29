//! An archive as it is read: one entry after the other. It takes what `entry.rs` writes and nothing else.

use std::io::{self, ErrorKind, Read};

use sha2::{Digest, Sha256};
use stead_domain::archive::LARGEST;

use super::entry::{ATTRIBUTE, BLOCK, Entry, Kind, LARGEST_RECORDS, LINK, LONGEST_PATH, SOCKET, SPARSE_MAJOR, SPARSE_MINOR, SPARSE_NAME};
use super::entry::{SPARSE_SIZE, shown};
use super::{MANIFEST, Result, Trouble, written};

/// The longest that a symbolic link leads.
const LONGEST_TARGET: usize = 4095;

pub struct Tape<R> {
    from: R,
    /// Of everything that was accepted since it was last asked for.
    hash: Sha256,
    /// Blocks before the content of the present entry, which belong to the layer only if the entry does.
    ahead: Vec<u8>,
    counting: bool,
    /// What is left of the present entry's content, and of the block that it ends in.
    left: u64,
    padding: u64,
}

/// What comes before an entry and changes it.
#[derive(Default)]
struct Records {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    modified: Option<(i64, u32)>,
    link: Option<u64>,
    is_socket: bool,
    sparse: Vec<(u64, u64)>,
    whole: Option<u64>,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<R: Read> Tape<R> {
    pub fn new(from: R) -> Self {
        Self { from, hash: Sha256::new(), ahead: Vec::new(), counting: false, left: 0, padding: 0 }
    }

    /// What the archive says of itself, and the digest of that.
    pub fn manifest(&mut self) -> Result<(Vec<u8>, String)> {
        let first = self.next()?;
        if first.path != MANIFEST || first.kind != Kind::File {
            return Err(Trouble::Archive("it is no archive of an environment: it does not begin with a manifest".to_owned()));
        }
        let text = self.own(&first, LARGEST as u64)?;
        let digest = written(Sha256::new_with_prefix(&text));
        Ok((text, digest))
    }

    /// The next entry. What is in it must have been read to its end.
    pub fn next(&mut self) -> Result<Entry> {
        if self.left > 0 {
            return Err(Trouble::Archive("an entry was left unread".to_owned()));
        }
        self.pad()?;
        self.counting = false;
        self.ahead.clear();
        let (mut block, mut records) = (self.block()?, Records::default());
        if block[156] == b'x' {
            let length = number(&block[124..136]).filter(|length| *length <= LARGEST_RECORDS);
            let length = length.ok_or_else(|| Trouble::Archive("what is said ahead of an entry is too long".to_owned()))?;
            let mut said = vec![0; usize::try_from(length.next_multiple_of(BLOCK as u64)).unwrap_or(0)];
            self.fill(&mut said)?;
            self.ahead.extend(&said);
            said.truncate(usize::try_from(length).unwrap_or(0));
            records = read_records(&said).map_err(|why| Trouble::Archive(format!("what is said ahead of an entry is refused: {why}")))?;
            block = self.block()?;
        }
        let entry = entry(&block, records)?;
        self.left = entry.size;
        self.padding = entry.size.wrapping_neg() % BLOCK as u64;
        Ok(entry)
    }

    /// The present entry belongs to the present layer.
    pub fn accept(&mut self) {
        self.hash.update(&self.ahead);
        self.counting = true;
    }

    /// The digest of what was accepted since the last one.
    pub fn digest(&mut self) -> String {
        written(std::mem::take(&mut self.hash))
    }

    /// The content of one of the archive's own files, which are written in one way only: no digest covers them.
    pub fn own(&mut self, entry: &Entry, largest: u64) -> Result<Vec<u8>> {
        if entry.size > largest {
            return Err(Trouble::Archive(format!("what it says of itself is longer than {largest} bytes")));
        }
        if self.ahead != Entry::plain(&entry.path, usize::try_from(entry.size).unwrap_or(0)).write() {
            return Err(Trouble::Entry { path: entry.shown(), why: "it is not as it was written".to_owned() });
        }
        let mut whole = vec![0; usize::try_from(entry.size).unwrap_or(0)];
        let mut filled = 0;
        while filled < whole.len() {
            filled += self.content(&mut whole[filled..])?;
        }
        self.pad()?;
        Ok(whole)
    }

    /// Goes on to the end of the block that the present entry ends in.
    fn pad(&mut self) -> Result<()> {
        let mut padding = [0; BLOCK];
        let length = usize::try_from(std::mem::take(&mut self.padding)).unwrap_or(0);
        self.fill(&mut padding[..length])?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Trouble::Archive("the archive is damaged: something stands where nothing should".to_owned()));
        }
        if self.counting {
            self.hash.update(&padding[..length]);
        }
        Ok(())
    }

    /// Some of the content of the present entry; nothing at its end.
    pub fn content(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let length = loop {
            match self.from.read(&mut buffer[..most]) {
                Ok(0) => return Err(Trouble::cut_off()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome.map_err(broken)?,
            }
        };
        if self.counting {
            self.hash.update(&buffer[..length]);
        }
        self.left -= length as u64;
        Ok(length)
    }

    /// After the last entry: two empty blocks, and nothing more.
    pub fn finish(&mut self) -> Result<()> {
        let mut rest = [0; 2 * BLOCK];
        self.pad()?;
        self.fill(&mut rest)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(Trouble::Archive("something comes after its end".to_owned()));
        }
        loop {
            match self.from.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err(Trouble::Archive("something comes after its end".to_owned())),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }

    fn block(&mut self) -> Result<[u8; BLOCK]> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        self.ahead.extend(block);
        if block.iter().all(|byte| *byte == 0) {
            return Err(Trouble::cut_off());
        }
        if [&b"\x1f\x8b"[..], b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"].iter().any(|magic| block.starts_with(magic)) {
            let message = "it is compressed: send it as it was exported, e.g. `zstd -dc FILE | stead env import --archive -`";
            return Err(Trouble::Archive(message.to_owned()));
        }
        let sum: u64 = block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
        if number(&block[148..156]) != Some(sum) || &block[257..265] != b"ustar\x0000" {
            return Err(Trouble::Archive("it is no archive of an environment, or a damaged one: a checksum is wrong".to_owned()));
        }
        Ok(block)
    }

    fn fill(&mut self, room: &mut [u8]) -> Result<()> {
        self.from.read_exact(room).map_err(broken)
    }
}

fn broken(cause: io::Error) -> Trouble {
    match cause.kind() {
        ErrorKind::UnexpectedEof => Trouble::cut_off(),
        _ => Trouble::Io { path: "the archive".to_owned(), cause },
    }
}

fn entry(block: &[u8; BLOCK], records: Records) -> Result<Entry> {
    let path = records.path.unwrap_or_else(|| text(&block[..100]).to_vec());
    let refused = |why: &str| Trouble::Entry { path: shown(&path), why: why.to_owned() };
    let field = |range: std::ops::Range<usize>| number(&block[range]).ok_or_else(|| refused("a field of it is no number"));
    let (mode, uid, gid) = (field(100..108)?, field(108..116)?, field(116..124)?);
    let (size, seconds) = (records.size.map_or_else(|| field(124..136), Ok)?, field(136..148)?);
    let kind = match block[156] {
        b'0' => Kind::File,
        b'1' => Kind::Link,
        b'2' => Kind::Symlink,
        b'3' if field(329..337)? == 0 && field(337..345)? == 0 => Kind::Whiteout,
        b'3' | b'4' => return Err(refused("it is a device")),
        b'5' => Kind::Directory,
        b'6' if records.is_socket => Kind::Socket,
        b'6' => Kind::Fifo,
        _ => return Err(refused("it is of a kind that is not known")),
    };
    let target = records.target.unwrap_or_else(|| text(&block[157..257]).to_vec());
    let target = if kind == Kind::Symlink { target } else { Vec::new() };
    if kind == Kind::Symlink && (target.is_empty() || target.len() > LONGEST_TARGET || target.contains(&0)) {
        return Err(refused("it is a link that leads nowhere"));
    }
    if text(&block[345..500]) != b"" || path.len() > LONGEST_PATH {
        return Err(refused("its name is written in a way that is not read"));
    }
    if (kind != Kind::File && size > 0) || (kind == Kind::Link && records.link.is_none()) {
        return Err(refused("it does not say what it is"));
    }
    let whole = match (records.sparse.as_slice(), records.whole) {
        ([], None) => None,
        ([(1, 0)], Some(whole)) if kind == Kind::File && i64::try_from(whole).is_ok() => Some(whole),
        _ => return Err(refused("its holes are written in a way that is not read")),
    };
    let number = |value: u64| u32::try_from(value).map_err(|_| refused("a field of it is too large"));
    Ok(Entry {
        kind,
        mode: number(mode)?,
        uid: number(uid)?,
        gid: number(gid)?,
        size,
        modified: records.modified.unwrap_or((i64::try_from(seconds).unwrap_or(0), 0)),
        target,
        link: records.link,
        attributes: records.attributes,
        whole,
        path,
    })
}

/// Up to the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits.
fn number(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text(field)).ok()?.trim_matches(' ');
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) { None } else { u64::from_str_radix(digits, 8).ok() }
}

/// Lines of `length name=value`.
fn read_records(mut said: &[u8]) -> Result<Records, &'static str> {
    let mut records = Records::default();
    let (mut major, mut minor) = (None, None);
    while !said.is_empty() {
        let (record, rest) = split(said).ok_or("it cannot be read")?;
        said = rest;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or("it cannot be read")?;
        let (name, value) = (&record[..equals], &record[equals + 1..]);
        let whole = || decimal(value).ok_or("a number is none");
        match name {
            b"path" => records.path = Some(value.to_vec()),
            b"linkpath" => records.target = Some(value.to_vec()),
            b"size" => records.size = Some(whole()?),
            b"mtime" => records.modified = Some(moment(value).ok_or("a time is none")?),
            name if name == LINK => records.link = Some(whole()?),
            name if name == SOCKET => records.is_socket = true,
            name if name == SPARSE_MAJOR => major = Some(whole()?),
            name if name == SPARSE_MINOR => minor = Some(whole()?),
            name if name == SPARSE_NAME => {}
            name if name == SPARSE_SIZE => records.whole = Some(whole()?),
            name => match name.strip_prefix(ATTRIBUTE) {
                Some(attribute) if !attribute.contains(&0) => records.attributes.push((attribute.to_vec(), value.to_vec())),
                _ => return Err("it holds a record that is not known"),
            },
        }
    }
    if let (Some(major), Some(minor)) = (major, minor) {
        records.sparse.push((major, minor));
    }
    Ok(records)
}

fn split(said: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = said.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(decimal(&said[..space])?).ok()?;
    let record = said.get(space + 1..length)?.strip_suffix(b"\n")?;
    Some((record, &said[length..]))
}

pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Seconds with a fraction of nine digits.
fn moment(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.')?;
    let fraction = u32::try_from(decimal(fraction.as_bytes()).filter(|_| fraction.len() == 9)?).ok()?;
    let whole: i64 = seconds.parse().ok()?;
    // Before 1970 the fraction counts backwards.
    match (seconds.starts_with('-'), fraction) {
        (true, 1..) => Some((whole.checked_sub(1)?, 1_000_000_000 - fraction)),
        _ => Some((whole, fraction)),
    }
}
