//! Files of an environment of the client's project.

use stead_domain::file_search::FilesFound;
use stead_domain::files::{FileEntry, FilePath, FileTransfer, FileWritten, FindOrder, GrepOrder, NewDirectory, TreeWritten};
use stead_domain::hexadecimal;
use stead_domain::ids::EnvironmentId;
use stead_domain::page::Page;

use crate::{Client, Download, Grep, Request, Result, Upload, Watch};

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

impl Client {
    /// A directory or a file as a tar archive, from the beginning to the end: it cannot be taken up in the middle.
    pub async fn download_archive(&self, environment: EnvironmentId, path: &FilePath) -> Result<Download<'_>> {
        let request = named(Request::get(self.environment_path(environment, "/files/archive")), path);
        Download::open(self, request.header("accept", "application/x-tar")?, path.clone()).await
    }

    /// Unpacks a tar archive into a directory.
    pub async fn upload_archive(&self, environment: EnvironmentId, path: &FilePath, archive: Upload) -> Result<TreeWritten> {
        let request = named(Request::new(http::Method::PUT, self.environment_path(environment, "/files/archive")), path);
        self.parse(&self.upload(&request.header("content-type", "application/x-tar")?, archive).await?)
    }

    pub async fn find_files(&self, environment: EnvironmentId, order: &FindOrder) -> Result<FilesFound> {
        let request = named(Request::get(self.environment_path(environment, "/files/find")), &order.path)
            .query("pattern", order.pattern.as_deref())
            .query("ignore_case", order.ignore_case.then_some(true))
            .query("all", order.all.then_some(true))
            .query("limit", Some(order.limit));
        self.json(request.within(None)).await
    }

    pub async fn grep_files(&self, environment: EnvironmentId, order: &GrepOrder) -> Result<Grep<'_>> {
        let request = named(Request::get(self.environment_path(environment, "/files/grep")), &order.path)
            .query("pattern", Some(&order.pattern))
            .query("fixed", order.fixed.then_some(true))
            .query("ignore_case", order.ignore_case.then_some(true))
            .query("all", order.all.then_some(true))
            .query("context", Some(order.context))
            .query("limit", Some(order.limit));
        let request = order.globs.iter().fold(request, |request, glob| request.query("glob", Some(glob)));
        Grep::open(self, request.header("accept", "application/x-ndjson")?).await
    }

    /// What changes from now on.
    pub async fn watch_files(&self, environment: EnvironmentId, path: &FilePath, recursive: bool) -> Result<Watch<'_>> {
        let request = named(Request::get(self.environment_path(environment, "/files/watch")), path);
        let request = request.query("recursive", recursive.then_some(true)).header("accept", "text/event-stream")?;
        Watch::open(self, request).await
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
