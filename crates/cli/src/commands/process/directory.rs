//! Which directory `run` is for, and what the environment of that directory is called.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use stead_domain::{Code, Error, Result};

/// What a directory has that is a project of its own. An empty `.git` only stands in the place of one.
const MARKS: [&str; 2] = [".stead", ".git/HEAD"];
const LONGEST_NAME: usize = 80;

/// The workspace of whoever stands in `current`.
#[derive(Debug, PartialEq, Eq)]
pub struct Directory {
    pub root: PathBuf,
    /// From the root to where the user stands.
    pub below: PathBuf,
}

impl Directory {
    /// The nearest directory at or above that has a mark, else the one itself. Marks at the home directory or above count for nothing:
    /// there they stand for the user's own files, which no command inside should see.
    pub fn of(current: &Path, home: Option<&Path>) -> Result<Self> {
        let too_much = |directory: &Path| directory.parent().is_none() || home.is_some_and(|home| home.starts_with(directory));
        if too_much(current) {
            let what = if current.parent().is_none() { "the root of this machine" } else { "your home directory, or holds it" };
            let message = format!("{} is {what}, and everything in it would be seen inside", current.display());
            return Err(
                Error::new(Code::Usage, message).suggestion("change to a directory of its own, or use --scratch for an empty workspace")
            );
        }
        let marked = |directory: &&Path| MARKS.iter().any(|mark| directory.join(mark).exists()) || directory.join(".git").is_file();
        let root = current.ancestors().take_while(|directory| !too_much(directory)).find(marked).unwrap_or(current);
        let below = current.strip_prefix(root).unwrap_or(Path::new("")).to_owned();
        Ok(Self { root: root.to_owned(), below })
    }

    /// The same for the same directory, whoever asks, and no other's.
    pub fn name(&self) -> String {
        let digest = Sha256::digest(self.root.as_os_str().as_encoded_bytes());
        let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let name = self.root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let plain: String =
            name.chars().map(|c| if c.is_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' }).take(LONGEST_NAME).collect();
        let plain = plain.trim_matches(|c: char| !c.is_alphanumeric());
        if plain.is_empty() { format!("directory-{short}") } else { format!("{plain}-{short}") }
    }

    /// Where the user stands, inside.
    pub fn inside(&self, workspace: &str) -> String {
        Path::new(workspace).join(&self.below).to_string_lossy().trim_end_matches('/').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use stead_domain::names;

    use super::*;

    #[test]
    fn the_nearest_mark_wins_and_the_home_directory_is_none() {
        let home = tempfile::tempdir().unwrap();
        let at = |below: &str| home.path().join(below);
        for directory in [".git/HEAD", "plain/.git", "plain/deep", "repo/.git/HEAD", "repo/a/b", "repo/inner/.stead", "repo/inner/c"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let of = |below: &str| Directory::of(&at(below), Some(home.path())).unwrap();
        assert_eq!(of("plain/deep"), Directory { root: at("plain/deep"), below: "".into() });
        assert_eq!(of("repo/a/b"), Directory { root: at("repo"), below: "a/b".into() });
        assert_eq!(of("repo"), Directory { root: at("repo"), below: "".into() });
        assert_eq!(of("repo/inner/c"), Directory { root: at("repo/inner"), below: "c".into() });
        assert_eq!((of("repo/a/b").inside("/workspace"), of("repo").inside("/workspace")), ("/workspace/a/b".into(), "/workspace".into()));
        for refused in [home.path(), home.path().parent().unwrap(), Path::new("/")] {
            assert!(Directory::of(refused, Some(home.path())).is_err(), "{refused:?}");
        }
        assert!(Directory::of(&at("plain"), None).is_ok());
    }

    #[test]
    fn every_directory_has_a_name_of_its_own_that_is_allowed() {
        let name = |root: &str| Directory { root: root.into(), below: PathBuf::new() }.name();
        assert_eq!(name("/a/web"), name("/a/web"));
        assert_ne!(name("/a/web"), name("/b/web"));
        assert!(name("/a/web").starts_with("web-"));
        for root in ["/a/.hidden", "/a/größe (2)", "/a/--", "/a/...", "/a/日本\n", &format!("/{}", "x".repeat(255))] {
            assert!(names::check_name("name", &name(root)).is_ok(), "{}", name(root));
        }
    }
}
