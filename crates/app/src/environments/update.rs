//! Edit: names, bindings, tags, and the definition by merge patch. A new definition is a new version; history is never rewritten.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use stead_domain::definition::{Spec, template};
use stead_domain::environment::{BoundToType, DefinitionVersion, Environment, Purpose, RetentionPolicy, Scope, TemplateId};
use stead_domain::ids::EnvironmentId;
use stead_domain::posture::EffectiveField;
use stead_domain::principal::Caller;
use stead_domain::repository::RepositoryGrant;
use stead_domain::tags::{self, Tags};
use stead_domain::{Code, Context, Error, Result, names};
use stead_store::{StoreError, Unit, environments, versions};
use utoipa::ToSchema;

use crate::audit::{Act, record};
use crate::environments::create::{check_reference, name_taken};
use crate::environments::unknown;
use crate::leases::add_holders;
use crate::{App, AskedBy, Entered};

#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentEdit {
    pub purpose: Option<Purpose>,
    pub retention_policy: Option<RetentionPolicy>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "stated")]
    pub scope: Option<Option<Scope>>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "stated")]
    #[schema(max_length = 256)]
    pub owned_by: Option<Option<String>>,
    pub bound_to_type: Option<BoundToType>,
    /// Null takes it away.
    #[serde(default, deserialize_with = "stated")]
    #[schema(max_length = 256)]
    pub bound_to_id: Option<Option<String>>,
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub tags: Option<Tags>,
    #[schema(max_length = 128)]
    pub name: Option<String>,
    /// A merge patch of the definition; null takes the template's value again.
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
    pub allow_unenforced: Option<bool>,
}

/// Tells a field that is null from one that is absent.
fn stated<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl App {
    pub async fn update_environment(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        expected: Option<u64>,
        edit: EnvironmentEdit,
    ) -> Result<Environment> {
        if let Some(name) = &edit.name {
            names::check_name("name", name)?;
        }
        check_reference("owned_by", edit.owned_by.as_ref().and_then(Option::as_ref))?;
        check_reference("bound_to_id", edit.bound_to_id.as_ref().and_then(Option::as_ref))?;
        tags::check(edit.tags.as_ref().unwrap_or(&Tags::new()))?;
        if edit.spec.is_some() || edit.allow_unenforced.is_some() {
            let environment = self.get_environment(entered, id).await?;
            if environment.status.is_live() {
                self.knock(entered, &environment).await?;
            }
        }
        // The definition is judged before the unit: that may look at files, and the one thread that writes waits for nobody. If another edit
        // of it comes in between, it is judged again.
        for _ in 0..8 {
            let judged = match (&edit.spec, edit.allow_unenforced) {
                (None, None) => None,
                (patch, allow_unenforced) => {
                    let present = self.get_environment(entered, id).await?;
                    let spec = match patch {
                        Some(patch) => present.spec.patched(patch, &base(&present))?,
                        None => present.spec.clone(),
                    };
                    let allowed = allow_unenforced.unwrap_or(present.allow_unenforced);
                    Some(self.judge_definition(&entered.caller, &present, spec, allowed, None).await)
                }
            };
            if let Some(environment) = self.try_to_update(entered, id, expected, edit.clone(), judged).await? {
                if edit.spec.is_some() {
                    self.tell_place(&environment).await;
                }
                return Ok(self.dress(environment));
            }
        }
        Err(Error::new(Code::Conflict, "the definition is being edited by others at this moment").recoverable(true).suggestion("try again"))
    }

    /// Makes the edit; none when the definition is another than the one that was judged. Whether it can be edited at all comes first.
    async fn try_to_update(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        expected: Option<u64>,
        edit: EnvironmentEdit,
        judged: Option<Result<Judged>>,
    ) -> Result<Option<Environment>> {
        let (app, entered) = (self.clone(), entered.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    let mut environment = editable(unit, &entered, id).await?;
                    if expected.is_some_and(|expected| expected != environment.revision) {
                        return Err(Error::new(
                            Code::PreconditionFailed,
                            "the environment was changed since the version that `If-Match` names",
                        )
                        .detail("etag", format!("\"{}\"", environment.revision))
                        .suggestion("read it again, look at what changed, and repeat the edit with the new ETag"));
                    }
                    let before = environment.clone();
                    environment.purpose = edit.purpose.or(environment.purpose);
                    environment.retention_policy = edit.retention_policy.unwrap_or(environment.retention_policy);
                    environment.scope = edit.scope.unwrap_or(environment.scope);
                    environment.owned_by = edit.owned_by.unwrap_or(environment.owned_by);
                    environment.bound_to_type = edit.bound_to_type.or(environment.bound_to_type);
                    environment.bound_to_id = edit.bound_to_id.unwrap_or(environment.bound_to_id);
                    environment.tags = edit.tags.unwrap_or(environment.tags);
                    environment.name = edit.name.unwrap_or(environment.name);
                    if let Some(judged) = judged.transpose()? {
                        if !judged.is_of(&environment) {
                            return Ok(None);
                        }
                        app.set_definition(unit, &entered, &mut environment, judged).await?;
                    }
                    save_edit(unit, &app.context, &entered, before, environment, "environment.update").await.map(Some)
                })
            })
            .await
    }

    /// Judges a definition for an environment, outside any unit of work.
    pub(crate) async fn judge_definition(
        &self,
        caller: &Caller,
        environment: &Environment,
        mut spec: Spec,
        allow_unenforced: bool,
        rolled_back_to: Option<u64>,
    ) -> Result<Judged> {
        let posture =
            self.check_posture(&mut spec, environment.provider, allow_unenforced, AskedBy::caller(caller, Some(&environment.spec))).await?;
        let (of_version, allowed_before) = (environment.spec_version, environment.allow_unenforced);
        let before = self.grant_of(environment.id).await?;
        let grant = self.grant(caller, &spec, before.as_ref()).await?;
        Ok(Judged { of_version, allowed_before, spec, allow_unenforced, posture, rolled_back_to, grant })
    }

    /// Gives the environment this definition: a new version if it says something else than the present one.
    pub(crate) async fn set_definition(
        &self,
        unit: &mut Unit,
        entered: &Entered,
        environment: &mut Environment,
        judged: Judged,
    ) -> Result<()> {
        let Judged { spec, allow_unenforced, posture, rolled_back_to, grant, .. } = judged;
        // Also where the definition stays as it is: it may have been set before anybody could be asked.
        environments::set_repository_grant(unit, environment.id, grant.as_ref()).await?;
        environment.allow_unenforced = allow_unenforced;
        environment.runtime.posture = posture;
        let fingerprint = spec.fingerprint();
        if fingerprint == environment.fingerprint {
            return Ok(());
        }
        environment.spec_version += 1;
        let version = DefinitionVersion {
            version: environment.spec_version,
            fingerprint: fingerprint.clone(),
            created_by: Some(entered.caller.principal),
            created_at: self.context.now(),
            rolled_back_to,
            spec: spec.clone(),
        };
        versions::insert(unit, environment.id, &version).await?;
        environment.spec = spec;
        environment.fingerprint = fingerprint;
        Ok(())
    }
}

