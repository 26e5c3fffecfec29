//! Errands, and what they say.

use stead_domain::files::{FileEntry, FileFailure, FileOrder, FilePath, FileProblem, FileWord};
use stead_place::Warrant;
use stead_place::blueprint::Blueprint;
use stead_place::protocol::Errand;

use super::House;

/// What an errand said until it was over.
#[derive(Debug, Default)]
pub struct Said {
    pub entries: Vec<FileEntry>,
    pub bytes: Vec<u8>,
    pub size: u64,
    pub more: bool,
}

pub fn path(text: impl AsRef<[u8]>) -> FilePath {
    FilePath::parse("path", text.as_ref()).unwrap()
}

pub async fn carried_out(house: &House, blueprint: &Blueprint, order: FileOrder, sent: Option<&[u8]>) -> Result<Said, FileFailure> {
    let errand = Errand { directory: "/workspace".into(), order };
    let mut stream = house.stewards.errand(blueprint, Some(Warrant::default()), &errand).await.unwrap();
    if let Some(bytes) = sent {
        for piece in bytes.chunks(100_000) {
            if stream.send(piece).await.is_err() {
                break;
            }
        }
        let _ = stream.end().await;
    }
    let mut said = Said::default();
    loop {
        match stream.next().await.unwrap() {
            (FileWord::Entries { entries }, _) => said.entries.extend(entries),
            (FileWord::Bytes, bytes) => said.bytes.extend(bytes),
            (FileWord::Done { size, more, .. }, _) => return Ok(Said { size, more, ..said }),
            (FileWord::Failed(failure), _) => return Err(failure),
            (FileWord::Begun | FileWord::Events { .. }, _) => {}
            (FileWord::Ready, _) => panic!("out of turn"),
        }
    }
}

/// The same, for whoever only asks why it failed.
pub async fn errand(house: &House, blueprint: &Blueprint, order: FileOrder, sent: Option<&[u8]>) -> Result<Said, FileProblem> {
    carried_out(house, blueprint, order, sent).await.map_err(|failure| failure.why)
}
