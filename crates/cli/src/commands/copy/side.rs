//! The two sides of a copy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use stead_client::Client;
use stead_domain::Code;
use stead_domain::changes::EntryType;
use stead_domain::environment::Environment;
use stead_domain::files::FilePath;

use crate::commands::files::inside;
use crate::failure::{Failure, Result};
use crate::references;
use crate::session::patience::patiently;

pub enum Side {
    Here(PathBuf),
    There(Box<There>),
}

pub struct There {
    pub environment: Environment,
    pub path: FilePath,
}

impl Side {
    pub async fn find(client: &Client, typed: &OsStr) -> Result<Self> {
        let bytes = typed.as_bytes();
        let Some(at) = bytes.iter().position(|byte| *byte == b':') else { return Ok(Self::Here(typed.into())) };
        let (reference, path) = (&bytes[..at], &bytes[at + 1..]);
        // A path has a slash before any colon.
        let Some(reference) = std::str::from_utf8(reference).ok().filter(|name| !name.is_empty() && !name.contains('/')) else {
            return Ok(Self::Here(typed.into()));
        };
        let environment = references::environment(client, reference).await?;
        let path = inside(if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) })?;
        Ok(Self::There(Box::new(There { environment, path })))
    }
}

impl There {
    /// As it is written on the command line.
    pub fn shown(&self, path: &FilePath) -> String {
        format!("{}:{path}", self.environment.name)
    }

    pub async fn is_directory(&self, client: &Client) -> Result<bool> {
        // Through a link as well.
        let path = self.path.join(b".");
        match patiently(async || client.stat_file(self.environment.id, &path).await).await.map_err(Failure::from) {
            Ok(entry) => Ok(entry.r#type == EntryType::Directory),
            Err(Failure::Reply { body, .. }) if matches!(Code::parse(&body.error.code), Some(Code::FileNotFound | Code::NotADirectory)) => {
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Where something of that name goes.
    pub async fn place(&self, client: &Client, name: Option<&[u8]>) -> Result<FilePath> {
        match name {
            Some(name) if self.path.as_bytes().ends_with(b"/") || self.is_directory(client).await? => Ok(self.path.join(name)),
            _ => Ok(self.path.clone()),
        }
    }
}

/// The last name of a path; none for one that means what a directory holds.
pub fn name(path: &[u8]) -> Option<&[u8]> {
    if path == b"." || path == b".." || path.ends_with(b"/.") || path.ends_with(b"/..") {
        return None;
    }
    path.split(|byte| *byte == b'/').rfind(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_name_unless_only_the_content_is_meant() {
        for (path, expected) in
            [("a", Some("a")), ("a/b/", Some("b")), ("/x/a", Some("a")), (".", None), ("a/.", None), ("..", None), ("/", None)]
        {
            assert_eq!(name(path.as_bytes()), expected.map(str::as_bytes), "{path}");
        }
    }
}
