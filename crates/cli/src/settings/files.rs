//! The user's configuration and, in a file of its own, the keys.
//!
//! Edits go through a table rather than a struct, so that what a newer version wrote stays in the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use stead_client::Key;
use stead_domain::{Code, Error};
use toml::{Table, Value};

use super::Surroundings;
use crate::atomic_file::{self, Contents};
use crate::failure::{Failure, Result};

/// The profile that always exists: the server on this machine.
pub const LOCAL_PROFILE: &str = "local";

/// `config.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ConfigFile {
    /// The profile in use.
    pub profile: Option<String>,
    #[serde(default)]
    pub local: LocalSection,
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct LocalSection {
    pub project: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Profile {
    pub url: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub project: Option<String>,
}

impl ConfigFile {
    pub fn path(surroundings: &Surroundings) -> Result<PathBuf> {
        Ok(surroundings.configuration_directory()?.join("config.toml"))
    }

    pub fn read(surroundings: &Surroundings) -> Result<Self> {
        // Without a home there is no such file, which is no reason to fail.
        match Self::path(surroundings) {
            Ok(path) => read(&path),
            Err(_) => Ok(Self::default()),
        }
    }

    /// Remembers a project, for a profile or for the local server.
    pub fn select_project(surroundings: &Surroundings, profile: Option<&str>, handle: &str) -> Result<()> {
        let set = |section: &mut Table| {
            section.insert("project".to_owned(), handle.into());
        };
        edit(&Self::path(surroundings)?, |table| match profile {
            Some(name) => within(table, "profiles", |profiles| within(profiles, name, set)),
            None => within(table, "local", set),
        })
    }

    /// Writes a profile and makes it the one in use.
    pub fn write_profile(surroundings: &Surroundings, name: &str, written: &Profile) -> Result<()> {
        edit(&Self::path(surroundings)?, |table| {
            table.insert("profile".to_owned(), name.into());
            let set = |profile: &mut Table| {
                let ca_file = written.ca_file.as_ref().map(|path| path.display().to_string());
                for (field, value) in [("url", &written.url), ("ca_file", &ca_file), ("project", &written.project)] {
                    match value {
                        Some(value) => profile.insert(field.to_owned(), value.clone().into()),
                        None => profile.remove(field),
                    };
                }
            };
            within(table, "profiles", |profiles| within(profiles, name, set));
        })
    }

    pub fn remove_profile(surroundings: &Surroundings, name: &str) -> Result<()> {
        edit(&Self::path(surroundings)?, |table| {
            within(table, "profiles", |profiles| {
                profiles.remove(name);
            });
            if table.get("profile").and_then(Value::as_str) == Some(name) {
                table.remove("profile");
            }
        })
    }
}

/// `credentials.toml`: the keys of the profiles, readable by their user alone.
#[derive(Default, Deserialize)]
pub struct Credentials {
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

impl Credentials {
    pub fn path(surroundings: &Surroundings) -> Result<PathBuf> {
        Ok(surroundings.configuration_directory()?.join("credentials.toml"))
    }

    pub fn key(surroundings: &Surroundings, profile: &str) -> Result<Option<Key>> {
        let credentials: Self = read(&Self::path(surroundings)?)?;
        Ok(credentials.keys.get(profile).map(Key::new))
    }

    /// Whether the file can be read, which an absent one can.
    pub fn check(surroundings: &Surroundings) -> Result<()> {
        match Self::path(surroundings) {
            Ok(path) => read::<Self>(&path).map(drop),
            Err(_) => Ok(()),
        }
    }

    pub fn set(surroundings: &Surroundings, profile: &str, key: &Key) -> Result<()> {
        edit(&Self::path(surroundings)?, |table| {
            within(table, "keys", |keys| {
                keys.insert(profile.to_owned(), key.reveal().into());
            });
        })
    }

    pub fn remove(surroundings: &Surroundings, profile: &str) -> Result<()> {
        edit(&Self::path(surroundings)?, |table| {
            within(table, "keys", |keys| {
                keys.remove(profile);
            });
        })
    }
}

/// Reads a file; one that is not there is the default.
pub(super) fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T> {
    match atomic_file::read_bounded(path)? {
        Contents::Bytes(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| unusable(path, "is not UTF-8"))?;
            toml::from_str(&text).map_err(|error| malformed(path, &text, &error))
        }
        Contents::Missing => Ok(T::default()),
        Contents::TooLarge => Err(unusable(path, "is larger than 1 MiB, which no configuration is")),
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    Error::new(Code::LocalFile, format!("{} {why}", path.display()))
        .detail("path", path.display().to_string())
        .suggestion("mend the file, or move it away")
        .into()
}

/// The parser's own text quotes the line, which in one of these files is a key: only what and where are told.
fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let (line, column) = place(text, error);
    Error::new(Code::LocalFile, format!("{} at line {line}, column {column}: {}", path.display(), error.message()))
        .detail("path", path.display().to_string())
        .detail("line", line)
        .detail("column", column)
        .suggestion("mend the file, or move it away")
        .into()
}

/// The line and the column, from 1, that a parser stopped at.
pub fn place(text: &str, error: &toml::de::Error) -> (usize, usize) {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or(text);
    (before.matches('\n').count() + 1, before.chars().rev().take_while(|character| *character != '\n').count() + 1)
}

fn edit(path: &Path, change: impl FnOnce(&mut Table)) -> Result<()> {
    let mut table: Table = read(path)?;
    change(&mut table);
    let text = toml::to_string(&table).map_err(|error| Error::new(Code::LocalFile, format!("{}: {error}", path.display())))?;
    atomic_file::replace(path, text.as_bytes(), 0o600)
}

/// Changes the table below a name, which is made where it is missing or something else.
fn within(table: &mut Table, name: &str, change: impl FnOnce(&mut Table)) {
    let mut inner = match table.remove(name) {
        Some(Value::Table(inner)) => inner,
        _ => Table::new(),
    };
    change(&mut inner);
    table.insert(name.to_owned(), Value::Table(inner));
}
