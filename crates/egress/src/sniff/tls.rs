//! The server name in a TLS client hello, across any number of records.

/// What the beginning of a TLS stream says.
#[derive(Debug, PartialEq, Eq)]
pub enum Hello {
    /// Go on reading.
    Partial,
    Whole {
        server_name: Option<String>,
        /// The true name may be another one, sealed.
        encrypted: bool,
    },
    Malformed,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
/// Post-quantum keys make hellos of about 2 KiB.
const LONGEST_HELLO: usize = 32 * 1024;

/// Whether these bytes can begin a TLS stream, and `None` while there are too few of them.
pub fn begins(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [] | [HANDSHAKE] | [HANDSHAKE, 3] => None,
        [HANDSHAKE, 3, 0..=4, ..] => Some(true),
        _ => Some(false),
    }
}

pub fn parse(mut stream: &[u8]) -> Hello {
    // Handshake messages may be cut anywhere between records, so their bytes are put together first.
    let mut handshake = Vec::new();
    loop {
        if let [kind, a, b, c, ..] = handshake[..] {
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind != CLIENT_HELLO || length > LONGEST_HELLO {
                return Hello::Malformed;
            }
            if let Some(body) = handshake.get(4..4 + length) {
                return read_hello(body).unwrap_or(Hello::Malformed);
            }
        }
        let [kind, major, _, high, low, rest @ ..] = stream else {
            return match stream {
                [] | [HANDSHAKE] | [HANDSHAKE, 3, ..] => Hello::Partial,
                _ => Hello::Malformed,
            };
        };
        let length = usize::from(*high) << 8 | usize::from(*low);
        // An empty handshake record is forbidden, and would let a stream go on for ever.
        if *kind != HANDSHAKE || *major != 3 || length == 0 || length > 16 * 1024 {
            return Hello::Malformed;
        }
        let part = &rest[..length.min(rest.len())];
        handshake.extend(part);
        if part.len() < length && handshake.len() < 4 {
            return Hello::Partial;
        }
        if part.len() < length {
            // The hello may end within this record's first part; otherwise it is not whole.
            stream = &[];
            let whole = usize::from(handshake[1]) << 16 | usize::from(handshake[2]) << 8 | usize::from(handshake[3]);
            if handshake[0] == CLIENT_HELLO && whole <= LONGEST_HELLO && handshake.len() < 4 + whole {
                return Hello::Partial;
            }
            continue;
        }
        stream = &rest[length..];
    }
}

struct Reader<'bytes>(&'bytes [u8]);

impl<'bytes> Reader<'bytes> {
    fn take(&mut self, length: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<usize> {
        self.take(1).map(|bytes| usize::from(bytes[0]))
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn block(&mut self) -> Option<Reader<'bytes>> {
        let length = self.short()?;
        self.take(usize::from(length)).map(Reader)
    }
}

fn read_hello(body: &[u8]) -> Option<Hello> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    let session = reader.byte()?;
    reader.take(session)?;
    reader.block()?;
    let compressions = reader.byte()?;
    reader.take(compressions)?;
    let (mut server_name, mut encrypted) = (None, false);
    if reader.0.is_empty() {
        return Some(Hello::Whole { server_name, encrypted });
    }
    let mut extensions = reader.block()?;
    if !reader.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.short()?;
        let mut content = extensions.block()?;
        match kind {
            SERVER_NAME => {
                let mut list = content.block()?;
                // One name, of the one kind there is: a server could pick another of several than we look at.
                if !content.0.is_empty() || server_name.is_some() || list.byte()? != 0 {
                    return None;
                }
                let name = list.block()?;
                if !list.0.is_empty() || name.0.is_empty() {
                    return None;
                }
                server_name = Some(str::from_utf8(name.0).ok()?.to_owned());
            }
            ENCRYPTED_CLIENT_HELLO => encrypted = true,
            _ => {}
        }
    }
    Some(Hello::Whole { server_name, encrypted })
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes(), content].concat()
    }

    fn name_extension(name: &str) -> Vec<u8> {
        let list = block(&[&[0][..], &block(name.as_bytes())].concat());
        [&[0, 0][..], &block(&list)].concat()
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        let body = [&[3, 3][..], &[7; 32], &[0], &block(&[0x13, 1]), &[1, 0], &block(extensions)].concat();
        [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
    }

    /// The handshake in records of at most `size` bytes.
    fn records(handshake: &[u8], size: usize) -> Vec<u8> {
        handshake.chunks(size).flat_map(|chunk| [&[22, 3, 1][..], &block(chunk)].concat()).collect()
    }

    pub fn client_hello(name: &str) -> Vec<u8> {
        records(&hello(&name_extension(name)), 16_384)
    }

    fn whole(name: Option<&str>, encrypted: bool) -> Hello {
        Hello::Whole { server_name: name.map(str::to_owned), encrypted }
    }

    #[test]
    fn names_are_found_however_the_hello_is_cut() {
        let handshake = hello(&name_extension("a.example"));
        for size in 1..handshake.len() {
            let stream = records(&handshake, size);
            assert_eq!(parse(&stream), whole(Some("a.example"), false), "records of {size}");
            for end in 0..stream.len() {
                assert_eq!(parse(&stream[..end]), Hello::Partial, "{end} bytes of records of {size}");
            }
        }
    }

    #[test]
    fn what_follows_the_hello_does_not_matter() {
        let stream = [client_hello("a.example"), vec![0xff; 100]].concat();
        assert_eq!(parse(&stream), whole(Some("a.example"), false));
    }

    #[test]
    fn encrypted_hellos_missing_and_doubled_names() {
        assert_eq!(parse(&records(&hello(&[]), 999)), whole(None, false));
        let sealed = [name_extension("a.example"), vec![0xfe, 0x0d, 0, 1, 0]].concat();
        assert_eq!(parse(&records(&hello(&sealed), 999)), whole(Some("a.example"), true));
        let doubled = [name_extension("a.example"), name_extension("b.example")].concat();
        assert_eq!(parse(&records(&hello(&doubled), 999)), Hello::Malformed);
        let mut list = block(b"a.example");
        list.insert(0, 0);
        let two = block(&block(&[list.clone(), list].concat()));
        assert_eq!(parse(&records(&hello(&[&[0, 0][..], &two].concat()), 999)), Hello::Malformed);
    }

    #[test]
    fn endless_and_odd_streams_end() {
        assert_eq!(parse(&[22, 3, 1, 0, 0, 22, 3, 1, 0, 0]), Hello::Malformed);
        assert_eq!(parse(&[22, 3, 1, 0, 4, 1, 1, 0, 0]), Hello::Malformed, "64 KiB of hello");
        assert_eq!(parse(&[22, 3, 1, 0, 4, 2, 0, 0, 1]), Hello::Malformed, "a server's hello");
        assert_eq!(parse(&[23, 3, 1, 0, 4]), Hello::Malformed);
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..200, byte in any::<u8>()) {
            let _ = parse(&bytes);
            let _ = parse(&[&[22, 3, 1][..], &bytes].concat());
            let mut stream = client_hello("some.name.example");
            let end = stream.len();
            stream[at % end] = byte;
            let _ = parse(&stream);
        }
    }
}
