//! The steward of the sandbox, as far as fences go: what it has seen is on its disk, what runs goes with it.

use stead_domain::ids::LeaseId;
use stead_domain::lease::Barrier;

#[derive(Clone, Copy, Debug)]
pub struct Running {
    pub number: u64,
    pub lease: LeaseId,
    pub fence: u64,
}

#[derive(Debug, Default)]
pub struct Steward {
    highest: u64,
    /// Whose that is.
    owner: Option<LeaseId>,
    running: Vec<Running>,
}

impl Steward {
    /// Starts a program, unless a later holder has been there: then it says what it has seen.
    pub fn start(&mut self, program: Running) -> Result<(), u64> {
        self.see(program.fence, Some(program.lease))?;
        self.running.push(program);
        Ok(())
    }

    fn see(&mut self, fence: u64, owner: Option<LeaseId>) -> Result<(), u64> {
        if fence < self.highest || (fence == self.highest && owner != self.owner) {
            return Err(self.highest);
        }
        (self.highest, self.owner) = (fence, owner);
        Ok(())
    }

    pub fn barrier(&mut self, barrier: Barrier) -> Result<(), u64> {
        self.see(barrier.fence, barrier.owner)?;
        self.running.retain(|program| !barrier.stop || program.fence >= barrier.fence);
        Ok(())
    }

    pub fn running(&self) -> &[Running] {
        &self.running
    }

    pub fn end(&mut self, at: usize) {
        self.running.remove(at);
    }

    /// Killed, and started again.
    pub fn crash(&mut self) {
        self.running.clear();
    }
}
