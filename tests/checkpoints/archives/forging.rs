//! Archives with something changed in them, and digests that are right all the same: whoever forges one can count.

use serde_json::Value;
use sha2::{Digest, Sha256};

const BLOCK: usize = 512;

/// A header with what belongs to it, from and to where it lies in the archive.
struct Piece {
    name: String,
    start: usize,
    header: usize,
    content: usize,
    size: usize,
    end: usize,
}

fn pieces(archive: &[u8]) -> Vec<Piece> {
    let size_at = |at: usize| {
        let digits = String::from_utf8(archive[at + 124..at + 135].to_vec()).unwrap();
        usize::from_str_radix(&digits, 8).unwrap()
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while archive[at] != 0 {
        let start = at;
        if archive[at + 156] == b'x' {
            at += BLOCK + size_at(at).next_multiple_of(BLOCK);
        }
        let (header, size) = (at, size_at(at));
        let name = archive[at..at + 100].split(|byte| *byte == 0).next().unwrap();
        at += BLOCK + size.next_multiple_of(BLOCK);
        found.push(Piece { name: String::from_utf8_lossy(name).into_owned(), start, header, content: header + BLOCK, size, end: at });
    }
    found
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Makes every checksum and every digest right.
fn count(archive: &mut [u8]) {
    let all = pieces(archive);
    for piece in &all {
        let header = &mut archive[piece.header..piece.header + BLOCK];
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    let first = &all[0];
    let mut digests = vec![digest(&archive[first.content..first.content + first.size])];
    let mut begun = first.end;
    for piece in &all[1..] {
        if piece.name.ends_with(".sha256") && !piece.name.contains("workspace") {
            digests.push(digest(&archive[begun..piece.start]));
            archive[piece.content..piece.content + piece.size].copy_from_slice(digests.last().unwrap().as_bytes());
            begun = piece.end;
        }
    }
    let end = all.last().unwrap();
    let text = format!("{{\"layers\":{},\"digest\":\"{}\"}}\n", digests.len() - 1, digest(digests.concat().as_bytes()));
    archive[end.content..end.content + end.size].copy_from_slice(text.as_bytes());
}

pub fn manifest(archive: &[u8]) -> Value {
    let first = &pieces(archive)[0];
    serde_json::from_slice(&archive[first.content..first.content + first.size]).unwrap()
}

/// The same archive with another manifest.
pub fn with_manifest(archive: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let first = &pieces(archive)[0];
    let mut manifest = manifest(archive);
    change(&mut manifest);
    let text = manifest.to_string();
    let mut forged = archive[..BLOCK].to_vec();
    forged[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
    forged.extend(text.as_bytes());
    forged.resize(forged.len().next_multiple_of(BLOCK), 0);
    forged.extend(&archive[first.end..]);
    count(&mut forged);
    forged
}

/// The same archive with other bytes in the header of one entry.
pub fn with_header(archive: &[u8], name: &str, at: usize, bytes: &[u8]) -> Vec<u8> {
    let all = pieces(archive);
    let piece = all.iter().find(|piece| piece.name == name).unwrap_or_else(|| panic!("there is no {name}"));
    let mut forged = archive.to_vec();
    forged[piece.header + at..piece.header + at + bytes.len()].copy_from_slice(bytes);
    count(&mut forged);
    forged
}

pub fn names(archive: &[u8]) -> Vec<String> {
    pieces(archive).into_iter().map(|piece| piece.name).collect()
}
