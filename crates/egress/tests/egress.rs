//! The relay with real sockets: programs in a network namespace, servers on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

#[path = "egress/broker/mod.rs"]
mod broker;
#[path = "egress/control.rs"]
mod control;
#[path = "egress/hostile.rs"]
mod hostile;
#[path = "egress/names.rs"]
mod names;
#[path = "egress/proxies.rs"]
mod proxies;
#[path = "egress/streams.rs"]
mod streams;
#[path = "egress/tun.rs"]
mod tun;
