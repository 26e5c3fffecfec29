//! Delete a secret: its value is gone, and its name is free.

use stead_domain::{Error, Result};
use stead_store::secrets;

use super::unknown;
use crate::audit::{Act, record};
use crate::{App, Entered};

impl App {
    pub async fn delete_secret(&self, entered: &Entered, name: &str) -> Result<()> {
        let (context, entered, name) = (self.context.clone(), entered.clone(), name.to_owned());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let secret = secrets::find(unit, entered.project, &name).await?.ok_or_else(|| unknown(&name))?;
                    secrets::delete(unit, secret.id, entered.caller.principal, context.now()).await?;
                    let details = vec![("version", secret.version.into())];
                    let act = Act { project: entered.project, action: "secret.delete", target_type: "secret", target_id: name, details };
                    record(unit, &context, &entered.caller, act).await?;
                    Ok::<_, Error>(())
                })
            })
            .await
    }
}
