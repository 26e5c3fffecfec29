//! Ports of environments, for those who use the API. What the ports themselves serve is in [`crate::port_proxy`], on another origin.

pub mod list;
pub mod signed_url;
pub mod tunnel;
