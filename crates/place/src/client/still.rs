//! Everything in an environment stands still, for as long as this is there and its keeper has the patience.

use std::sync::Arc;
use std::time::Duration;

use stead_domain::ids::EnvironmentId;

use super::{Connection, Stewards, Trouble};
use crate::protocol::Call;

pub struct Still {
    connection: Arc<Connection>,
    /// Whoever keeps it has been told, or is about to be.
    told: bool,
}

impl Stewards {
    /// Has everything in an environment stand still; none when it is asleep.
    pub async fn freeze(&self, environment: EnvironmentId, at_most: Duration) -> Result<Option<Still>, Trouble> {
        let call = Call::Freeze { at_most_milliseconds: at_most.as_millis() as u64 };
        let Some(connection) = self.find(environment).await? else { return Ok(None) };
        // Before it is asked for: whoever is cut off while it waits lets go of it all the same.
        let mut still = Still { connection, told: false };
        let outcome = still.connection.call(call, &[]).await;
        // What was refused is not ours to end.
        still.told = outcome.is_err();
        outcome.map(|_| Some(still))
    }
}

impl Still {
    /// Refused with [`crate::protocol::Refusal::Thawed`] when it did not stand still all the time.
    pub async fn thaw(mut self) -> Result<(), Trouble> {
        self.told = true;
        self.connection.call(Call::Thaw, &[]).await.map(drop)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if !self.told {
            self.connection.tell(Call::Thaw);
        }
    }
}
