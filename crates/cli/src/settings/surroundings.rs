//! What a command finds around it: variables, the working directory, the user's directories.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stead_domain::{Code, Error, Result};

/// Taken once, so that tests can say what is there.
#[derive(Clone, Debug)]
pub struct Surroundings {
    variables: BTreeMap<String, OsString>,
    pub directory: PathBuf,
}

impl Surroundings {
    pub fn of_this_process() -> Result<Self> {
        let directory = std::env::current_dir().map_err(|error| {
            Error::new(Code::LocalFile, format!("the working directory cannot be found: {error}"))
                .suggestion("change to a directory that is there")
        })?;
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        Ok(Self { variables, directory })
    }

    #[cfg(test)]
    pub fn for_test(directory: &Path, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        Self { variables, directory: directory.to_owned() }
    }

    /// An empty variable is as good as none.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.path(name)?.into_os_string().into_string().ok()
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Makes a path that a user gave absolute, from where the user stands.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    pub fn configuration_directory(&self) -> Result<PathBuf> {
        self.user_directory("XDG_CONFIG_HOME", ".config", "set XDG_CONFIG_HOME or HOME")
    }

    pub fn default_data_directory(&self) -> Result<PathBuf> {
        self.user_directory("XDG_DATA_HOME", ".local/share", "give --data-dir, or set STEAD_DATA_DIR, XDG_DATA_HOME or HOME")
    }

    /// The XDG rule: a relative path in the variable counts as none.
    fn user_directory(&self, variable: &str, below_home: &str, suggestion: &str) -> Result<PathBuf> {
        let stated = self.path(variable).filter(|path| path.is_absolute());
        let base = stated.or_else(|| self.path("HOME").filter(|home| home.is_absolute()).map(|home| home.join(below_home)));
        base.map(|base| base.join("stead"))
            .ok_or_else(|| Error::new(Code::Usage, format!("neither {variable} nor HOME says where your files are")).suggestion(suggestion))
    }
}
