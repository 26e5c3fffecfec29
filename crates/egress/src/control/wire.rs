//! Frames over a unix stream: four bytes of length, JSON, and descriptors that travel with the first bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;
use zeroize::Zeroizing;

pub(super) const LONGEST_FRAME: usize = 1 << 20;
/// The kernel takes at most 253 at once. Each of the four length bytes may carry some.
pub(super) const AT_ONCE: usize = 128;
pub const MOST_DESCRIPTORS: usize = 4 * AT_ONCE;

pub async fn send(stream: &UnixStream, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let body = Zeroizing::new(serde_json::to_vec(message)?);
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= LONGEST_FRAME && descriptors.len() <= MOST_DESCRIPTORS);
    let Some(length) = length else { return Err(io::Error::new(io::ErrorKind::InvalidInput, "the frame is too long")) };
    let frame = Zeroizing::new([&length.to_be_bytes(), &body[..]].concat());
    let mut sent = 0;
    for group in descriptors.chunks(AT_ONCE) {
        sent += send_some(stream, &frame[sent..=sent], group).await?;
    }
    while sent < frame.len() {
        sent += send_some(stream, &frame[sent..], &[]).await?;
    }
    Ok(())
}

async fn send_some(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let attempt = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
    };
    stream.async_io(Interest::WRITABLE, attempt).await
}

/// `None` when the other side has closed between two frames.
pub async fn receive<M: DeserializeOwned>(stream: &UnixStream) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
    let mut descriptors = Vec::new();
    let mut length = [0; 4];
    if !receive_exactly(stream, &mut length, &mut descriptors).await? {
        return Ok(None);
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > LONGEST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too long"));
    }
    let mut body = Zeroizing::new(vec![0; length]);
    if !receive_exactly(stream, &mut body, &mut descriptors).await? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((serde_json::from_slice(&body)?, descriptors)))
}

/// False when there was nothing more at all.
async fn receive_exactly(stream: &UnixStream, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        let received = stream.async_io(Interest::READABLE, || receive_some(stream, rest, descriptors)).await?;
        match received {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => filled += length,
        }
        if descriptors.len() > MOST_DESCRIPTORS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many descriptors"));
        }
    }
    Ok(true)
}

fn receive_some(stream: &UnixStream, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "descriptors were lost on the way"));
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn frames_and_many_descriptors_arrive_whole_and_in_order() {
        let (left, right) = UnixStream::pair().unwrap();
        let files: Vec<File> = (0..300).map(|_| tempfile::tempfile().unwrap()).collect();
        for (number, file) in files.iter().enumerate() {
            file.set_len(number as u64).unwrap();
        }
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let text = "x".repeat(500_000);
        let (sent, received) = tokio::join!(send(&left, &text, &borrowed), receive::<String>(&right));
        sent.unwrap();
        let (message, descriptors) = received.unwrap().unwrap();
        assert_eq!(message, text);
        let lengths: Vec<u64> = descriptors.into_iter().map(|fd| File::from(fd).metadata().unwrap().len()).collect();
        assert_eq!(lengths, (0..300).collect::<Vec<_>>());
        send(&left, &1, &[]).await.unwrap();
        assert_eq!(receive::<u8>(&right).await.unwrap().unwrap().0, 1);
        drop(left);
        assert!(receive::<u8>(&right).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn broken_frames_are_errors() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff][..], &[0, 0, 0, 2, b'{'], &[0, 0, 0, 2, b'{', b'x'], &[0, 0]] {
            let (mut left, right) = UnixStream::pair().unwrap();
            left.write_all(bytes).await.unwrap();
            drop(left);
            assert!(receive::<serde_json::Value>(&right).await.is_err(), "{bytes:?}");
        }
    }
}
