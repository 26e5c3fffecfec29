//! What these tests share: a server on either store, and short ways to ask it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use stead_domain::Timestamp;
use stead_testing::PrivatePostgres;

use crate::support::{Http, Reply, Server};

pub const ENVIRONMENTS: &str = "/v1/projects/default/environments";
pub const SANDBOXES: &str = "/v1/projects/default/sandboxes";

/// The same check on a server with SQLite and on one with PostgreSQL: what a caller sees must not tell them apart.
pub fn on_both_stores(arguments: &[&str], check: impl Fn(&Server)) {
    check(&Server::builder().with(arguments).start());
    on_postgres(arguments, |server, _| check(server));
}

/// A server on a PostgreSQL of its own, which the check may also change behind the server's back.
pub fn on_postgres(arguments: &[&str], check: impl Fn(&Server, &PrivatePostgres)) {
    let postgres = PrivatePostgres::start();
    check(&Server::builder().with(arguments).with(&["--database", &postgres.url()]).start(), &postgres);
}

/// The body of a reply that must have this status.
#[track_caller]
pub fn expect(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{}", String::from_utf8_lossy(&reply.body));
    if reply.body.is_empty() { Value::Null } else { reply.json() }
}

/// The details of a refusal that must have this status and code. Every refusal says what to do next or names the field.
#[track_caller]
pub fn refused(reply: &Reply, status: u16, code: &str) -> Value {
    let body = expect(reply, status);
    assert_eq!(body["error"]["code"], code, "{body}");
    let details = body["error"]["details"].clone();
    assert!(details["suggestion"].is_string() || details["field"].is_string(), "no next step: {body}");
    assert_eq!(details["request_id"].as_str(), reply.header("x-request-id"), "{body}");
    details
}

#[track_caller]
pub fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {value}")).to_owned()
}

pub fn message(reply: &Reply) -> String {
    text(&reply.json()["error"], "message")
}

/// Creates an environment from this body.
#[track_caller]
pub fn create(http: &Http, body: Value) -> Value {
    expect(&http.post(ENVIRONMENTS, body), 201)
}

/// The path of an environment.
pub fn at(environment: &Value) -> String {
    format!("{ENVIRONMENTS}/{}", text(environment, "id"))
}

/// Every item of a list, page by page.
#[track_caller]
pub fn walk(http: &Http, path: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let joint = if path.contains('?') { '&' } else { '?' };
        let page = expect(&http.get(&format!("{path}{joint}limit={limit}{cursor}")), 200);
        let rows = page["items"].as_array().unwrap();
        assert!(rows.len() <= limit);
        items.extend(rows.iter().cloned());
        assert_eq!(page["has_more"].as_bool(), Some(page["next_cursor"].is_string()), "{page}");
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

pub fn names(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| text(item, "name")).collect()
}

/// A time from now, as a request states it.
pub fn time_from_now(duration: Duration) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + duration;
    Timestamp::from_microseconds(i64::try_from(since.as_micros()).unwrap()).to_string()
}

/// A HEAD request: its reply announces a body that never comes, so it is read to the end of the connection.
pub fn head(server: &Server, path: &str, key: Option<&str>) -> Reply {
    let address = server.address.trim_start_matches("http://");
    let credential = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "HEAD {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{credential}\r\n").unwrap();
    let mut whole = Vec::new();
    socket.read_to_end(&mut whole).unwrap();
    let end = whole.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    let (head, body) = whole.split_at(end);
    let head = std::str::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    Reply { status, headers, body: body.to_vec() }
}

/// Runs pieces of work at the same moment and gives their outcomes.
pub fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let gate = std::sync::Barrier::new(count);
    std::thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let threads: Vec<_> = (0..count)
            .map(|number| {
                scope.spawn(move || {
                    gate.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
