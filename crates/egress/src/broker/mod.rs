//! Secrets that never enter a place: the relay puts them into requests on their way out.

mod text;

pub use text::{BrokerText, BrokeredText, Scheme, Seed, Value};
