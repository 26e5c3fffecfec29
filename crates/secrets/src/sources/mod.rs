//! Where secrets come from beside the store: a vault that is asked over HTTP, and directories that an operator mounts.

mod files;
mod template;
mod vault;

pub use files::Files;
pub use template::{Template, TemplateError};
pub use vault::{Vault, VaultAddress, VaultAuth, VaultSettings};
