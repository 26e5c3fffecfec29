//! Secrets that never enter a place: the relay puts them into requests on their way out, and takes them out of what comes back.

mod body;
mod carry;
mod inject;
mod io;
mod limits;
mod message;
mod redacted;
mod secrets;
mod service;
mod text;
mod tls;
mod tunnel;
mod upstream;

pub use carry::{Opened, Requests, carry};
pub use secrets::{Broker, InvalidBroker};
pub use text::{BrokerText, BrokeredText, Scheme, Seed, Value};
pub use tls::Trust;
