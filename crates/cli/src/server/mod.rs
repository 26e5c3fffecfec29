//! The server's role: everything wired together.

mod abilities;
mod backup;
mod configuration;
mod directory;
mod github;
mod inside;
mod keys;
mod options;
mod secret_sources;
mod sockets;
mod start;

use stead_domain::Result;

pub use backup::{backup, restore};
pub use directory::DataDirectory;
pub use options::ServeOptions;

/// Serves until it is told to end.
pub fn run(options: ServeOptions) -> Result<()> {
    if options.detach {
        // First of all: out of the terminal's session, so that neither an interrupt there nor a logout reaches the server. It cannot fail:
        // whoever starts us this way does not make us the leader of a group.
        let _ = rustix::process::setsid();
    }
    let configuration = configuration::Configuration::settle(options)?;
    runtime()?.block_on(start::serve(configuration))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    // What the server writes is its owner's alone, also in a directory that others may enter.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(stead_domain::Error::internal)
}
