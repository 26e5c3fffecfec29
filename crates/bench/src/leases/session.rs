//! What all of them have in common: somebody with a connection of its own takes a lock, and lets go of it again.

use std::io::Result;

pub trait Session: 'static {
    /// Comes back when it has it, however long that takes.
    async fn acquire(&mut self) -> Result<()>;
    async fn release(&mut self) -> Result<()>;
}

pub trait Service: 'static {
    type Session: Session;

    /// Somebody who takes the lock of this number again and again.
    async fn session(&self, lock: usize) -> Result<Self::Session>;
}
