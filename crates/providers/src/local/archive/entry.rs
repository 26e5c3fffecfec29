//! One entry as tar writes it: a header, and before it a list of pax records for what does not fit there.

pub const BLOCK: usize = 512;
/// What a field for a name holds.
const SHORT: usize = 100;
/// What eleven octal digits say.
const LARGEST_PLAIN: u64 = 1 << 33;
/// All records of an entry together; the attributes of a file are some hundred bytes.
pub const LARGEST_RECORDS: u64 = 1 << 20;
/// The longest name: deeper trees are carried by nobody.
pub const LONGEST_PATH: usize = 64 << 10;

/// Records of our own: a socket, which tar does not know; the number by which other names of a file find it.
pub const SOCKET: &[u8] = b"STEAD.socket";
pub const LINK: &[u8] = b"STEAD.link";
pub const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
pub const SPARSE_MAJOR: &[u8] = b"GNU.sparse.major";
pub const SPARSE_MINOR: &[u8] = b"GNU.sparse.minor";
pub const SPARSE_NAME: &[u8] = b"GNU.sparse.name";
pub const SPARSE_SIZE: &[u8] = b"GNU.sparse.realsize";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    /// Another name of a file that came before.
    Link,
    Symlink,
    /// Says that nothing is there, whatever the layers below have.
    Whiteout,
    Directory,
    Fifo,
    Socket,
}

impl Kind {
    pub fn flag(self) -> u8 {
        match self {
            Self::File => b'0',
            Self::Link => b'1',
            Self::Symlink => b'2',
            Self::Whiteout => b'3',
            Self::Directory => b'5',
            Self::Fifo | Self::Socket => b'6',
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes that follow in the archive.
    pub size: u64,
    /// Seconds, and nanoseconds after them.
    pub modified: (i64, u32),
    /// Where a symbolic link leads.
    pub target: Vec<u8>,
    /// Which file this is a name of, for those that have several.
    pub link: Option<u64>,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
    /// How long the file is, where what follows is only a part of it.
    pub whole: Option<u64>,
}

impl Entry {
    /// A file of the archive's own.
    pub fn plain(path: &[u8], size: usize) -> Self {
        Self { size: size as u64, ..Self::new(path, Kind::File, 0o600) }
    }

    pub fn new(path: &[u8], kind: Kind, mode: u32) -> Self {
        let (path, target, attributes) = (path.to_vec(), Vec::new(), Vec::new());
        Self { path, kind, mode, uid: 0, gid: 0, size: 0, modified: (0, 0), target, link: None, attributes, whole: None }
    }

    pub fn shown(&self) -> String {
        shown(&self.path)
    }

    /// The blocks before its content.
    pub fn write(&self) -> Vec<u8> {
        let records = self.records();
        let mut blocks = Vec::with_capacity(3 * BLOCK);
        if !records.is_empty() {
            blocks.extend(header(b"pax", b'x', [0o600, 0, 0], records.len() as u64, 0, b""));
            blocks.extend(&records);
            blocks.resize(blocks.len().next_multiple_of(BLOCK), 0);
        }
        let plain = if self.size < LARGEST_PLAIN { self.size } else { 0 };
        let seconds = u64::try_from(self.modified.0).ok().filter(|seconds| *seconds < LARGEST_PLAIN).unwrap_or(0);
        let target = match (self.kind, self.link) {
            // By number and not by name: whoever writes remembers no names, however many there are.
            (Kind::Link, Some(link)) => format!("links/{link}").into_bytes(),
            _ => self.target.clone(),
        };
        blocks.extend(header(&self.path, self.kind.flag(), [self.mode, self.uid, self.gid], plain, seconds, &target));
        blocks
    }

    fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        let mut add = |name: &[u8], value: &[u8]| record(&mut records, name, value);
        if self.path.len() > SHORT {
            add(b"path", &self.path);
        }
        if self.target.len() > SHORT {
            add(b"linkpath", &self.target);
        }
        if self.size >= LARGEST_PLAIN {
            add(b"size", self.size.to_string().as_bytes());
        }
        if self.modified != (0, 0) {
            add(b"mtime", moment(self.modified).as_bytes());
        }
        if let Some(link) = self.link {
            add(LINK, link.to_string().as_bytes());
        }
        if self.kind == Kind::Socket {
            add(SOCKET, b"1");
        }
        if let Some(whole) = self.whole {
            add(SPARSE_MAJOR, b"1");
            add(SPARSE_MINOR, b"0");
            add(SPARSE_NAME, &self.path);
            add(SPARSE_SIZE, whole.to_string().as_bytes());
        }
        for (name, value) in &self.attributes {
            add(&[ATTRIBUTE, name].concat(), value);
        }
        records
    }
}

/// As errors name it.
pub fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let beginning: String = text.chars().take(256).collect();
    beginning
}

/// `length name=value`, where the length counts itself.
fn record(records: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let rest = name.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend(format!("{length} ").as_bytes());
    records.extend([name, b"=", value, b"\n"].concat());
}

/// Before 1970 the fraction counts backwards.
fn moment((seconds, nanoseconds): (i64, u32)) -> String {
    match (seconds, nanoseconds) {
        (seconds, nanoseconds) if seconds < 0 && nanoseconds > 0 => {
            format!("-{}.{:09}", (i128::from(seconds) + 1).unsigned_abs(), 1_000_000_000 - nanoseconds)
        }
        (seconds, nanoseconds) => format!("{seconds}.{nanoseconds:09}"),
    }
}

fn header(name: &[u8], flag: u8, numbers: [u32; 3], size: u64, seconds: u64, link: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &name[..name.len().min(SHORT)]);
    for (at, number) in [100, 108, 116].into_iter().zip(numbers) {
        put(at, format!("{number:07o}").as_bytes());
    }
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{seconds:011o}").as_bytes());
    put(148, b"        ");
    put(156, &[flag]);
    put(157, &link[..link.len().min(SHORT)]);
    put(257, b"ustar\x0000");
    put(329, b"0000000");
    put(337, b"0000000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}
