//! Reads what `tar` writes, entry by entry: ustar, pax and GNU's long names. Whatever it does not know it refuses.

use std::io::{self, ErrorKind, Read};

use super::Trouble;

const BLOCK: usize = 512;
/// The longest name, or list of pax records, that is read.
const LONGEST: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    HardLink,
    SymbolicLink,
    Directory,
    Fifo,
    Device,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    /// Seconds.
    pub modified: u64,
    /// What a link leads to.
    pub link: Vec<u8>,
}

impl Entry {
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

pub struct Archive<R> {
    from: R,
    /// What is left of the content of the present entry, and the padding after it.
    content: u64,
    padding: u64,
}

/// What comes before an entry and changes it.
#[derive(Default)]
struct Ahead {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
}

impl<R: Read> Archive<R> {
    pub fn new(from: R) -> Self {
        Self { from, content: 0, padding: 0 }
    }

    /// The next entry; its content is what can be read until then.
    pub fn next(&mut self) -> Result<Option<Entry>, Trouble> {
        let mut ahead = Ahead::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let name = || String::from_utf8_lossy(text(&header[..100])).into_owned();
            let size = number(&header[124..136]).ok_or_else(|| malformed(&name(), "its size is no number"))?;
            let kind = header[156];
            if matches!(kind, b'x' | b'g' | b'L' | b'K') {
                if size > LONGEST {
                    return Err(malformed(&name(), "what is said ahead of an entry is too long"));
                }
                self.expect(size);
                let mut said = Vec::new();
                self.read_to_end(&mut said).map_err(Trouble::Io)?;
                match kind {
                    b'L' => ahead.path = Some(text(&said).to_vec()),
                    b'K' => ahead.link = Some(text(&said).to_vec()),
                    b'x' => records(&said, &mut ahead).ok_or_else(|| malformed(&name(), "its records cannot be read"))??,
                    // What is true of all entries changes none of these.
                    _ => {}
                }
                continue;
            }
            return self.entry(&header, size, ahead).map(Some);
        }
    }

    fn entry(&mut self, header: &[u8; BLOCK], size: u64, ahead: Ahead) -> Result<Entry, Trouble> {
        let is_ustar = &header[257..262] == b"ustar";
        let prefix = if is_ustar && header[262] == 0 { text(&header[345..500]) } else { b"" };
        let name = text(&header[..100]);
        let named = if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() };
        let path = ahead.path.unwrap_or(named);
        let shown = String::from_utf8_lossy(&path).into_owned();
        let kind = match header[156] {
            // Older ones say so by the name.
            b'0' | 0 | b'7' if path.ends_with(b"/") => Kind::Directory,
            b'0' | 0 | b'7' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::SymbolicLink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => {
                return Err(malformed(&shown, &format!("it is of a kind that is not known (`{}`)", char::from(other).escape_default())));
            }
        };
        let field = |range: std::ops::Range<usize>, what: &str| {
            number(&header[range]).ok_or_else(|| malformed(&shown, &format!("its {what} is no number")))
        };
        let (mode, uid, gid) = (field(100..108, "mode")?, field(108..116, "owner")?, field(116..124, "group")?);
        let entry = Entry {
            kind,
            mode: (mode & 0o7777) as u32,
            uid: ahead.uid.unwrap_or(uid),
            gid: ahead.gid.unwrap_or(gid),
            size: if kind == Kind::File { ahead.size.unwrap_or(size) } else { 0 },
            modified: field(136..148, "time").unwrap_or(0),
            link: ahead.link.unwrap_or_else(|| text(&header[157..257]).to_vec()),
            path,
        };
        // What is no file may say a size and has no content, but for some old directories.
        self.expect(entry.size);
        Ok(entry)
    }

    /// None at the end: two blocks of zeroes, or nothing more.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, Trouble> {
        let mut header = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.from.read(&mut header[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(cut_off()),
                Ok(length) => filled += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::Io(error)),
            }
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u64 = header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
        if number(&header[148..156]) != Some(sum) {
            return Err(Trouble::Unreadable("it is no tar archive, or a damaged one: a checksum is wrong".to_owned()));
        }
        Ok(Some(header))
    }

    fn expect(&mut self, size: u64) {
        self.content = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    /// Goes past what nobody read.
    fn skip(&mut self) -> Result<(), Trouble> {
        let left = self.content.checked_add(self.padding).ok_or_else(cut_off)?;
        let skipped = io::copy(&mut (&mut self.from).take(left), &mut io::sink()).map_err(Trouble::Io)?;
        (self.content, self.padding) = (0, 0);
        if skipped == left { Ok(()) } else { Err(cut_off()) }
    }

    /// What it was read from, for whoever wants the rest.
    pub fn into_inner(self) -> R {
        self.from
    }
}

/// The content of the present entry.
impl<R: Read> Read for Archive<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.content).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        match self.from.read(&mut buffer[..most])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            length => {
                self.content -= length as u64;
                Ok(length)
            }
        }
    }
}

fn malformed(entry: &str, why: &str) -> Trouble {
    Trouble::Entry { entry: entry.to_owned(), why: why.to_owned() }
}

fn cut_off() -> Trouble {
    Trouble::Unreadable("it ends in the middle of an entry".to_owned())
}

/// Up to the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Octal digits, or for large ones the bytes themselves with the first bit set.
fn number(field: &[u8]) -> Option<u64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        let start = u64::from(first & 0x7f);
        return rest.iter().try_fold(start, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)));
    }
    let digits = std::str::from_utf8(text(field)).ok()?.trim_matches(' ');
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// Lines of `length name=value`, as pax has them.
fn records(mut said: &[u8], ahead: &mut Ahead) -> Option<Result<(), Trouble>> {
    while !said.is_empty() {
        let space = said.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&said[..space]).ok()?.parse().ok()?;
        let record = said.get(space + 1..length)?.strip_suffix(b"\n")?;
        said = &said[length..];
        let equals = record.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&record[..equals], &record[equals + 1..]);
        let whole = || std::str::from_utf8(value).ok()?.parse::<u64>().ok();
        match name {
            b"path" => ahead.path = Some(value.to_vec()),
            b"linkpath" => ahead.link = Some(value.to_vec()),
            b"size" => ahead.size = Some(whole()?),
            b"uid" => ahead.uid = Some(whole()?),
            b"gid" => ahead.gid = Some(whole()?),
            name if name.starts_with(b"GNU.sparse.") => {
                let entry = ahead.path.as_deref().map(|path| String::from_utf8_lossy(path).into_owned()).unwrap_or_default();
                return Some(Err(malformed(&entry, "it is stored with holes, which is not read: write the archive without --sparse")));
            }
            _ => {}
        }
    }
    Some(Ok(()))
}
