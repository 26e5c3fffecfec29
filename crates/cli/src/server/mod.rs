//! The server's role: everything wired together.

mod backup;
mod configuration;
mod directory;
mod options;
mod sockets;
mod start;

use stead_domain::Result;

pub use backup::{backup, restore};
pub use options::ServeOptions;

/// Serves until it is told to end.
pub fn run(options: ServeOptions) -> Result<()> {
    let configuration = configuration::Configuration::settle(options)?;
    runtime()?.block_on(start::serve(configuration))
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(stead_domain::Error::internal)
}
