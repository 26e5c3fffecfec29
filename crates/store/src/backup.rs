//! A backup: every table as lines of JSON, the same for both databases, so that one also moves a store from one to the other.
//!
//! The last line counts and hashes the ones before it: half a backup is never restored.

use std::io::{BufRead, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use stead_domain::Timestamp;

use crate::error::{Result, StoreError};
use crate::unit::Unit;
use crate::value::{Row, Value};
use crate::{Store, leases, migrations, sandboxes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Blob,
}
use Kind::{Blob, Integer, Text};

/// One table: its columns, and how many of the first make its key.
struct Table {
    name: &'static str,
    key: usize,
    columns: &'static [(&'static str, Kind)],
}

/// In the order in which rows may point at each other.
const TABLES: &[Table] = &[
    Table { name: "settings", key: 1, columns: &[("name", Text), ("value", Text)] },
    Table {
        name: "projects",
        key: 1,
        columns: &[
            ("id", Text),
            ("handle", Text),
            ("name", Text),
            ("created_at", Integer),
            ("updated_at", Integer),
            ("deleted_at", Integer),
        ],
    },
    Table {
        name: "principals",
        key: 1,
        columns: &[("id", Text), ("home", Text), ("kind", Text), ("name", Text), ("name_key", Text), ("created_at", Integer)],
    },
    Table {
        name: "members",
        key: 2,
        columns: &[("project_id", Text), ("principal_id", Text), ("role", Text), ("created_at", Integer), ("updated_at", Integer)],
    },
    Table {
        name: "api_keys",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("principal_id", Text),
            ("name", Text),
            ("key_hash", Text),
            ("key_prefix", Text),
            ("pinned", Integer),
            ("tags", Text),
            ("expires_at", Integer),
            ("last_used_at", Integer),
            ("revoked_at", Integer),
            ("created_at", Integer),
            ("updated_at", Integer),
        ],
    },
    Table {
        name: "hosts",
        key: 1,
        columns: &[("id", Text), ("address", Text), ("version", Text), ("started_at", Integer), ("heartbeat_at", Integer)],
    },
    Table {
        name: "sandboxes",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("provider", Text),
            ("status", Text),
            ("resource_id", Text),
            ("resource_name", Text),
            ("host_id", Text),
            ("made_for", Text),
            ("fence", Integer),
            ("observed_state", Text),
            ("observed_message", Text),
            ("observed_at", Integer),
            ("last_error", Text),
            ("created_at", Integer),
            ("updated_at", Integer),
            ("destroyed_at", Integer),
            ("upper", Text),
            ("layers", Text),
            ("checkpoint_id", Text),
            ("dirty", Integer),
            ("not_before_era", Integer),
            ("not_before", Integer),
            ("confirmed_in", Integer),
            ("due_era", Integer),
            ("due", Integer),
            ("cleaning_failures", Integer),
            ("quarantined", Text),
        ],
    },
    Table {
        name: "environments",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("sandbox_id", Text),
            ("name", Text),
            ("name_key", Text),
            ("scope", Text),
            ("scope_key", Text),
            ("provider", Text),
            ("status", Text),
            ("environment_mode", Text),
            ("lifetime", Text),
            ("purpose", Text),
            ("owned_by", Text),
            ("bound_to_type", Text),
            ("bound_to_id", Text),
            ("created_by", Text),
            ("updated_by", Text),
            ("template_id", Text),
            ("capabilities", Text),
            ("spec_version", Integer),
            ("spec", Text),
            ("fingerprint", Text),
            ("posture", Text),
            ("tags", Text),
            ("contains_secrets", Integer),
            ("allow_unenforced", Integer),
            ("cleanup_status", Text),
            ("retention_policy", Text),
            ("revision", Integer),
            ("last_seen_at", Integer),
            ("last_reconciled_at", Integer),
            ("last_error", Text),
            ("created_at", Integer),
            ("updated_at", Integer),
            ("deleted_at", Integer),
            ("destroyed_at", Integer),
            ("setup_version", Integer),
            ("repository_grant", Text),
        ],
    },
    Table {
        name: "definition_versions",
        key: 2,
        columns: &[
            ("environment_id", Text),
            ("version", Integer),
            ("fingerprint", Text),
            ("spec", Text),
            ("created_by", Text),
            ("created_at", Integer),
            ("rolled_back_to", Integer),
        ],
    },
    Table {
        name: "processes",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("environment_id", Text),
            ("sandbox_id", Text),
            ("host_id", Text),
            ("status", Text),
            ("argv", Text),
            ("cwd", Text),
            ("stdin", Text),
            ("terminal", Text),
            ("timeout_ms", Integer),
            ("spec_version", Integer),
            ("fence", Integer),
            ("started_by", Text),
            ("created_at", Integer),
            ("exit", Text),
            ("error", Text),
            ("ended_at", Integer),
            ("purpose", Text),
            ("warnings", Text),
        ],
    },
    Table {
        name: "secrets",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("name", Text),
            ("version", Integer),
            ("sealed", Blob),
            ("key_id", Text),
            ("created_by", Text),
            ("created_at", Integer),
            ("updated_by", Text),
            ("updated_at", Integer),
            ("deleted_at", Integer),
        ],
    },
    Table {
        name: "secret_versions",
        key: 2,
        columns: &[("secret_id", Text), ("version", Integer), ("created_by", Text), ("created_at", Integer)],
    },
    Table {
        name: "leases",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("environment_id", Text),
            ("sandbox_id", Text),
            ("principal_id", Text),
            ("bind", Text),
            ("mode", Text),
            ("implicit", Integer),
            ("stage", Text),
            ("fence", Integer),
            ("ttl", Integer),
            ("max_lifetime", Integer),
            ("era", Integer),
            ("expires", Integer),
            ("ends", Integer),
            ("terms", Text),
            ("token_hash", Text),
            ("acquired_at", Integer),
            ("ended_at", Integer),
            ("how", Text),
            ("clean", Integer),
            ("reason", Text),
            ("work", Text),
        ],
    },
    Table {
        name: "tickets",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("environment_id", Text),
            ("sandbox_id", Text),
            ("lease_id", Text),
            ("principal_id", Text),
            ("bind", Text),
            ("mode", Text),
            ("ttl", Integer),
            ("max_lifetime", Integer),
            ("priority", Integer),
            ("rank", Integer),
            ("wait", Integer),
            ("era", Integer),
            ("deadline", Integer),
            ("terms", Text),
            ("status", Text),
            ("created_at", Integer),
            ("ended_at", Integer),
        ],
    },
    Table {
        name: "checkpoints",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("environment_id", Text),
            ("sandbox_id", Text),
            ("host_id", Text),
            ("name", Text),
            ("parent_id", Text),
            ("state", Text),
            ("reason", Text),
            ("layers", Text),
            ("sealed_in", Text),
            ("message", Text),
            ("created_by", Text),
            ("created_at", Integer),
            ("durable_at", Integer),
            ("setup_version", Integer),
            ("deleted_at", Integer),
        ],
    },
    Table {
        name: "audit",
        key: 1,
        columns: &[
            ("id", Text),
            ("project_id", Text),
            ("at", Integer),
            ("principal_id", Text),
            ("action", Text),
            ("target_type", Text),
            ("target_id", Text),
            ("source", Text),
            ("request_id", Text),
            ("details", Text),
        ],
    },
    Table {
        name: "idempotency",
        key: 2,
        columns: &[
            ("scope", Text),
            ("key", Text),
            ("fingerprint", Text),
            ("target_id", Text),
            ("status", Integer),
            ("reply", Blob),
            ("sealed", Integer),
            ("created_at", Integer),
            ("expires_at", Integer),
        ],
    },
];

