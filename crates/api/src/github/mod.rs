//! What a user of GitHub is told, and how somebody becomes one here. These routes are under `/api` and answer errors in its shape.

pub mod callback;
mod identity;
pub mod installations;
pub mod login;
pub mod logout;
pub mod repositories;

pub use identity::presented;