/// A definition that the operator's settings and the provider allow, and what it was judged for.
pub(crate) struct Judged {
    of_version: u64,
    allowed_before: bool,
    spec: Spec,
    allow_unenforced: bool,
    posture: Vec<EffectiveField>,
    rolled_back_to: Option<u64>,
    /// Which repositories it may have tokens for.
    grant: Option<RepositoryGrant>,
}

impl Judged {
    /// Whether the environment is still as it was when it was judged.
    pub(crate) fn is_of(&self, environment: &Environment) -> bool {
        self.of_version == environment.spec_version && self.allowed_before == environment.allow_unenforced
    }
}

/// The built-in definition that fills what is absent.
pub(crate) fn base(environment: &Environment) -> Spec {
    template(environment.template_id.unwrap_or(TemplateId::LocalDefault))
}

/// The environment, locked, if it can still be edited.
pub(crate) async fn editable(unit: &mut Unit, entered: &Entered, id: EnvironmentId) -> Result<Environment> {
    let found = environments::lock(unit, id).await?.filter(|found| found.project_id == entered.project);
    let environment = found.ok_or_else(|| unknown(id))?;
    if environment.status.is_live() {
        return Ok(environment);
    }
    Err(Error::new(Code::EnvironmentDestroyed, format!("environment `{}` has been deleted; only its record is left", environment.name))
        .suggestion("create a new one; its name is free"))
}

/// Writes an edit with its audit record. An edit that changes nothing writes nothing.
pub(crate) async fn save_edit(
    unit: &mut Unit,
    context: &Context,
    entered: &Entered,
    before: Environment,
    mut environment: Environment,
    action: &str,
) -> Result<Environment> {
    if before == environment {
        add_holders(unit, context, std::slice::from_mut(&mut environment)).await?;
        return Ok(environment);
    }
    environment.revision += 1;
    environment.updated_at = context.now();
    environment.updated_by = Some(entered.caller.principal);
    match environments::save(unit, &environment).await {
        Err(StoreError::Duplicate(_)) => return Err(name_taken(&environment.name)),
        outcome => outcome?,
    }
    let details = vec![("name", environment.name.clone().into()), ("spec_version", environment.spec_version.into())];
    let act = Act { project: entered.project, action, target_type: "environment", target_id: environment.id.to_string(), details };
    record(unit, context, &entered.caller, act).await?;
    add_holders(unit, context, std::slice::from_mut(&mut environment)).await?;
    Ok(environment)
}
