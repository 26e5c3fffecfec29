use crate::failure::Result;
use crate::server::{self, ServeOptions};

pub fn run(options: ServeOptions) -> Result<()> {
    Ok(server::run(options)?)
}
