//! Definition files: `.stead/environments/<id>.json` here and above, and openboa's beside them.

use std::io;
use std::path::{Path, PathBuf};

use stead_domain::definition::DefinitionFile;
use stead_domain::{Code, Error, names};

use crate::atomic_file::{self, Contents};
use crate::failure::{Failure, Result, file_error};
use crate::printer::{Format, Printer};
use crate::settings::trust;

pub const DIRECTORY: &str = ".stead/environments";
const OPENBOA_DIRECTORY: &str = ".openboa/environments";

/// A definition and the file that it stands in.
#[derive(Debug)]
pub struct Found {
    pub path: PathBuf,
    pub definition: DefinitionFile,
}

/// The nearest definition of that id, at or above a directory, that nobody else could have put there. None when there is no such file, or no file could have that name.
pub fn find(start: &Path, id: &str) -> Result<Option<Found>> {
    if names::check_definition_id(id).is_err() {
        return Ok(None);
    }
    for directory in start.ancestors() {
        for below in [DIRECTORY, OPENBOA_DIRECTORY] {
            let below = Path::new(below).join(format!("{id}.json"));
            let path = directory.join(&below);
            if path.symlink_metadata().is_err() {
                continue;
            }
            match trust::objection(directory, &below) {
                None => return read(&path).map(Some),
                // On stderr in every format: what is passed over changes what the command does.
                Some(objection) => Printer::new(Format::Human, true).warn(&objection),
            }
        }
    }
    Ok(None)
}

/// Every definition that a path means: the file, or the files of the directory.
pub fn load(path: &Path) -> Result<Vec<Found>> {
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found(path)),
        Err(error) => return Err(file_error("read", path, &error)),
    };
    if !metadata.is_dir() {
        return Ok(vec![read(path)?]);
    }
    // A directory that holds definitions in the usual place is meant by its own name too.
    let mut files: Vec<PathBuf> = Vec::new();
    for below in [DIRECTORY, OPENBOA_DIRECTORY] {
        let usual = path.join(below);
        if usual.is_dir() {
            let more = json_files(&usual)?;
            files.extend(more.into_iter().filter(|it| files.iter().all(|other| other.file_name() != it.file_name())).collect::<Vec<_>>());
        }
    }
    if files.is_empty() {
        files = json_files(path)?;
    }
    if files.is_empty() {
        return Err(not_found(path));
    }
    files.iter().map(|file| read(file)).collect()
}

fn json_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: io::Error| file_error("read", directory, &error);
    let mut files = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|extension| extension == "json") && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads one file. Not found, malformed and invalid are three different errors.
pub fn read(path: &Path) -> Result<Found> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let text = read_bounded(path)?;
    let definition = DefinitionFile::parse(stem, &text, &path.display().to_string())?;
    Ok(Found { path: path.to_owned(), definition })
}

/// A regular file of at most 1 MiB.
pub fn read_bounded(path: &Path) -> Result<Vec<u8>> {
    match atomic_file::read_bounded(path)? {
        Contents::Bytes(text) => Ok(text),
        Contents::Missing => Err(not_found(path)),
        Contents::TooLarge => {
            let message = format!("{} is larger than 1 MiB, which no definition is", path.display());
            Err(Error::new(Code::InvalidDefinition, message).detail("path", path.display().to_string()).into())
        }
    }
}

fn not_found(path: &Path) -> Failure {
    Error::new(Code::DefinitionNotFound, format!("there is no definition at {}", path.display()))
        .detail("path", path.display().to_string())
        .suggestion("`stead init` writes one")
        .into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn put(root: &Path, below: &str, text: &str) {
        let path = root.join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn code(failure: &Failure) -> Code {
        Code::parse(&failure.body().unwrap().error.code).unwrap()
    }

    #[test]
    fn the_nearest_wins_and_ours_before_openboas() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        put(root.path(), ".stead/environments/web.json", r#"{"id": "web", "name": "top"}"#);
        put(root.path(), "a/.openboa/environments/web.json", r#"{"id": "web", "name": "openboa"}"#);
        let name = |found: Option<Found>| found.unwrap().definition.spec.name.unwrap();
        assert_eq!(name(find(&deep, "web").unwrap()), "openboa");
        put(root.path(), "a/.stead/environments/web.json", r#"{"id": "web", "name": "near"}"#);
        assert_eq!(name(find(&deep, "web").unwrap()), "near");
        assert!(find(&deep, "none").unwrap().is_none());
    }

    #[test]
    fn another_users_is_passed_over() {
        // Only root can give files away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        put(root.path(), ".stead/environments/web.json", r#"{"id": "web", "name": "mine"}"#);
        put(root.path(), "a/.stead/environments/web.json", r#"{"id": "web", "name": "theirs"}"#);
        std::os::unix::fs::chown(root.path().join("a/.stead"), Some(12345), None).unwrap();
        let found = find(&root.path().join("a"), "web").unwrap().unwrap();
        assert_eq!(found.definition.spec.name.unwrap(), "mine");
    }

    #[test]
    fn no_id_leaves_the_directory() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), ".stead/agents/alpha.json", r#"{"id": "alpha"}"#);
        for id in ["../agents/alpha", "/etc/passwd", "..", ""] {
            assert!(find(root.path(), id).unwrap().is_none(), "{id}");
        }
    }

    #[test]
    fn missing_malformed_and_invalid_are_different() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "bad.json", "{\n  \"id\": }");
        put(root.path(), "empty.json", "{}");
        put(root.path(), "other.json", r#"{"id": "another"}"#);
        put(root.path(), "wrong.json", r#"{"id": "wrong", "kind": "cloud"}"#);
        put(root.path(), "huge.json", &" ".repeat(2 << 20));
        for (name, expected) in [
            ("none.json", Code::DefinitionNotFound),
            ("bad.json", Code::MalformedDefinition),
            ("empty.json", Code::InvalidDefinition),
            ("other.json", Code::InvalidDefinition),
            ("wrong.json", Code::InvalidDefinition),
            ("huge.json", Code::InvalidDefinition),
        ] {
            assert_eq!(code(&load(&root.path().join(name)).unwrap_err()), expected, "{name}");
        }
        fs::create_dir(root.path().join("nothing")).unwrap();
        assert_eq!(code(&load(&root.path().join("nothing")).unwrap_err()), Code::DefinitionNotFound);
    }

    #[test]
    fn a_directory_means_its_files_in_order() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), ".stead/environments/b.json", r#"{"id": "b"}"#);
        put(root.path(), ".stead/environments/a.json", r#"{"id": "a"}"#);
        put(root.path(), ".openboa/environments/c.json", r#"{"id": "c"}"#);
        let ids = |path: &Path| load(path).unwrap().into_iter().map(|found| found.definition.id).collect::<Vec<_>>();
        assert_eq!(ids(&root.path().join(".stead/environments")), ["a", "b"]);
        assert_eq!(ids(root.path()), ["a", "b", "c"]);
    }
}
