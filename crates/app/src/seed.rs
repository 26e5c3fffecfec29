//! The first start: an operator, the project `default`, the operator's key, and the environment `local-default`.

use stead_domain::api_key::{self, ApiKey};
use stead_domain::environment::TemplateId;
use stead_domain::ids::{ApiKeyId, PrincipalId, ProjectId, RequestId};
use stead_domain::names;
use stead_domain::principal::{Caller, Credential, Principal, PrincipalKind, Role};
use stead_domain::project::Project;
use stead_domain::{Code, Error, Result};
use stead_store::{api_keys, members, principals, projects, settings};

use crate::environments::NewEnvironment;
use crate::identity::access::OPERATOR;
use crate::{App, Entered};

const ENVIRONMENT_SEEDED: &str = "local_default_seeded";

impl App {
    /// Makes what the first start makes, once. `keep_key` stores the key where the operator finds it; the key counts only after that.
    /// False when another server, on the same database, made it at the same time: then the key that was kept is nobody's.
    pub async fn seed(&self, operator_name: &str, keep_key: impl FnOnce(&str) -> Result<()>) -> Result<bool> {
        let operator = self.store.read(|unit| Box::pin(async move { Ok::<_, Error>(settings::get(unit, OPERATOR).await?) })).await?;
        let mut first = true;
        if operator.is_none() {
            let secret = api_key::generate(&self.context);
            keep_key(&secret)?;
            first = self.seed_identity(operator_name, secret).await?;
        }
        self.seed_environment().await?;
        Ok(first)
    }

    async fn seed_identity(&self, operator_name: &str, secret: String) -> Result<bool> {
        let (context, now) = (self.context.clone(), self.context.now());
        let name = if names::check_name("name", operator_name).is_ok() { operator_name.to_owned() } else { "operator".to_owned() };
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let principal =
                        Principal { id: PrincipalId::new(&context), home: None, kind: PrincipalKind::User, name, created_at: now };
                    // Of two servers that start together on one database, the first wins; the other's key is nobody's.
                    if settings::get_or_set(unit, OPERATOR, &principal.id.to_string()).await? != principal.id.to_string() {
                        return Ok(false);
                    }
                    principals::insert(unit, &principal).await?;
                    let project = Project {
                        id: ProjectId::new(&context),
                        handle: "default".to_owned(),
                        name: "default".to_owned(),
                        created_at: now,
                        updated_at: now,
                    };
                    projects::insert(unit, &project).await?;
                    members::insert(unit, project.id, principal.id, Role::Owner, now).await?;
                    let key = ApiKey {
                        id: ApiKeyId::new(&context),
                        name: "owner".to_owned(),
                        key_prefix: api_key::prefix(&secret),
                        project_id: project.id,
                        principal_id: principal.id,
                        expires_at: None,
                        last_used_at: None,
                        tags: Default::default(),
                        created_at: now,
                        updated_at: now,
                    };
                    api_keys::insert(unit, &key, &api_key::hash(&secret), false).await?;
                    Ok(true)
                })
            })
            .await
    }

    /// `local-default` is made once; who deletes it does not get it back with the next start.
    async fn seed_environment(&self) -> Result<()> {
        let (seeded, project, operator) = self
            .store
            .read(|unit| {
                Box::pin(async move {
                    let seeded = settings::get(unit, ENVIRONMENT_SEEDED).await?;
                    let operator = settings::get(unit, OPERATOR).await?;
                    Ok::<_, Error>((seeded, projects::find_by_handle(unit, "default").await?, operator))
                })
            })
            .await?;
        let (None, Some(project), Some(operator)) = (seeded, project, operator.and_then(|id| id.parse().ok())) else { return Ok(()) };
        let caller = Caller {
            principal: operator,
            credential: Credential::Socket,
            operator: true,
            source: "server".to_owned(),
            request_id: RequestId::new(&self.context),
            let_into: None,
            idempotency: None,
            lease: None,
            lease_ended: None,
            github: None,
        };
        let entered = Entered { caller, project: project.id, handle: project.handle, role: Role::Owner };
        let new = NewEnvironment {
            name: Some("local-default".to_owned()),
            template_id: Some(TemplateId::LocalDefault),
            ..NewEnvironment::default()
        };
        match self.create_environment(&entered, new).await {
            // The server is of use without it, to find out what is wrong among others; a start after that makes it.
            Err(error) if error.code() == Code::PostureNotEnforced => {
                tracing::warn!(%error, "`local-default` is not made on this host");
                return Ok(());
            }
            Err(error) if error.code() != Code::AlreadyExists => return Err(error),
            _ => {}
        }
        self.store
            .write(|unit| Box::pin(async move { settings::get_or_set(unit, ENVIRONMENT_SEEDED, "1").await.map(drop).map_err(Error::from) }))
            .await
    }
}