const FORMAT: &str = "stead-backup";
const PAGE: usize = 500;
/// The longest line, in bytes. No row comes near; a file that is no backup may be one endless line.
const LINE: usize = 16 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    schema_version: i64,
    created_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Footer {
    rows: u64,
    sha256: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the backup cannot be read or written: {0}")]
    File(#[from] std::io::Error),
    #[error("line {line} of the backup is not what a backup holds: {problem}")]
    Malformed { line: u64, problem: String },
    #[error("the backup is cut off or was changed: its last line does not fit the ones before it")]
    Damaged,
    #[error("the backup has schema version {backup}, this stead restores version {binary}")]
    OtherVersion { backup: i64, binary: i64 },
    #[error("the store is not empty")]
    NotEmpty,
}

impl Table {
    fn column_list(&self) -> String {
        self.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn key_list(&self) -> String {
        self.columns[..self.key].iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn placeholders(count: usize) -> String {
        (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
    }

    /// The next rows after one key, in key order.
    async fn page(&self, unit: &mut Unit, after: Option<&Row>) -> Result<Vec<Row>> {
        let (columns, keys, limit) = (self.column_list(), self.key_list(), PAGE);
        match after {
            None => unit.query(&format!("SELECT {columns} FROM {} ORDER BY {keys} LIMIT {limit}", self.name), &[]).await,
            Some(row) => {
                let bound = Self::placeholders(self.key);
                let sql = format!("SELECT {columns} FROM {} WHERE ({keys}) > ({bound}) ORDER BY {keys} LIMIT {limit}", self.name);
                unit.query(&sql, &row.0[..self.key]).await
            }
        }
    }

    async fn insert(&self, unit: &mut Unit, values: &[Value]) -> Result<()> {
        let sql = format!("INSERT INTO {} ({}) VALUES ({})", self.name, self.column_list(), Self::placeholders(values.len()));
        unit.run(&sql, values).await.map(drop)
    }
}

/// Writes the whole store, as it is at one moment, and tells how many rows it was.
pub async fn write(store: &Store, out: impl Write + Send + 'static, now: Timestamp) -> Result<u64, BackupError> {
    store
        .snapshot(move |unit| {
            Box::pin(async move {
                let mut out = Hashing { out, hash: Sha256::new() };
                let header = Header { format: FORMAT.to_owned(), schema_version: migrations::current(unit).await?, created_at: now };
                out.line(&header)?;
                let mut count = 0;
                for table in TABLES {
                    let mut after: Option<Row> = None;
                    loop {
                        let rows = table.page(unit, after.as_ref()).await?;
                        for row in &rows {
                            out.line(&(table.name, row.0.iter().map(to_json).collect::<Vec<_>>()))?;
                            count += 1;
                        }
                        if rows.len() < PAGE {
                            break;
                        }
                        after = rows.into_iter().next_back();
                    }
                }
                let footer = Footer { rows: count, sha256: out.digest() };
                out.line(&footer)?;
                out.out.flush()?;
                Ok(count)
            })
        })
        .await
}

/// Puts a backup into a store that is empty, or in place of what is there. Everything or nothing. Every fence jumps far ahead.
pub async fn restore(store: &Store, input: impl BufRead + Send + 'static, replace: bool) -> Result<u64, BackupError> {
    let input = Arc::new(Mutex::new(input));
    store
        .write(move |unit| {
            Box::pin(async move {
                if !replace && !is_empty(unit).await? {
                    return Err(BackupError::NotEmpty);
                }
                for table in TABLES.iter().rev() {
                    unit.run(&format!("DELETE FROM {}", table.name), &[]).await?;
                }
                let mut lines = Lines { input, number: 0, hash: Sha256::new() };
                let first = lines.next()?.ok_or(BackupError::Damaged)?;
                let header: Header = lines.parse(&first)?;
                if header.format != FORMAT {
                    return Err(BackupError::Malformed { line: 1, problem: "it does not begin as a backup does".to_owned() });
                }
                if header.schema_version != migrations::newest() {
                    return Err(BackupError::OtherVersion { backup: header.schema_version, binary: migrations::newest() });
                }
                let mut count = 0;
                loop {
                    let before = lines.digest();
                    let line = lines.next()?.ok_or(BackupError::Damaged)?;
                    if line.starts_with('{') {
                        let footer: Footer = lines.parse(&line)?;
                        if footer.rows != count || footer.sha256 != before || lines.next()?.is_some() {
                            return Err(BackupError::Damaged);
                        }
                        break;
                    }
                    let (name, values): (String, Vec<Json>) = lines.parse(&line)?;
                    let malformed = |problem: &str| BackupError::Malformed { line: lines.number, problem: problem.to_owned() };
                    let table = TABLES.iter().find(|table| table.name == name).ok_or_else(|| malformed("an unknown table"))?;
                    if values.len() != table.columns.len() {
                        return Err(malformed("a row of another length"));
                    }
                    let values: Option<Vec<Value>> =
                        values.iter().zip(table.columns).map(|(json, (_, kind))| from_json(json, *kind)).collect();
                    table.insert(unit, &values.ok_or_else(|| malformed("a value of another type"))?).await?;
                    count += 1;
                }
                sandboxes::jump_fences(unit).await?;
                leases::end_all(unit).await?;
                Ok(count)
            })
        })
        .await
}

async fn is_empty(unit: &mut Unit) -> Result<bool> {
    let rows = unit.fetch("SELECT COUNT(*) FROM projects", &[]).await?;
    rows.first().map_or(Ok(true), |row| Ok(row.reader().count()? == 0))
}

struct Hashing<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Hashing<W> {
    fn line(&mut self, value: &impl Serialize) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        // Better no backup than one that cannot be restored.
        if text.len() > LINE {
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, format!("a row is longer than {LINE} bytes")));
        }
        self.hash.update(&text);
        self.out.write_all(&text)
    }

    fn digest(&self) -> String {
        hexadecimal(&self.hash.clone().finalize())
    }
}

struct Lines<R> {
    input: Arc<Mutex<R>>,
    number: u64,
    hash: Sha256,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<Option<String>, BackupError> {
        let mut text = Vec::new();
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        // One more than may be there tells a line that is too long from one that just fits.
        if (&mut *input).take(LINE as u64 + 1).read_until(b'\n', &mut text)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let malformed = |problem: String| BackupError::Malformed { line: self.number, problem };
        if text.len() > LINE {
            return Err(malformed(format!("it is longer than {LINE} bytes")));
        }
        self.hash.update(&text);
        String::from_utf8(text).map(Some).map_err(|error| malformed(error.to_string()))
    }

    fn digest(&self) -> String {
        hexadecimal(&self.hash.clone().finalize())
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, line: &str) -> Result<T, BackupError> {
        serde_json::from_str(line).map_err(|error| BackupError::Malformed { line: self.number, problem: error.to_string() })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Text(Some(text)) => Json::from(text.as_str()),
        Value::Integer(Some(integer)) => Json::from(*integer),
        Value::Blob(Some(bytes)) => Json::from(hexadecimal(bytes)),
        _ => Json::Null,
    }
}

fn from_json(json: &Json, kind: Kind) -> Option<Value> {
    match (kind, json) {
        (Text, Json::Null) => Some(Value::Text(None)),
        (Integer, Json::Null) => Some(Value::Integer(None)),
        (Blob, Json::Null) => Some(Value::Blob(None)),
        (Text, Json::String(text)) => Some(Value::Text(Some(text.clone()))),
        (Integer, Json::Number(number)) => number.as_i64().map(|integer| Value::Integer(Some(integer))),
        (Blob, Json::String(text)) => {
            let bytes: Option<Vec<u8>> =
                (0..text.len()).step_by(2).map(|at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok())).collect();
            bytes.map(|bytes| Value::Blob(Some(bytes)))
        }
        _ => None,
    }
}

