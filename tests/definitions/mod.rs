//! Definitions as files: written, applied, exported and refused.

mod applying;
mod exporting;
mod initial;
mod openboas_files;
mod refused;
