//! Requests made up from the server's own document and a seed: whatever is sent, the answer is JSON and never a fault of the server's.

use serde_json::{Map, Value, json};
use stead_testing::PrivatePostgres;

use super::assert_error_body;
use crate::crashes::{Dice, ENVIRONMENTS, create, proving};
use crate::support::{Http, Server};

const WORDS: &[&str] = &[
    "default",
    "local",
    "web",
    "ready",
    "owner",
    "robot",
    "\u{0}",
    "ü",
    "..",
    "",
    "x y",
    "0",
    "-1",
    "true",
    "null",
    "e\u{301}",
    "\u{10ffff}",
    "local-default",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "-009999-01-01T00:00:00Z",
    "1h",
    "99999999999999999999",
    "*",
    "[]",
    "{}",
    "%",
    "'",
    "\"",
    "\\",
];

struct Inventor {
    dice: Dice,
    document: Value,
    /// Ids that exist, so that some requests reach something.
    known: Vec<String>,
}

impl Inventor {
    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.dice.roll(of.len() as u64) as usize]
    }

    fn word(&mut self) -> String {
        match self.dice.roll(10) {
            0..=2 if !self.known.is_empty() => {
                let known = self.known.clone();
                self.one(&known).clone()
            }
            3 => "x".repeat(self.dice.roll(400) as usize),
            4 => (0..self.dice.roll(12)).filter_map(|_| char::from_u32(self.dice.roll(0x11_0000) as u32)).collect(),
            5 => format!("{}_{:032x}", self.one(&["env", "sbx", "prj", "prn", "key", "prc"]), self.dice.roll(u64::MAX)),
            6 => format!("n{}", self.dice.roll(1000)),
            _ => (*self.one(WORDS)).to_owned(),
        }
    }

    fn anything(&mut self, depth: u32) -> Value {
        match self.dice.roll(if depth > 4 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.dice.roll(2) == 0),
            2 => json!(self.dice.roll(1 << 40) as i64 - (1 << 20)),
            3 => json!(self.dice.roll(1000) as f64 / 7.0),
            4 => json!(u64::MAX - self.dice.roll(3)),
            5 => json!(self.word()),
            6 => (0..self.dice.roll(4)).map(|_| self.anything(depth + 1)).collect(),
            _ => Value::Object((0..self.dice.roll(4)).map(|_| (self.word(), self.anything(depth + 1))).collect()),
        }
    }

    /// Something that fits the schema, more often than not.
    fn fitting(&mut self, schema: &Value, depth: u32) -> Value {
        if depth > 8 || self.dice.roll(25) == 0 {
            return self.anything(depth);
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
            let found = self.document["components"]["schemas"][name].clone();
            return self.fitting(&found, depth + 1);
        }
        for several in ["oneOf", "anyOf", "allOf"] {
            if let Some(list) = schema[several].as_array().filter(|list| !list.is_empty()) {
                let chosen = self.one(list).clone();
                return self.fitting(&chosen, depth + 1);
            }
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.one(values).clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) if !kinds.is_empty() => self.one(kinds).clone(),
            kind => kind.clone(),
        };
        match kind.as_str().unwrap_or_default() {
            "object" => {
                let mut object = Map::new();
                for (name, inner) in schema["properties"].as_object().cloned().unwrap_or_default() {
                    let required = schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
                    if self.dice.roll(if required { 20 } else { 3 }) == 0 && required {
                        continue;
                    }
                    if required || self.dice.roll(3) == 0 {
                        object.insert(name, self.fitting(&inner, depth + 1));
                    }
                }
                if schema["additionalProperties"].is_object() {
                    object.insert(self.word(), self.fitting(&schema["additionalProperties"].clone(), depth + 1));
                }
                if self.dice.roll(15) == 0 {
                    object.insert(self.word(), self.anything(depth + 1));
                }
                Value::Object(object)
            }
            "array" => (0..self.dice.roll(3)).map(|_| self.fitting(&schema["items"].clone(), depth + 1)).collect(),
            "integer" => json!(self.dice.roll(5000)),
            "number" => json!(self.dice.roll(100) as f64 / 3.0),
            "boolean" => json!(self.dice.roll(2) == 0),
            "string" => json!(self.word()),
            "null" => Value::Null,
            _ => self.anything(depth),
        }
    }
}

fn escape(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") }
            },
        )
        .collect()
}

/// The bodies of these routes end the server or take away what the test stands on, or their answers have no end.
fn is_spared(method: &str, path: &str) -> bool {
    path == "/v1/system/shutdown"
        || path.ends_with("/files/watch")
        || (method == "DELETE" && path == "/v1/projects/{project}")
        || (method == "PATCH" && path == "/v1/projects/{project}")
}

