use std::sync::Arc;

use serde_json::Value;
use stead_domain::{Clock, Randomness, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::*;

struct Still;
impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }
}
struct Constant;
impl Randomness for Constant {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0xa5);
    }
}

/// A server that answers each request with the next text, and hangs up where the text is empty. It keeps the requests that it read.
struct Scripted {
    client: Client,
    requests: Arc<Mutex<Vec<String>>>,
    _directory: tempfile::TempDir,
    _task: JoinSet<()>,
}

fn scripted(replies: &[&str]) -> Scripted {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let mut replies: Vec<String> = replies.iter().rev().map(ToString::to_string).collect();
    let (mut task, seen) = (JoinSet::new(), Arc::clone(&requests));
    task.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 65536];
            while let Ok(length) = stream.read(&mut buffer).await
                && length > 0
            {
                seen.lock().await.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
                match replies.pop() {
                    Some(reply) if !reply.is_empty() => stream.write_all(reply.as_bytes()).await.unwrap(),
                    _ => break,
                }
            }
        }
    });
    let context = Context::new(Arc::new(Still), Arc::new(Constant));
    let client = Client::new(Endpoint::Unix { path }, Some(Key::new("stk_secret")), "default", context);
    Scripted { client, requests, _directory: directory, _task: task }
}

fn reply(status: &str, kind: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nretry-after: 0\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_lost_post_is_repeated_under_the_same_key() {
    let server = scripted(&["", &reply("201 Created", "application/json", "{\"a\":1}")]);
    let value: Value = server.client.json(Request::post("/v1/x").json(&Value::Null).unwrap()).await.unwrap();
    assert_eq!(value["a"], 1);
    let requests = server.requests.lock().await;
    assert_eq!(requests.len(), 2);
    assert!(requests.iter().all(|text| text.contains(&format!("idempotency-key: {}", "a5".repeat(16)))), "{requests:?}");
    assert!(requests[0].contains("authorization: Bearer stk_secret"));
}

#[tokio::test]
async fn a_patch_that_was_sent_is_not_repeated() {
    let server = scripted(&["", &reply("200 OK", "application/json", "{}")]);
    let failure = server.client.json::<Value>(Request::patch("/v1/x")).await.unwrap_err();
    assert!(matches!(failure, ClientError::Lost { .. }), "{failure}");
    assert_eq!(server.requests.lock().await.len(), 1);
}

#[tokio::test]
async fn a_busy_server_is_waited_for() {
    let busy = reply("429 Too Many Requests", "application/json", "{}");
    let server = scripted(&[&busy, &busy, &reply("200 OK", "application/json", "[]")]);
    assert!(server.client.json::<Value>(Request::get("/v1/x")).await.unwrap().is_array());
    let patient = scripted(&[&busy, &busy, &busy, &busy, &busy]);
    assert_eq!(patient.client.send(Request::get("/v1/x")).await.unwrap().status, 429);
    assert_eq!(patient.requests.lock().await.len(), 4);
}

#[tokio::test]
async fn errors_say_what_came() {
    let body = r#"{"error":{"code":"not_found","message":"no","details":{"recoverable":false}}}"#;
    let server = scripted(&[&reply("404 Not Found", "application/json", body), &reply("502 Bad Gateway", "text/html", "<h1>proxy</h1>")]);
    match server.client.json::<Value>(Request::get("/v1/x")).await.unwrap_err() {
        ClientError::Reply { status: 404, body } => assert_eq!(body.error.code, "not_found"),
        other => panic!("{other}"),
    }
    let text = server.client.json::<Value>(Request::get("/v1/x")).await.unwrap_err().to_string();
    assert!(text.contains("502") && text.contains("text/html") && text.contains("<h1>proxy</h1>"), "{text}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let context = Context::new(Arc::new(Still), Arc::new(Constant));
    let directory = tempfile::tempdir().unwrap();
    let client = Client::new(Endpoint::Unix { path: directory.path().join("none") }, None, "default", context);
    assert!(matches!(client.connect().await, Err(ClientError::Unreachable { .. })));
}
