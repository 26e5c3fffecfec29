//! Read a file.

use axum::body::Body;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use futures::stream;
use http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, StatusCode};
use stead_app::files::FileReader;
use stead_domain::files::FileEntry;
use stead_domain::{Code, Error};

use super::{asked, path};
use crate::State;
use crate::door::In;
use crate::environments::parse_id;
use crate::openapi::ChangeErrors;
use crate::query::Query;
use crate::reply::Result;

/// The bytes of a file in an environment, all of them or a range. An environment that sleeps is woken for it.
///
/// `ETag` changes with the file; sent back as `If-Range`, a download that was cut off goes on only if the file is still the same.
#[utoipa::path(
    get, path = "/v1/projects/{project}/environments/{environment_id}/files", tag = "files", operation_id = "readEnvironmentFile",
    params(("project" = String, Path, description = "The project's handle"), ("environment_id" = String, Path), ("path" = Option<String>, Query, description = "Relative ones start at the workspace, absolute ones at the environment's root"), ("path_bytes" = Option<String>, Query, description = "Instead of `path`, in hexadecimal digits, for names that are not UTF-8"), ("Range" = Option<String>, Header, description = "One range of bytes"), ("If-Range" = Option<String>, Header, description = "Send the range only if this is still the `ETag`")),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream", description = "The whole file"), (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The range"), (status = 416, body = stead_domain::error::ErrorBody, description = "The range begins after the end"), ChangeErrors),
)]
pub async fn handler(
    Shared(state): Shared<State>,
    In(entered): In,
    Path((_, id)): Path<(String, String)>,
    mut query: Query,
    headers: HeaderMap,
) -> Result<Response> {
    let id = parse_id(&id)?;
    let path = asked(&state, &entered, id, path(&mut query).and_then(|path| query.end().map(|()| path))).await?;
    let wanted = headers.get(RANGE).and_then(|range| range.to_str().ok()).and_then(Range::parse);
    let Some(wanted) = wanted else {
        let reader = state.app.read_file(&entered, id, path, 0, None).await?;
        let size = reader.entry.size;
        // What the kernel makes up while it is read has no size beforehand.
        return Ok(answer(StatusCode::OK, reader, (size > 0).then_some(size)));
    };
    let entry = state.app.stat_target(&entered, id, &path).await?;
    let unchanged = headers.get(IF_RANGE).is_none_or(|tag| tag.as_bytes() == etag(&entry).as_bytes());
    if !unchanged {
        let reader = state.app.read_file(&entered, id, path, 0, None).await?;
        let size = reader.entry.size;
        return Ok(answer(StatusCode::OK, reader, (size > 0).then_some(size)));
    }
    let (first, last) = wanted.within(entry.size).ok_or_else(|| {
        Error::new(Code::RangeNotSatisfiable, format!("the range begins after the end of `{path}`, which has {} bytes", entry.size))
            .detail("size", entry.size)
            .suggestion("ask for a range within it")
    })?;
    let reader = state.app.read_file(&entered, id, path, first, Some(last - first + 1)).await?;
    let mut response = answer(StatusCode::PARTIAL_CONTENT, reader, Some(last - first + 1));
    if let Ok(range) = HeaderValue::from_str(&format!("bytes {first}-{last}/{}", entry.size)) {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    Ok(response)
}

fn answer(status: StatusCode, reader: FileReader, length: Option<u64>) -> Response {
    let tag = HeaderValue::from_str(&etag(&reader.entry));
    let mode = HeaderValue::from_str(&reader.entry.mode);
    let mut response = Response::new(body(reader, length));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // Nothing from inside is ever shown as a page of ours.
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Ok(tag) = tag {
        headers.insert(ETAG, tag);
    }
    if let Ok(mode) = mode {
        headers.insert("stead-file-mode", mode);
    }
    response
}

fn etag(entry: &FileEntry) -> String {
    format!("\"{:x}-{:x}\"", entry.modified_at.microseconds(), entry.size)
}

/// As many bytes as were promised: of a file that grows, no more; one that shrinks is cut off, and whoever reads can tell.
fn body(reader: FileReader, length: Option<u64>) -> Body {
    let pieces = stream::unfold((reader, length), |(mut reader, left)| async move {
        if left == Some(0) {
            return None;
        }
        match reader.bytes.next().await {
            Ok(Some(mut bytes)) => {
                let left = left.map(|left| {
                    bytes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    left - bytes.len() as u64
                });
                Some((Ok(bytes), (reader, left)))
            }
            Ok(None) if left.is_none() => None,
            Ok(None) => Some((Err(std::io::Error::other("the file became shorter")), (reader, Some(0)))),
            Err(error) => Some((Err(std::io::Error::other(error)), (reader, Some(0)))),
        }
    });
    Body::from_stream(pieces)
}

/// One range. Several, or other units, are answered with the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    From(u64, Option<u64>),
    Last(u64),
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
        match (first.trim(), last.trim()) {
            ("", last) => last.parse().ok().map(Self::Last),
            (first, "") => Some(Self::From(first.parse().ok()?, None)),
            (first, last) => {
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// The first and the last byte of it in a file of that size.
    fn within(self, size: u64) -> Option<(u64, u64)> {
        let end = size.checked_sub(1)?;
        match self {
            Self::From(first, last) => (first <= end).then(|| (first, last.unwrap_or(end).min(end))),
            Self::Last(0) => None,
            Self::Last(count) => Some((size.saturating_sub(count), end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_clients_send() {
        for (text, expected) in [
            ("bytes=0-9", Some((0, 9))),
            ("bytes=5-", Some((5, 99))),
            ("bytes=-10", Some((90, 99))),
            ("bytes=-1000", Some((0, 99))),
            ("bytes=90-1000", Some((90, 99))),
            ("bytes=100-", None),
            ("bytes=-0", None),
        ] {
            assert_eq!(Range::parse(text).unwrap().within(100), expected, "{text}");
        }
        assert_eq!(Range::parse("bytes=0-").unwrap().within(0), None);
        for text in ["bytes=9-5", "bytes=1-2,4-5", "lines=1-2", "bytes=", "bytes=a-b", "bytes=-"] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
    }
}
