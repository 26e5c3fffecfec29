//! Files of an environment of the client's project.

use stead_domain::files::{FileEntry, FilePath, FileTransfer, FileWritten, NewDirectory};
use stead_domain::hexadecimal;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::Page;

use crate::{Client, Download, Request, Result, Upload};

/// Which part of what a directory holds.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub recursive: bool,
    pub limit: Option<u64>,
    pub cursor: Option<String>,
}

impl Client {
    pub async fn list_files(&self, environment: EnvironmentId, path: &FilePath, listing: &Listing) -> Result<Page<FileEntry>> {
        let request = named(Request::get(self.environment_path(environment, "/files/list")), path)
            .query("recursive", listing.recursive.then_some(true))
            .query("limit", listing.limit)
            .query("cursor", listing.cursor.as_deref());
        self.json(request.within(None)).await
    }

    pub async fn stat_file(&self, environment: EnvironmentId, path: &FilePath) -> Result<FileEntry> {
        self.json(named(Request::get(self.environment_path(environment, "/files/stat")), path)).await
    }

    pub async fn download_file(&self, environment: EnvironmentId, path: &FilePath) -> Result<Download<'_>> {
        let request = named(Request::get(self.environment_path(environment, "/files")), path);
        Download::open(self, request.header("accept", "application/octet-stream")?, path.clone()).await
    }

    /// Puts what is sent in place of what is there, in one step, with the directories that it lies in.
    pub async fn write_file(&self, environment: EnvironmentId, path: &FilePath, mode: Option<u32>, content: Upload) -> Result<FileWritten> {
        let request = named(Request::new(http::Method::PUT, self.environment_path(environment, "/files")), path)
            .query("mode", mode.map(|mode| format!("{mode:04o}")))
            .header("content-type", "application/octet-stream")?;
        self.parse(&self.upload(&request, content).await?)
    }

    /// Adds what is sent to a file, at the offset where that belongs. Sent again it is not written again.
    pub async fn append_file(
        &self,
        environment: EnvironmentId,
        path: &FilePath,
        offset: u64,
        mode: Option<u32>,
        content: Upload,
    ) -> Result<FileWritten> {
        let request = named(Request::patch(self.environment_path(environment, "/files")), path)
            .query("offset", Some(offset))
            .query("mode", mode.map(|mode| format!("{mode:04o}")))
            .header("content-type", "application/octet-stream")?;
        self.parse(&self.upload(&request, content).await?)
    }

    /// A link goes, and never what it leads to.
    pub async fn remove_file(&self, environment: EnvironmentId, path: &FilePath, recursive: bool) -> Result<()> {
        let request = named(Request::delete(self.environment_path(environment, "/files")), path);
        self.request(request.query("recursive", recursive.then_some(true)).within(None)).await.map(drop)
    }

    pub async fn make_directory(&self, environment: EnvironmentId, path: &FilePath, mode: Option<u32>, parents: bool) -> Result<()> {
        let (path, path_bytes) = spelled(path);
        let new = NewDirectory { path, path_bytes, mode: mode.map(|mode| format!("{mode:04o}")), parents };
        self.request(Request::post(self.environment_path(environment, "/files/mkdir")).json(&new)?).await.map(drop)
    }

    pub async fn move_file(&self, environment: EnvironmentId, from: &FilePath, to: &FilePath, overwrite: bool) -> Result<()> {
        let request = Request::post(self.environment_path(environment, "/files/move")).json(&transfer(from, to, overwrite))?;
        self.request(request.within(None)).await.map(drop)
    }

    pub async fn copy_file(&self, environment: EnvironmentId, from: &FilePath, to: &FilePath, overwrite: bool) -> Result<()> {
        let request = Request::post(self.environment_path(environment, "/files/copy")).json(&transfer(from, to, overwrite))?;
        self.request(request.within(None)).await.map(drop)
    }
}

/// As text, or in digits where it is none.
fn spelled(path: &FilePath) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(path.as_bytes()) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(hexadecimal::write(path.as_bytes()))),
    }
}

fn named(request: Request, path: &FilePath) -> Request {
    let (text, digits) = spelled(path);
    request.query("path", text).query("path_bytes", digits)
}

fn transfer(from: &FilePath, to: &FilePath, overwrite: bool) -> FileTransfer {
    let ((from, from_bytes), (to, to_bytes)) = (spelled(from), spelled(to));
    FileTransfer { from, from_bytes, to, to_bytes, overwrite }
}
