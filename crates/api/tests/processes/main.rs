//! Processes over HTTP as a client has them: a real server on a socket of its own, over a place in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../app/tests/recovery/cloud.rs"]
#[allow(dead_code, reason = "shared with the tests of the application, which use all of it")]
mod cloud;
#[path = "../../../app/tests/recovery/memory.rs"]
#[allow(dead_code, reason = "shared with the tests of the application, which use all of it")]
mod memory;

mod calls;
mod following;
mod house;
mod sockets;