/// The tables and columns that a backup holds, for the test that compares them with the schema.
pub fn described() -> Vec<(&'static str, Vec<&'static str>)> {
    TABLES.iter().map(|table| (table.name, table.columns.iter().map(|(name, _)| *name).collect())).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    fn lines<R: BufRead>(input: R) -> Lines<R> {
        Lines { input: Arc::new(Mutex::new(input)), number: 0, hash: Sha256::new() }
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let error = lines(BufReader::new(std::io::repeat(b'x'))).next().unwrap_err();
        assert!(matches!(error, BackupError::Malformed { line: 1, .. }), "{error}");
    }

    #[test]
    fn a_line_of_the_greatest_length_is_read_and_one_longer_is_not() {
        let text = |length: usize| Cursor::new([vec![b'x'; length - 1], b"\nnext\n".to_vec()].concat());
        let mut fits = lines(text(LINE));
        assert_eq!(fits.next().unwrap().map(|line| line.len()), Some(LINE));
        assert_eq!(fits.next().unwrap().as_deref(), Some("next\n"));
        assert!(fits.next().unwrap().is_none());
        assert!(lines(text(LINE + 1)).next().is_err());
        assert!(lines(Cursor::new(vec![0xff, b'\n'])).next().is_err());
        let mut out = Hashing { out: Vec::new(), hash: Sha256::new() };
        assert!(out.line(&"x".repeat(LINE)).is_err());
    }
}
