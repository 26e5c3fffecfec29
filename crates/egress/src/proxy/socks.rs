//! SOCKS5: `CONNECT`, without a user, by name or address.

use std::sync::Arc;

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::environment::Environment;
use crate::host::Host;
use crate::reason::Reason;
use crate::relay::stream::{Inbound, Interrupted, Stream};
use crate::relay::{carry, open};
use crate::sniff::{Expected, Protocol};

const NO_USER: u8 = 0;
const CONNECT: u8 = 1;

pub async fn serve(
    environment: &Arc<Environment>,
    mut inbound: Inbound<ReadHalf<Box<dyn Stream>>>,
    mut writer: WriteHalf<Box<dyn Stream>>,
) {
    let greeted = environment.beginning(async {
        let methods = read(&mut inbound, greeting).await?;
        if !methods.contains(&NO_USER) {
            writer.write_all(&[5, 0xff]).await?;
            return Err(Reason::UnknownProxyRequest.into());
        }
        writer.write_all(&[5, NO_USER]).await?;
        read(&mut inbound, request).await
    });
    let decided = match greeted.await {
        Ok((host, port)) => super::expected(environment, host, port),
        Err(Interrupted::Broken | Interrupted::Ended(_)) => return,
        Err(Interrupted::Refused(reason)) => Err(reason),
    };
    let expected = match decided {
        Ok(expected) => expected,
        Err(reason) => {
            let _ = writer.write_all(&reply(reply_code(reason))).await;
            return environment.refuse("proxy", 0, Protocol::Tcp, reason).await;
        }
    };
    connect(environment, expected, inbound, writer).await;
}

async fn connect(
    environment: &Arc<Environment>,
    expected: Expected,
    inbound: Inbound<ReadHalf<Box<dyn Stream>>>,
    mut writer: WriteHalf<Box<dyn Stream>>,
) {
    match open(environment, &expected).await {
        Ok((upstream, address)) => {
            if writer.write_all(&reply(0)).await.is_ok() {
                carry(environment, expected, (inbound, writer), upstream, address, None).await;
            }
        }
        Err(reason) => {
            let _ = writer.write_all(&reply(reply_code(reason))).await;
            environment.refuse(&expected.host, expected.port, Protocol::Tcp, reason).await;
        }
    }
}

/// Reads until `parse` has enough, and takes what it used. Messages are at most 262 bytes, so this ends.
async fn read<R: AsyncRead + Unpin, T>(
    inbound: &mut Inbound<R>,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Reason>,
) -> Result<T, Interrupted> {
    loop {
        if let Some((value, used)) = parse(&inbound.buffer)? {
            inbound.buffer.advance(used);
            return Ok(value);
        }
        if !inbound.fill().await? {
            return Err(Interrupted::Broken);
        }
    }
}

fn greeting(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Reason> {
    match bytes {
        [5, count, methods @ ..] => Ok(methods.get(..usize::from(*count)).map(|methods| (methods.to_vec(), 2 + methods.len()))),
        [] | [5] => Ok(None),
        _ => Err(Reason::UnknownProxyRequest),
    }
}

type Requested = ((Host, u16), usize);

fn request(bytes: &[u8]) -> Result<Option<Requested>, Reason> {
    let [version, command, _, kind, rest @ ..] = bytes else { return Ok(None) };
    if *version != 5 || *command != CONNECT {
        return Err(Reason::UnknownProxyRequest);
    }
    let (start, length) = match (kind, rest) {
        (1, _) => (0, 4),
        (4, _) => (0, 16),
        (3, [length, ..]) => (1, usize::from(*length)),
        (3, []) => return Ok(None),
        _ => return Err(Reason::UnknownProxyRequest),
    };
    let (Some(host), Some(&[high, low])) = (rest.get(start..start + length), rest.get(start + length..start + length + 2)) else {
        return Ok(None);
    };
    let port = u16::from_be_bytes([high, low]);
    let host = match <[u8; 4]>::try_from(host) {
        Ok(four) if *kind == 1 => Host::Address(four.into()),
        _ => match <[u8; 16]>::try_from(host) {
            Ok(six) if *kind == 4 => Host::Address(crate::address::normalised(six.into())),
            _ => str::from_utf8(host).ok().and_then(|text| Host::parse(text).ok()).ok_or(Reason::NotListed)?,
        },
    };
    if port == 0 { Err(Reason::UnknownProxyRequest) } else { Ok(Some(((host, port), 4 + start + length + 2))) }
}

fn reply(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

fn reply_code(reason: Reason) -> u8 {
    match reason {
        Reason::Unresolved | Reason::ConnectTimeout => 4,
        Reason::ConnectFailed => 5,
        Reason::UnknownProxyRequest => 7,
        Reason::TooManyConnections | Reason::SlowStart => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests() {
        let name = [&[5, 1, 0, 3, 9][..], b"A.example", &[1, 187], b"more"].concat();
        assert_eq!(request(&name), Ok(Some(((Host::parse("a.example").unwrap(), 443), 16))));
        assert_eq!(request(&name[..15]), Ok(None));
        let text = [&[5, 1, 0, 3, 9][..], b"127.0.0.1", &[0, 80]].concat();
        assert_eq!(request(&text).unwrap().unwrap().0.0, Host::parse("127.0.0.1").unwrap());
        assert_eq!(request(&[5, 1, 0, 1, 9, 9, 9, 9, 0, 53]), Ok(Some(((Host::parse("9.9.9.9").unwrap(), 53), 10))));
        assert_eq!(request(&[5, 2, 0, 1, 9, 9, 9, 9, 0, 53]), Err(Reason::UnknownProxyRequest));
        assert_eq!(request(&[5, 1, 0, 3, 3, b'a', 0, b'b', 0, 80]), Err(Reason::NotListed));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = greeting(&bytes);
            if let Ok(Some((_, used))) = request(&bytes) {
                prop_assert!(used <= bytes.len());
            }
            if let Ok(Some((_, used))) = request(&[&[5, 1, 0, 3][..], &bytes].concat()) {
                prop_assert!(used <= bytes.len() + 4);
            }
        }
    }
}
