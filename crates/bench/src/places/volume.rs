//! A file system of a kind that this machine may not have otherwise, in a file.
//!
//! It is mounted by a helper in a mount namespace of the helper's own: however this program ends, the helper ends with it, and the kernel
//! takes the mount and the loop device away.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::helper::{Helper, Output};

/// XFS takes no less than 300 MiB. What is not written takes no room.
const SIZE: u64 = 2 << 30;

pub struct Volume {
    helper: RefCell<Helper>,
    mounted: PathBuf,
}

impl Volume {
    /// `make` is the program that makes the file system, with its options.
    pub fn new(directory: &Path, name: &str, make: &[&str]) -> Result<Self> {
        let (image, mounted) = (directory.join(format!("{name}.image")), directory.join(name));
        File::create(&image)?.set_len(SIZE)?;
        fs::create_dir_all(&mounted)?;
        let volume = Self { helper: RefCell::new(Helper::start_apart()?), mounted };
        let image = image.display().to_string();
        volume.run(&[make, &[&image]].concat())?;
        volume.run(&["mount", "-o", "loop", &image, &volume.path("")])?;
        Ok(volume)
    }

    /// A path in it, as the helper sees it.
    pub fn path(&self, name: &str) -> String {
        self.mounted.join(name).display().to_string()
    }

    /// Runs something that sees it, and says how long it took.
    pub fn run(&self, argv: &[&str]) -> Result<Duration> {
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        Ok(self.helper.borrow_mut().run(&argv, Output::Nowhere)?.0)
    }
}
