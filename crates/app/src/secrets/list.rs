//! What secrets there are; never what they are.

use stead_domain::page::{Page, PageRequest};
use stead_domain::secret::Secret;
use stead_domain::{Error, Result};
use stead_store::secrets;

use super::unknown;
use crate::{App, Entered};

impl App {
    pub async fn list_secrets(&self, entered: &Entered, page: PageRequest) -> Result<Page<Secret>> {
        let (project, limit) = (entered.project, page.limit);
        let rows = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(secrets::list(unit, project, &page).await?) })).await?;
        Ok(Page::new(rows, limit, |secret| secret.id.to_string()))
    }

    pub async fn get_secret(&self, entered: &Entered, name: &str) -> Result<Secret> {
        let (project, wanted) = (entered.project, name.to_owned());
        let found =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(secrets::find(unit, project, &wanted).await?) })).await?;
        found.ok_or_else(|| unknown(name))
    }
}
