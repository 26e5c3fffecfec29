//! Where master keys come from: a file that is made at the first start, a variable, or a command.

use std::path::PathBuf;

use stead_domain::Context;

use crate::master_key::{Keyring, MasterKey};
use crate::{command, key_file};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("the master key {path} cannot be read or written: {cause}")]
    File { path: PathBuf, cause: std::io::Error },
    #[error("the master key {0} may be read by others: its mode must be 0600 (`chmod 600` it)")]
    Exposed(PathBuf),
    #[error("the master key {0} is not 64 hexadecimal digits; put back the file that this data directory was made with")]
    Malformed(PathBuf),
    #[error("STEAD_MASTER_KEY is not 64 hexadecimal digits")]
    Variable,
    #[error("the key_command `{command}` gave no master key: {why}")]
    Command { command: String, why: String },
    #[error("{0} still gives the key that is in use")]
    NothingNew(String),
}

#[derive(Clone)]
pub enum KeySource {
    File(PathBuf),
    /// What the variable held when the server started.
    Variable(zeroize::Zeroizing<String>),
    Command(String),
}

impl KeySource {
    /// How people call it.
    pub fn describe(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Variable(_) => "the variable STEAD_MASTER_KEY".to_owned(),
            Self::Command(command) => format!("the key_command `{command}`"),
        }
    }

    /// None when there is no key yet, which only a file can say.
    pub fn load(&self) -> Result<Option<Keyring>, KeyError> {
        match self {
            Self::File(path) => key_file::load(path),
            Self::Variable(text) => Keyring::parse(text).map(Some).ok_or(KeyError::Variable),
            Self::Command(text) => command::run(text).map(Some),
        }
    }

    /// Makes the first key where there is none, if this is a place that one can be made in.
    pub fn create(&self, context: &Context) -> Result<Option<Keyring>, KeyError> {
        let Self::File(path) = self else { return Ok(None) };
        let ring = Keyring::of(MasterKey::generate(context));
        key_file::save(path, &ring)?;
        Ok(Some(ring))
    }

    /// The keys with another one in front: made here, or given by whoever keeps them.
    pub fn next(&self, present: &Keyring, context: &Context) -> Result<Keyring, KeyError> {
        if let Self::File(path) = self {
            let mut older = present.older.clone();
            older.insert(0, present.active.clone());
            let ring = Keyring { active: MasterKey::generate(context), older };
            key_file::save(path, &ring)?;
            return Ok(ring);
        }
        let given = self.load()?.ok_or(KeyError::Variable)?;
        if given.active.id() == present.active.id() {
            return Err(KeyError::NothingNew(self.describe()));
        }
        // What was in use stays at hand until everything is under the new one, also when it is no longer given.
        Ok(given.joined(present))
    }

    /// Only the first key is needed any more.
    pub fn forget_older(&self, ring: &Keyring) -> Result<(), KeyError> {
        match self {
            Self::File(path) => key_file::save(path, &Keyring::of(ring.active.clone())),
            Self::Variable(_) | Self::Command(_) => Ok(()),
        }
    }
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_key_comes_to_the_front_and_the_one_before_stays_until_it_is_forgotten() {
        let directory = tempfile::TempDir::new().unwrap();
        let source = KeySource::File(directory.path().join("master.key"));
        let context = stead_testing::context(1).0;
        assert!(source.load().unwrap().is_none());
        let first = source.create(&context).unwrap().unwrap();
        let second = source.next(&first, &context).unwrap();
        assert!(second.active.id() != first.active.id() && second.find(first.active.id()).is_some());
        // Whoever is killed here finds both.
        assert!(source.load().unwrap().unwrap().find(first.active.id()).is_some());
        source.forget_older(&second).unwrap();
        assert!(source.load().unwrap().unwrap().find(first.active.id()).is_none());
    }

    #[test]
    fn a_key_that_is_given_has_to_be_another_one() {
        let context = stead_testing::context(1).0;
        let (one, two) = ("1a".repeat(32), "2b".repeat(32));
        let source = KeySource::Variable(zeroize::Zeroizing::new(one.clone()));
        let present = source.load().unwrap().unwrap();
        assert!(matches!(source.next(&present, &context), Err(KeyError::NothingNew(_))));
        let source = KeySource::Command(format!("echo {two}"));
        let next = source.next(&present, &context).unwrap();
        assert!(next.find(present.active.id()).is_some(), "what is sealed with it can still be opened");
        assert!(!format!("{:?} {:?}", KeySource::Variable(zeroize::Zeroizing::new(one)), next).contains("1a1a"));
    }
}
