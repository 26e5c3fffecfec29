//! When a secret was set, and by whom.

use stead_domain::secret::SecretHistory;
use stead_domain::{Error, Result};
use stead_store::secrets;

use crate::{App, Entered};

impl App {
    pub async fn secret_history(&self, entered: &Entered, name: &str) -> Result<SecretHistory> {
        let secret = self.get_secret(entered, name).await?;
        let items = self
            .store
            .read(move |unit| Box::pin(async move { Ok::<_, Error>(secrets::versions(unit, secret.id, secret.version).await?) }))
            .await?;
        Ok(SecretHistory { items })
    }
}
