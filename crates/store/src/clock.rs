//! The clock that leases are measured by. On SQLite it is the machine's, counted from its start and over its sleep; on PostgreSQL the
//! database's own, so that all servers read the same one. A reading is taken after the row is locked, and never compared with one of another
//! era: another start of the machine, or of the database, or another database that says it is this one.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use stead_domain::lease::Moment;

use crate::error::{Result, StoreError};
use crate::unit::{Connection, Unit};

/// Tells how long it is since the machine was started, and which start that was. Tests have their own.
pub trait MachineClock: Send + Sync {
    fn moment(&self) -> Moment;
}

/// The kernel's.
pub(crate) struct BootClock {
    era: u64,
}

impl BootClock {
    pub(crate) fn new() -> Result<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(|error| StoreError::Unavailable(format!("which start of the machine this is cannot be read: {error}")))?;
        Ok(Self { era: era_of(boot.trim()) })
    }

    pub(crate) fn shared() -> Result<Arc<dyn MachineClock>> {
        Ok(Arc::new(Self::new()?))
    }
}

impl MachineClock for BootClock {
    fn moment(&self) -> Moment {
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let at = u64::try_from(since.tv_sec).unwrap_or(0) * 1000 + u64::try_from(since.tv_nsec).unwrap_or(0) / 1_000_000;
        Moment { era: self.era, at }
    }
}

/// A number for what names an era; it fits a signed column.
fn era_of(name: &str) -> u64 {
    let digest = Sha256::digest(name.as_bytes());
    digest.iter().take(8).fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte)) >> 1
}

impl Unit {
    /// What the time is now. Not when the unit began: it may have waited for a lock since then.
    pub async fn moment(&mut self) -> Result<Moment> {
        if let Connection::Sqlite(_) = self.0 {
            return Ok(self.1.moment());
        }
        let row = self
            .fetch_optional(
                "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT),
                 CAST((SELECT system_identifier FROM pg_control_system()) AS TEXT) || '/' ||
                 CAST((SELECT timeline_id FROM pg_control_checkpoint()) AS TEXT) || '/' || CAST(pg_postmaster_start_time() AS TEXT)",
                &[],
            )
            .await?
            .ok_or_else(|| StoreError::Broken("the database does not tell the time".to_owned()))?;
        let mut row = row.reader();
        let at = row.count()?;
        Ok(Moment { era: era_of(&row.text()?), at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_s_clock_goes_on_within_one_era() {
        let clock = BootClock::new().unwrap();
        let (first, second) = (clock.moment(), clock.moment());
        assert_eq!(first.era, second.era);
        assert!(first.at <= second.at && first.at > 0);
        assert_ne!(era_of("a"), era_of("b"));
        assert!(i64::try_from(era_of("a")).is_ok());
    }
}
