//! What the doctor can mend by itself.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::failure::{Result, file_error};

#[derive(Debug)]
pub enum Repair {
    SetMode { path: PathBuf, mode: u32 },
    RemoveSocket { path: PathBuf },
}

impl Repair {
    pub fn carry_out(&self) -> Result<()> {
        match self {
            Self::SetMode { path, mode } => {
                fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(|error| file_error("change the mode of", path, &error))
            }
            Self::RemoveSocket { path } => {
                // A server may have come up since the check; its socket is not stale.
                let refused = UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
                if refused { fs::remove_file(path).map_err(|error| file_error("remove", path, &error)) } else { Ok(()) }
            }
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetMode { path, mode } => write!(formatter, "chmod {mode:04o} {}", path.display()),
            Self::RemoveSocket { path } => write!(formatter, "rm {}", path.display()),
        }
    }
}
