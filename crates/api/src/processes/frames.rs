//! Output as events: as text where it is text, else in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stead_app::processes::Piece;
use stead_app::{Frame, Output};
use stead_domain::process_request::{Encoding, OutputEvent, OutputFrame};
use stead_domain::{Error, Result};

pub fn event_of(frame: Frame) -> OutputEvent {
    match frame {
        Frame::Gap { from, to } => OutputEvent::Gap { from, to },
        Frame::Bytes { stream, offset, bytes, .. } => {
            let (data, encoding) = match String::from_utf8(bytes) {
                Ok(text) => (text, Encoding::Utf8),
                Err(error) => (STANDARD.encode(error.as_bytes()), Encoding::Base64),
            };
            OutputEvent::Output(OutputFrame { stream, offset, data, encoding })
        }
    }
}

/// The bytes of something that a client sent.
pub fn bytes_of(data: &str, encoding: Encoding) -> Result<Vec<u8>> {
    match encoding {
        Encoding::Utf8 => Ok(data.as_bytes().to_vec()),
        Encoding::Base64 => STANDARD.decode(data).map_err(|_| Error::field("stdin.data", "is not base64")),
    }
}

/// Each event of a piece, with the offset that a reader goes on from after it.
pub fn events_of(piece: Piece, at: u64) -> Vec<(u64, OutputEvent)> {
    match piece {
        Piece::Exit(exit) => vec![(at, OutputEvent::Exit(exit))],
        Piece::Failed(error) => vec![(at, OutputEvent::Failed { error })],
        Piece::Output(Output { frames, .. }) => frames
            .into_iter()
            .map(|frame| {
                let next = match &frame {
                    Frame::Bytes { offset, bytes, .. } => offset + bytes.len() as u64,
                    Frame::Gap { to, .. } => *to,
                };
                (next, event_of(frame))
            })
            .collect(),
    }
}

/// One event of an event stream.
pub fn server_sent(next: u64, event: &OutputEvent) -> Result<String> {
    let (name, data) = match event {
        OutputEvent::Output(frame) => ("output", serde_json::to_string(frame)),
        OutputEvent::Exit(exit) => ("exit", serde_json::to_string(exit)),
        // The rest is an object of one name.
        other => {
            let value = serde_json::to_value(other).map_err(Error::internal)?;
            let (name, inner) =
                value.as_object().and_then(|object| object.iter().next()).ok_or_else(|| Error::internal("an event without a name"))?;
            return Ok(format!("id: {next}\nevent: {name}\ndata: {inner}\n\n"));
        }
    };
    Ok(format!("id: {next}\nevent: {name}\ndata: {}\n\n", data.map_err(Error::internal)?))
}

#[cfg(test)]
mod tests {
    use stead_domain::Timestamp;
    use stead_domain::process::OutputStream;

    use super::*;

    fn bytes(bytes: &[u8]) -> Frame {
        Frame::Bytes { stream: OutputStream::Stderr, offset: 7, at: Timestamp::from_microseconds(0), bytes: bytes.to_vec() }
    }

    #[test]
    fn text_stays_text_and_the_rest_is_base64() {
        let text = server_sent(10, &event_of(bytes("a\nü".as_bytes()))).unwrap();
        assert_eq!(text, "id: 10\nevent: output\ndata: {\"stream\":\"stderr\",\"offset\":7,\"data\":\"a\\nü\",\"encoding\":\"utf-8\"}\n\n");
        let OutputEvent::Output(frame) = event_of(bytes(&[0xff, 0])) else { panic!("a frame") };
        assert_eq!((frame.encoding, bytes_of(&frame.data, frame.encoding).unwrap()), (Encoding::Base64, vec![0xff, 0]));
        assert!(bytes_of("!", Encoding::Base64).is_err());
        assert_eq!(server_sent(9, &OutputEvent::Gap { from: 1, to: 9 }).unwrap(), "id: 9\nevent: gap\ndata: {\"from\":1,\"to\":9}\n\n");
    }

    #[test]
    fn a_reader_goes_on_after_each_event() {
        let output = Output { frames: vec![Frame::Gap { from: 0, to: 7 }, bytes(b"abc")], next: 10, near: None };
        assert_eq!(events_of(Piece::Output(output), 10).iter().map(|(next, _)| *next).collect::<Vec<_>>(), [7, 10]);
    }
}
