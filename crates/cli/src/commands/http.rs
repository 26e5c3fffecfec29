use std::io::Read;
use std::path::Path;

use stead_client::{Method, Request};
use stead_domain::error::ErrorBody;
use stead_domain::{Code, Error};

use crate::arguments::system::Http;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result, file_error};
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &Http) -> Result<()> {
    let body = arguments.data.as_deref().map(body).transpose()?;
    let client = invocation.client().await?;
    let mut request = Request::new(method(&arguments.method)?, path(&arguments.path, &client.project_path("")));
    if let Some(body) = body {
        request = request.body(body).header("content-type", "application/json")?;
    }
    for header in &arguments.headers {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| Error::new(Code::Usage, format!("`{header}` is not a header")).suggestion("write it as -H 'Name: value'"))?;
        request = request.header(name.trim(), value.trim())?;
    }
    let response = client.send(request).await?;
    invocation.printer.raw(&response.body)?;
    if response.is_success() {
        return Ok(());
    }
    // The body has been shown and says why; only the status is new.
    let code = serde_json::from_slice::<ErrorBody>(&response.body).map(|body| body.error.code).unwrap_or_default();
    invocation.printer.note(&format!("the server answered with status {}", response.status));
    Err(Failure::Told(ExitStatus::from_reply(&code, response.status)))
}

fn method(text: &str) -> Result<Method> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => {
            upper.parse().map_err(|_| Failure::usage(format!("`{text}` is not a method")))
        }
        _ => Err(Failure::usage(format!("`{text}` is not a method; it should be GET, POST, PUT, PATCH or DELETE"))),
    }
}

/// As it is with a slash in front, below the project without.
fn path(path: &str, project: &str) -> String {
    let handle = project.rsplit('/').next().unwrap_or_default();
    let path = path.replace("{project}", handle);
    if path.starts_with('/') { path } else { format!("{project}/{path}") }
}

fn body(text: &str) -> Result<Vec<u8>> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.as_bytes().to_vec()) };
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map_err(|error| file_error("read", Path::new(file), &error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_a_slash_is_below_the_project() {
        for (given, expected) in [
            ("environments?limit=1", "/v1/projects/acme/environments?limit=1"),
            ("/v1/projects", "/v1/projects"),
            ("/healthz", "/healthz"),
            ("/v1/projects/{project}/audit", "/v1/projects/acme/audit"),
        ] {
            assert_eq!(path(given, "/v1/projects/acme"), expected);
        }
        assert!(method("get").is_ok() && method("FETCH").is_err());
    }
}
