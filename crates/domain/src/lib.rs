//! The nouns of Stead: ids, definitions, environments and their states, identity, posture, errors.
//!
//! Nothing here does I/O, reads a clock or draws a random number: time and chance come in through [`Context`].

#[macro_use]
mod text_enum;

pub mod api_key;
pub mod archive;
pub mod audit;
pub mod changes;
pub mod checkout;
pub mod checkpoint;
pub mod checkpoint_diff;
pub mod context;
pub mod definition;
pub mod duration;
pub mod egress;
pub mod environment;
pub mod error;
pub mod file_search;
pub mod file_watch;
pub mod files;
pub mod frames;
pub mod hexadecimal;
pub mod host;
pub mod ids;
pub mod lease;
pub mod names;
pub mod page;
pub mod port_origin;
pub mod ports;
pub mod posture;
pub mod principal;
pub mod process;
pub mod process_request;
pub mod project;
pub mod provider;
pub mod repository;
pub mod sandbox;
pub mod secret;
pub mod signal;
pub mod states;
mod strict;
pub mod tags;
pub mod time;

pub use context::{Clock, Context, Randomness};
pub use error::{Code, Error, Result};
pub use time::Timestamp;