fn invent(server: &Server, seed: u64) {
    let http = server.http();
    let document = http.get("/openapi.json").json();
    let mut inventor = Inventor { dice: Dice(seed), document: document.clone(), known: Vec::new() };
    let first = create(&http, "first").unwrap().json();
    let identity = http.get("/v1/identity").json();
    for value in [&first["id"], &first["sandbox_id"], &identity["principal_id"]] {
        inventor.known.push(value.as_str().unwrap().to_owned());
    }
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if !is_spared(&method.to_uppercase(), path) {
                operations.push((method.to_uppercase(), path.clone(), operation.clone()));
            }
        }
    }
    assert!(operations.len() > 30);
    let mut succeeded = 0;
    for round in 0..if proving() { 60_000 } else { 1500 } {
        let (method, path, operation) = inventor.one(&operations).clone();
        let target: Vec<String> = path
            .split('/')
            .map(|part| match part {
                "{project}" if inventor.dice.roll(10) > 0 => "default".to_owned(),
                "{name}" if inventor.dice.roll(3) > 0 => "local".to_owned(),
                part if part.starts_with('{') => escape(&inventor.word()),
                part => part.to_owned(),
            })
            .collect();
        let mut target = target.join("/");
        let mut headers: Vec<(String, String)> = Vec::new();
        for parameter in operation["parameters"].as_array().cloned().unwrap_or_default() {
            let name = parameter["name"].as_str().unwrap_or_default().to_owned();
            if inventor.dice.roll(4) > 0 {
                continue;
            }
            let value = match inventor.fitting(&parameter["schema"], 0) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            match parameter["in"].as_str() {
                Some("query") => {
                    target.push_str(&format!("{}{}={}", if target.contains('?') { '&' } else { '?' }, escape(&name), escape(&value)));
                }
                Some("header") => headers.push((name, value.chars().filter(|c| c.is_ascii_graphic()).collect())),
                _ => {}
            }
        }
        let schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
        let body = match inventor.dice.roll(20) {
            0 => None,
            1 => Some(inventor.word().into_bytes()),
            2 => Some(inventor.anything(0).to_string().into_bytes()),
            _ if schema.is_null() => None,
            _ => Some(inventor.fitting(&schema, 0).to_string().into_bytes()),
        };
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let what = format!("seed {seed}, round {round}: {method} {target} {headers:?} {:?}", body.as_deref().map(String::from_utf8_lossy));
        let reply = http.try_send(&method, &target, &headers, body.as_deref()).unwrap_or_else(|error| panic!("{what}: {error}"));
        // Nobody has given this server what those need.
        assert!(reply.status < 500 || reply.status == 501, "{what}: {} {}", reply.status, String::from_utf8_lossy(&reply.body));
        if reply.status >= 400 {
            assert_error_body(&reply, &what);
            continue;
        }
        succeeded += 1;
        if !target.starts_with("/v1") || reply.body.is_empty() {
            continue;
        }
        // Bytes, or lines of their own.
        if ["/logs", "/files", "/files/archive", "/files/grep", "/export"].iter().any(|end| path.ends_with(end)) {
            continue;
        }
        assert_eq!(reply.header("content-type"), Some("application/json"), "{what}");
        let told = reply.json();
        if reply.status == 201 && inventor.known.len() < 60 {
            inventor
                .known
                .extend(["id", "sandbox_id", "principal_id", "name"].iter().filter_map(|field| Some(told[field].as_str()?.to_owned())));
        }
    }
    assert!(succeeded > 100, "some of it makes sense: {succeeded}");
    assert_sound(&http);
}

/// After all that, everything still works.
fn assert_sound(http: &Http) {
    assert_eq!(http.get("/readyz").status, 200);
    let reply = create(http, "after-all-that").unwrap();
    assert_eq!(reply.status, 201, "{}", reply.json());
    for record in crate::crashes::settled(http) {
        // Who holds it may have let go since.
        let still = |record: &Value| {
            let mut record = record.clone();
            for field in ["held_by", "lease_expires_at"] {
                record.as_object_mut().unwrap().remove(field);
            }
            record
        };
        let again = http.get(&format!("{ENVIRONMENTS}/{}", record["id"].as_str().unwrap()));
        assert_eq!(still(&again.json()), still(&record));
    }
}

#[test]
fn made_up_requests_never_hurt_on_sqlite() {
    invent(&Server::builder().with(&["--rate-limit", "0"]).start(), 21);
}

#[test]
fn made_up_requests_never_hurt_on_postgres() {
    let postgres = PrivatePostgres::start();
    let url = postgres.url();
    invent(&Server::builder().with(&["--rate-limit", "0", "--database", &url]).start(), 22);
}
