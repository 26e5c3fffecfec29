//! What a server and a steward say to each other, over any stream: a header in JSON and, where something is carried, its bytes.
//!
//! Requests have a number and get one answer with that number; notices have none. Values of variables and bytes of stdin pass through and
//! are written down nowhere.

use std::fmt;
use std::io;
use std::path::PathBuf;

use bytes::{Buf, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stead_domain::files::{FileOrder, FileWord};
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::ports::PortOrder;
use stead_domain::process::{ProcessExit, ProcessLimits, TerminalSize};

use crate::blueprint::Blueprint;
use crate::secrets::{KnownValue, Secrets};
use crate::warrant::Warrant;

/// Grows when an older side would misunderstand.
///
/// 2: `Follow`, `Unfollow`, `Errand`, and starts that hold their output.
/// 3: `Freeze` and `Thaw`.
/// 4: `Barrier`, and warrants.
/// 5: starts with secrets.
pub const PROTOCOL: u32 = 5;

/// The last version that a server still speaks. A steward of it keeps what runs until that is over, and is given nothing new.
pub const LAST: u32 = PROTOCOL - 1;

/// The largest message. What is longer is not from us. A start has all secrets of an environment in it, most of them twice.
pub const LARGEST: usize = 4 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    pub number: u64,
    #[serde(flatten)]
    pub call: Call,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    /// The first thing that either side says.
    Hello {
        protocol: u32,
    },
    Start(Start),
    /// With the bytes.
    Stdin {
        process: ProcessId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warrant: Option<Warrant>,
        offset: u64,
        end: bool,
    },
    /// Without a warrant it is the server's own doing, and always heard.
    Signal {
        process: ProcessId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warrant: Option<Warrant>,
        signal: i32,
    },
    Resize {
        process: ProcessId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warrant: Option<Warrant>,
        size: TerminalSize,
    },
    /// Somebody follows the output of a process and has taken what lies before the offset; said again with a later one. Forgotten with the
    /// stream that it was said over.
    Follow {
        process: ProcessId,
        /// Told apart by a number of the caller's.
        follower: u64,
        offset: u64,
    },
    Unfollow {
        process: ProcessId,
        follower: u64,
    },
    Activity,
    /// Ends everything and then the steward itself.
    Sleep {
        at_once: bool,
    },
    /// From when this is answered, nothing begins under a warrant before this one, and with `stop` nothing runs any more that did. Refused with
    /// [`Refusal::Stale`] when a later one was heard of.
    Barrier {
        warrant: Warrant,
        stop: bool,
    },
    /// The definition is now this. What may leave is held to it at once; whether the place as a whole is as it says is the answer.
    Adopt {
        blueprint: Box<Blueprint>,
    },
    /// From here on the stream is that of a process inside, which says [`FileWord::Ready`] and then hears a [`Task`]. Nothing may be sent
    /// before that.
    Errand {
        /// Whoever has none changes nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warrant: Option<Warrant>,
        /// It may make files larger.
        writes: bool,
    },
    /// Everything inside stands still until `Thaw`, until this stream ends, or for so long. Answered when it does.
    Freeze {
        at_most_milliseconds: u64,
    },
    /// It goes on. Refused with [`Refusal::Thawed`] when it did so before.
    Thaw,
    /// From when this is answered, these are taken out of everything that is said inside.
    Learn {
        known: Vec<KnownValue>,
    },
}

/// What a process inside is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Task {
    Files(Errand),
    /// It answers with a [`stead_domain::ports::PortWord`].
    Ports(PortOrder),
}

/// Something with files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Errand {
    /// Where relative paths begin.
    pub directory: PathBuf,
    pub order: FileOrder,
}

/// What is sent to it after that, where something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sent", rename_all = "snake_case")]
pub enum Sent {
    /// With the bytes.
    Bytes,
    End,
}

/// What is first heard on the stream of an errand.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Opening {
    Inside(FileWord),
    Steward(Word),
}

impl Errand {
    /// Whether files are other ones afterwards.
    pub fn changes(&self) -> bool {
        match &self.order {
            FileOrder::Write { .. } | FileOrder::Append { .. } | FileOrder::MakeDirectory { .. } | FileOrder::Unpack { .. } => true,
            FileOrder::Remove { .. } | FileOrder::Move { .. } | FileOrder::Copy { .. } => true,
            FileOrder::Stat { .. } | FileOrder::List { .. } | FileOrder::Read { .. } | FileOrder::Pack { .. } => false,
            FileOrder::Find(_) | FileOrder::Grep(_) | FileOrder::Watch { .. } => false,
        }
    }
}

