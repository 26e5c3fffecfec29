//! Who may call what, for every route that the OpenAPI document lists.

pub mod cast;
mod expectations;
mod foreign;
mod matrix;
mod suffixes;
