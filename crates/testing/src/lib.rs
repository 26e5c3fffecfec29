//! What tests start for themselves. Nothing here is part of the product.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot start what it needs must fail loudly")]

mod postgres;
mod world;

pub use postgres::PrivatePostgres;
pub use world::{TestClock, TestRandomness, context};