impl Call {
    /// The version that brought it. Whoever is older does not understand it, and hangs up.
    pub fn since(&self) -> u32 {
        match self {
            Self::Follow { .. } | Self::Unfollow { .. } | Self::Errand { .. } => 2,
            Self::Freeze { .. } | Self::Thaw => 3,
            Self::Barrier { .. } => 4,
            Self::Learn { .. } => 5,
            Self::Start(start) if start.secrets.is_some() => 5,
            _ => 1,
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Start {
    pub process: ProcessId,
    pub argv: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    pub env: Vec<(String, String)>,
    pub stdin_open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_milliseconds: Option<u64>,
    #[serde(default)]
    pub limits: ProcessLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warrant: Option<Warrant>,
    /// Nothing of its output is given up before those who follow it have taken it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// How much of its output is kept; as much as is usual when it is left out, and of a steward that is older than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// None where the environment has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Box<Secrets>>,
}

impl fmt::Debug for Start {
    /// Variables and arguments may hold what nobody is shown.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, warrant, secrets, .. } = self;
        formatter
            .debug_struct("Start")
            .field("process", process)
            .field("warrant", warrant)
            .field("secrets", secrets)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Word {
    Answer {
        number: u64,
        answer: Answer,
    },
    /// A process has come further.
    Progress(Progress),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Answer {
    Done,
    /// Done, and nothing is inside any more: the steward is gone in a moment.
    Left,
    /// It was started before and is not kept any more: what is written down says how it went.
    Known,
    Hello {
        protocol: u32,
        pid: u32,
        environment: EnvironmentId,
        spec_version: u64,
        processes: Vec<Progress>,
    },
    /// How far stdin has been written.
    Written {
        offset: u64,
    },
    Activity {
        processes: u64,
        /// Whatever else is inside and may change something: programs that commands left behind when they ended, and errands that write.
        #[serde(default)]
        background: u64,
        cpu_milliseconds: u64,
        memory_bytes: u64,
    },
    Refused(Refusal),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Refusal {
    Program {
        message: String,
        missing: bool,
    },
    Directory,
    NoProcess,
    Over,
    StdinClosed,
    StdinOffset {
        offset: u64,
    },
    NoTerminal,
    Fenced,
    /// This fence was heard of, and the barrier is not after it.
    Stale {
        fence: u64,
    },
    /// The place could not be made.
    CannotBeMade {
        message: String,
    },
    /// Somebody else is awake who writes to the same layers; nothing was made.
    LayersInUse,
    /// What is awake writes to other layers than those that are now the environment's.
    OtherFiles,
    /// The relay ended between being found and being needed; nothing was made.
    NoRelay {
        message: String,
    },
    StorageFull {
        message: String,
    },
    /// Its secrets cannot be where they are to be; nothing was started.
    Secrets {
        message: String,
        suggestion: String,
    },
    Failed {
        message: String,
    },
    /// This steward is about to leave: ask the next one.
    Leaving,
    /// What is awake is not what the definition says, and only a new place can be.
    Outdated,
    /// Not everything inside can be made to stand still.
    CannotStandStill {
        message: String,
    },
    /// What was to stand still went on before it was told to.
    Thawed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub process: ProcessId,
    pub end: u64,
    pub stdin: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ProcessExit>,
    pub closed: bool,
}

/// A message as it goes over the wire: both lengths, the header, the bytes.
pub fn encode(header: &impl Serialize, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut message = encode_head(header, bytes.len())?;
    message.extend(bytes);
    Ok(message)
}

/// Everything of a message but the bytes that it carries, which follow.
pub fn encode_head(header: &impl Serialize, carried: usize) -> io::Result<Vec<u8>> {
    let mut message = vec![0; 8];
    serde_json::to_writer(&mut message, header)?;
    let length = message.len() - 8;
    if length + carried > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too large"));
    }
    message[..4].copy_from_slice(&(length as u32).to_le_bytes());
    message[4..8].copy_from_slice(&(carried as u32).to_le_bytes());
    Ok(message)
}

/// Takes whole messages out of what has arrived.
#[derive(Debug, Default)]
pub struct Decoder {
    arrived: BytesMut,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// What has arrived, with room for so much more: who reads into it saves a copy.
    pub fn room(&mut self, more: usize) -> &mut BytesMut {
        self.arrived.reserve(more);
        &mut self.arrived
    }

    /// The next whole message; none when more must arrive first. After an error the stream is of no use.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Bytes)>> {
        let Some((lengths, rest)) = self.arrived.split_at_checked(8) else { return Ok(None) };
        let length = |at: usize| lengths[at..at + 4].iter().rev().fold(0usize, |sum, byte| (sum << 8) | usize::from(*byte));
        let (header, bytes) = (length(0), length(4));
        if header > LARGEST || bytes > LARGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too large"));
        }
        if rest.len() < header + bytes {
            return Ok(None);
        }
        let message = serde_json::from_slice(&rest[..header])?;
        self.arrived.advance(8 + header);
        // What is carried stays where it was read to.
        let carried = self.arrived.split_to(bytes).freeze();
        Ok(Some((message, carried)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_arrive_in_any_pieces() {
        let process = ProcessId::new(&stead_testing::context(1).0);
        let first = Request { number: 1, call: Call::Stdin { process, warrant: None, offset: 7, end: false } };
        let second = Request { number: 2, call: Call::Activity };
        let mut wire = encode(&first, b"bytes").unwrap();
        wire.extend(encode(&second, b"").unwrap());
        for size in 1..wire.len() {
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in wire.chunks(size) {
                decoder.push(piece);
                while let Some((request, bytes)) = decoder.take::<Request>().unwrap() {
                    got.push((request.number, bytes));
                }
            }
            assert_eq!(got, [(1, Bytes::from("bytes")), (2, Bytes::new())]);
        }
    }

    proptest! {
        #[test]
        fn nonsense_is_an_error_or_waits_for_more(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.take::<Request>() {}
        }
    }
}
