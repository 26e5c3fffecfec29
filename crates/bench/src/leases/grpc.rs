//! As little of gRPC as etcd's locks need: calls with one message each way, and messages of bytes and numbers.

use std::io::{Error, Result};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;

/// One connection, driven by a task of its own.
pub struct Channel {
    sender: SendRequest<Bytes>,
    address: String,
}

impl Channel {
    pub async fn open(address: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = h2::client::handshake(socket).await.map_err(Error::other)?;
        // It ends when the sender is gone, and what goes wrong is told to whoever calls.
        tokio::task::spawn_local(connection);
        Ok(Self { sender, address: address.to_owned() })
    }

    pub async fn call(&mut self, method: &str, message: &[u8]) -> Result<Vec<u8>> {
        let request = Request::post(format!("http://{}{method}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(Error::other)?;
        let mut sender = self.sender.clone().ready().await.map_err(Error::other)?;
        let (response, mut body) = sender.send_request(request, false).map_err(Error::other)?;
        // Not compressed, and how long it is.
        let mut framed = vec![0];
        framed.extend((message.len() as u32).to_be_bytes());
        framed.extend(message);
        body.send_data(framed.into(), true).map_err(Error::other)?;
        let (head, mut body) = response.await.map_err(Error::other)?.into_parts();
        let mut reply = Vec::new();
        while let Some(part) = body.data().await {
            let part = part.map_err(Error::other)?;
            let _ = body.flow_control().release_capacity(part.len());
            reply.extend_from_slice(&part);
        }
        // A call that fails at once has its status at the head.
        let end = body.trailers().await.map_err(Error::other)?.unwrap_or(head.headers);
        let said = |name| end.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        if said("grpc-status") != "0" {
            return Err(Error::other(format!("{method}: status {} {}", said("grpc-status"), said("grpc-message"))));
        }
        reply.get(5..).map(<[u8]>::to_vec).ok_or_else(|| Error::other(format!("{method}: no message")))
    }
}

/// The fields of a message, one after the other.
#[derive(Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    pub fn number(mut self, field: u8, value: u64) -> Self {
        self.0.push(field << 3);
        self.varint(value);
        self
    }

    pub fn bytes(mut self, field: u8, value: &[u8]) -> Self {
        self.0.push(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A field of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Field<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

pub fn find(mut message: &[u8], wanted: u8) -> Option<Field<'_>> {
    loop {
        let key = take_varint(&mut message)?;
        let field = match key & 7 {
            0 => Field::Number(take_varint(&mut message)?),
            2 => {
                let length = take_varint(&mut message)?;
                let (value, rest) = message.split_at_checked(length as usize)?;
                message = rest;
                Field::Bytes(value)
            }
            _ => return None,
        };
        if key >> 3 == u64::from(wanted) {
            return Some(field);
        }
    }
}

fn take_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_found() {
        let message = Message::default().bytes(1, b"name").number(2, 7_587_891_203_424_132_865).number(3, 0).0;
        assert_eq!(message[..6], [10, 4, b'n', b'a', b'm', b'e']);
        assert_eq!(find(&message, 1), Some(Field::Bytes(b"name")));
        assert_eq!(find(&message, 2), Some(Field::Number(7_587_891_203_424_132_865)));
        assert_eq!(find(&message, 3), Some(Field::Number(0)));
        assert_eq!((find(&message, 4), find(&message[..3], 1), find(&[0xff; 12], 1)), (None, None, None));
    }
}
