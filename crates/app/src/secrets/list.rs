//! What secrets there are; never what they are.

use stead_domain::page::{Page, PageRequest};
use stead_domain::secret::Secret;
use stead_domain::{Code, Error, Result};
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
        found.ok_or_else(|| match self.source_of(&entered.handle, name) {
            Some(source) => Error::new(Code::NotFound, format!("`{name}` is not kept here: it comes from {}", source.describe()))
                .detail("source", source.place_of(&entered.handle, name))
                .suggestion("it is set and listed there"),
            None => unknown(name),
        })
    }
}
