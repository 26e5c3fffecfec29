//! A few values about the store itself.

use crate::error::Result;
use crate::unit::Unit;

/// When a backup was last restored.
pub const RESTORED_AT: &str = "restored_at";
/// Which master key seals what is in the store.
pub const MASTER_KEY: &str = "master_key";
/// What signatures are made with, sealed, in hexadecimal digits.
pub const SIGNING_KEY: &str = "signing_key";

pub async fn get(unit: &mut Unit, name: &'static str) -> Result<Option<String>> {
    let row = unit.fetch_optional("SELECT value FROM settings WHERE name = $1", &[name.into()]).await?;
    row.map(|row| row.reader().text()).transpose()
}

/// The same, and nobody else changes it until the unit ends.
pub async fn get_locked(unit: &mut Unit, name: &'static str) -> Result<Option<String>> {
    let row = unit.fetch_locked("SELECT value FROM settings t WHERE name = $1", &[name.into()]).await?;
    row.map(|row| row.reader().text()).transpose()
}

/// Sets a value that is not there yet, and gives the one that is there afterwards.
pub async fn get_or_set(unit: &mut Unit, name: &'static str, value: &str) -> Result<String> {
    unit.execute("INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", &[name.into(), value.into()]).await?;
    Ok(get(unit, name).await?.unwrap_or_else(|| value.to_owned()))
}

pub async fn set(unit: &mut Unit, name: &'static str, value: &str) -> Result<()> {
    unit.execute(
        "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        &[name.into(), value.into()],
    )
    .await?;
    Ok(())
}

pub async fn remove(unit: &mut Unit, name: &'static str) -> Result<()> {
    unit.execute("DELETE FROM settings WHERE name = $1", &[name.into()]).await?;
    Ok(())
}
