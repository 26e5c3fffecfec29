//! The server's role: everything wired together.

mod options;

pub use options::ServeOptions;
