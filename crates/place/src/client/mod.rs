//! The server's side: which environments are awake, and how to speak to their stewards.

mod barrier;
mod connection;
mod errand;
mod foreign;
mod handed;
mod outgoing;
mod spawner;
mod stewards;
mod still;

pub use connection::{Connection, Follower, Trouble};
pub use errand::ErrandStream;
pub use spawner::Spawner;
pub use stewards::Stewards;
pub use still::Still;
