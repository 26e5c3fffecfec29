//! API keys: told once, kept as a hash.

use serde::Deserialize;
use stead_domain::api_key::{self, ApiKey, ApiKeyWithSecret};
use stead_domain::ids::{ApiKeyId, PrincipalId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::tags::{self, TagFilter, Tags};
use stead_domain::{Code, Error, Result, Timestamp, names};
use stead_store::{api_keys, members, projects};
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::idempotency::{self, Claim, Outcome};
use crate::{App, Entered};

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewApiKey {
    #[schema(max_length = 128)]
    pub name: String,
    /// The member that the key acts for.
    pub principal_id: PrincipalId,
    pub expires_at: Option<Timestamp>,
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub tags: Option<Tags>,
}

fn unknown(id: ApiKeyId) -> Error {
    Error::not_found("API key", id).suggestion("`stead key list` shows them")
}

impl App {
    /// A page of keys. A page that a tag filter thins out may be short and still have a next one.
    pub async fn list_api_keys(&self, entered: &Entered, filters: Vec<TagFilter>, page: PageRequest) -> Result<Page<ApiKey>> {
        let (project, limit) = (entered.project, page.limit);
        let rows =
            self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(api_keys::list(unit, project, &page).await?) })).await?;
        let mut page = Page::new(rows, limit, |key| key.id.to_string());
        page.items.retain(|key| filters.iter().all(|filter| filter.matches(&key.tags)));
        Ok(page)
    }

    pub async fn get_api_key(&self, entered: &Entered, id: ApiKeyId) -> Result<ApiKey> {
        let project = entered.project;
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(api_keys::find(unit, project, id).await?) })).await?;
        found.ok_or_else(|| unknown(id))
    }

    pub async fn create_api_key(&self, entered: &Entered, new: NewApiKey) -> Result<Outcome<ApiKeyWithSecret>> {
        names::check_name("name", &new.name)?;
        let tags = new.tags.unwrap_or_default();
        tags::check(&tags)?;
        let now = self.context.now();
        if new.expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(Error::field("expires_at", "lies in the past"));
        }
        let (context, sealer, entered) = (self.context.clone(), self.sealer.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    match idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        Claim::New => {}
                        Claim::Answered(reply) => return Ok(Outcome::Again(reply)),
                        Claim::Unfinished(target) => {
                            return Err(Error::new(Code::Conflict, "the key was made and told, and is not told again after ten minutes")
                                .detail("id", target.unwrap_or_default())
                                .suggestion("revoke that key and make another one"));
                        }
                    }
                    // The project's row orders this with a removal of the member: no key is made for one that is just going.
                    projects::lock(unit, entered.project).await?.ok_or_else(|| Error::not_found("project", &entered.handle))?;
                    if members::role(unit, entered.project, new.principal_id).await?.is_none() {
                        return Err(Error::field(
                            "principal_id",
                            format!("`{}` is not a member of project `{}`", new.principal_id, entered.handle),
                        )
                        .suggestion("add it first (`stead project members add`)"));
                    }
                    let secret = api_key::generate(&context);
                    let key = ApiKey {
                        id: ApiKeyId::new(&context),
                        name: new.name,
                        key_prefix: api_key::prefix(&secret),
                        project_id: entered.project,
                        principal_id: new.principal_id,
                        expires_at: new.expires_at,
                        last_used_at: None,
                        tags,
                        created_at: now,
                        updated_at: now,
                    };
                    api_keys::insert(unit, &key, &api_key::hash(&secret), true).await?;
                    let details = vec![("name", key.name.clone().into()), ("principal_id", key.principal_id.to_string().into())];
                    let act = Act {
                        project: entered.project,
                        action: "api_key.create",
                        target_type: "api_key",
                        target_id: key.id.to_string(),
                        details,
                    };
                    record(unit, &context, &entered.caller, act).await?;
                    idempotency::note_target(unit, &entered.caller, &key.id.to_string()).await?;
                    let reply = ApiKeyWithSecret { api_key: key, key: secret };
                    idempotency::answer_sealed(unit, &context, &*sealer, &entered.caller, 201, &reply).await?;
                    Ok(Outcome::New(reply))
                })
            })
            .await
    }

    pub async fn revoke_api_key(&self, entered: &Entered, id: ApiKeyId) -> Result<()> {
        let (context, entered) = (self.context.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    // Recorded first: a caller may revoke the very key that it calls with.
                    let act = Act {
                        project: entered.project,
                        action: "api_key.revoke",
                        target_type: "api_key",
                        target_id: id.to_string(),
                        details: vec![],
                    };
                    record(unit, &context, &entered.caller, act).await?;
                    if !api_keys::revoke(unit, entered.project, id, context.now()).await? {
                        return Err(unknown(id));
                    }
                    Ok(())
                })
            })
            .await
    }
}
