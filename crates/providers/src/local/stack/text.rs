//! How the text of one file differs between two stacks.

use std::io;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::fs::{FileType, fstat};
use similar::{Algorithm, TextDiff};
use stead_domain::changes::RelativePath;
use stead_domain::checkpoint_diff::{ContentKind, Difference};

use super::diff::{Differences, One};
use super::merged::Merged;
use super::{Place, Result, Stack, contents};
use crate::local::entry::file_type;

/// Longer ones are not compared line by line.
const LONGEST: usize = 1 << 20;
/// Texts that have little in common could be compared for hours. After this the rest is told as replaced, which is true as well.
const PATIENCE: Duration = Duration::from_millis(500);
/// Lines around those that differ.
const CONTEXT: usize = 3;

#[derive(Debug, PartialEq, Eq)]
pub enum Compared {
    /// Neither has anything of that name.
    Missing,
    Same,
    Different(Box<Difference>),
}

pub fn compare_text(before: &Stack, after: &Stack, path: &RelativePath, stopped: &AtomicBool) -> Result<Compared> {
    let file = match Differences::open(before, after, stopped)?.one(path)? {
        One::Missing => return Ok(Compared::Missing),
        One::Same => return Ok(Compared::Same),
        One::Different(file) => *file,
    };
    let (content, unified) = match (read(before, path).at(path)?, read(after, path).at(path)?) {
        (Content::Other(kind), _) | (_, Content::Other(kind)) => (kind, None),
        // Somebody is at work, and removed it between the two looks.
        (Content::Missing, Content::Missing) => return Ok(Compared::Missing),
        (left, right) => {
            let ((left, left_name), (right, right_name)) = (left.shown("a", path), right.shown("b", path));
            (ContentKind::Text, Some(unified(&left, &right, &left_name, &right_name)))
        }
    };
    Ok(Compared::Different(Box::new(Difference { file, content: Some(content), unified })))
}

/// What is under a path of one stack.
enum Content {
    Missing,
    Text(String),
    Other(ContentKind),
}

impl Content {
    fn shown(self, root: &str, path: &RelativePath) -> (String, String) {
        match self {
            Self::Text(text) => (text, shown(root, path)),
            Self::Missing | Self::Other(_) => (String::new(), "/dev/null".to_owned()),
        }
    }
}

fn read(stack: &Stack, path: &RelativePath) -> io::Result<Content> {
    let mut merged = Merged::open(stack)?;
    let Some((name, entry)) = merged.reach(path)? else { return Ok(Content::Missing) };
    if file_type(&entry.stat) != FileType::RegularFile {
        return Ok(Content::Other(ContentKind::None));
    }
    let file = match merged.open_file(name, &entry) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Content::Other(ContentKind::Unreadable)),
        outcome => outcome?,
    };
    if file_type(&fstat(&file)?) != FileType::RegularFile {
        return Ok(Content::Other(ContentKind::None));
    }
    let mut bytes = vec![0; LONGEST + 1];
    let length = contents::read(&file, &mut bytes, 0)?.len();
    bytes.truncate(length);
    if length > LONGEST {
        return Ok(Content::Other(ContentKind::TooLarge));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Content::Text(text),
        _ => Content::Other(ContentKind::Binary),
    })
}

fn unified(left: &str, right: &str, left_name: &str, right_name: &str) -> String {
    // Only line feeds end a line: what a lone carriage return would split could not be applied again.
    let (left, right): (Vec<&str>, Vec<&str>) = (left.split_inclusive('\n').collect(), right.split_inclusive('\n').collect());
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).timeout(PATIENCE).newline_terminated(true).diff_slices(&left, &right);
    diff.unified_diff().context_radius(CONTEXT).header(left_name, right_name).to_string()
}

/// In one line, whatever the name holds.
fn shown(root: &str, path: &RelativePath) -> String {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) if !text.contains(['"', '\\']) && !text.contains(char::is_control) => format!("{root}/{text}"),
        _ => format!("\"{root}/{}\"", path.as_bytes().escape_ascii()),
    }
}
