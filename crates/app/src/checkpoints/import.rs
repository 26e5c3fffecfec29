//! Import: an environment with all its checkpoints out of an archive that nobody vouches for. Its files arrive under names that nobody looks
//! for; when all of them are on the disk they get their names, and one commit tells of everything.

use std::sync::Arc;

use stead_domain::archive::{ImportRequest, Manifest, invalid};
use stead_domain::checkpoint::{Checkpoint, CheckpointState, Stack};
use stead_domain::definition::Spec;
use stead_domain::environment::Environment;
use stead_domain::ids::{CheckpointId, LayerId};
use stead_domain::page::PageRequest;
use stead_domain::principal::Credential;
use stead_domain::provider::ProviderName;
use stead_domain::{Code, Error, Result, api_key, names};
use stead_store::environments::EnvironmentFilter;
use stead_store::{checkpoints, environments};

use super::Keeper;
use super::durable::TORN;
use super::seal::locked;
use crate::audit::{Act, record};
use crate::environments::create::{Draft, Made, NewEnvironment, insert, name_taken};
use crate::idempotency::{self, Claim, Outcome};
use crate::place::PlaceError;
use crate::provider::{ArchivePieces, ArchiveTarget, UnpackedArchive};
use crate::{App, AskedBy, Entered};

/// Everything that is written down of an archive.
struct Import {
    draft: Draft,
    checkpoints: Vec<Checkpoint>,
    layers: Vec<LayerId>,
    /// Whether the setup script need not run.
    set_up: bool,
    archive_id: String,
    /// Whether layers may lie over the host's system.
    over_host: bool,
}

impl App {
    /// Goes on to its end when the caller hangs up and all of the archive has arrived; before that nothing of it stays.
    pub async fn import_environment(
        &self,
        entered: &Entered,
        request: ImportRequest,
        pieces: ArchivePieces,
    ) -> Result<Outcome<Environment>> {
        if let Some(name) = &request.name {
            names::check_name("name", name)?;
        }
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.import_to_the_end(entered, request, pieces).await }).await
    }

    /// What arrives may be long in coming: the server's end does not wait for it.
    async fn unless_stopping<T>(&self, work: impl Future<Output = Result<T, PlaceError>>) -> Result<T> {
        tokio::select! {
            () = self.stopping.cancelled() => {
                Err(Error::new(Code::ServiceUnavailable, "the server ends").suggestion("send the archive again when it is back"))
            }
            outcome = work => Ok(outcome?),
        }
    }

    async fn import_to_the_end(&self, mut entered: Entered, request: ImportRequest, pieces: ArchivePieces) -> Result<Outcome<Environment>> {
        let _slot = self.archive_slot()?;
        let keeper = Keeper(Arc::clone(self.providers.serving(ProviderName::Local)?));
        let archive = self.unless_stopping(keeper.layers()?.open_archive(pieces)).await?;
        if let Some(given) = &mut entered.caller.idempotency {
            // No two archives begin the same: what follows need not have arrived to know whether this one did before.
            given.fingerprint = api_key::hash_bytes(&[given.fingerprint.as_bytes(), archive.manifest()].concat());
        }
        // A repetition that comes while the first is under way waits for it, and is then told the same.
        let _one_at_a_time = match idempotency::lock_key(&entered.caller) {
            Some(key) => Some(self.locks.lock(&key).await),
            None => None,
        };
        if let Some(reply) = self.answered_before(&entered.caller).await? {
            return Ok(Outcome::Again(reply));
        }
        let manifest = Manifest::read(archive.manifest())?;
        let mut import = self.draft_import(&entered, &request, manifest, &keeper).await?;
        let target = import.target();
        let unpacked = self.unless_stopping(archive.unpack(target)).await?;
        let _guard = locked(self, import.draft.environment.id).await;
        let made = self.make_beforehand(&mut import.draft, true).await;
        let written = match import.draft.made.is_some() {
            true => self.place_import(entered, import, unpacked).await,
            false => Err(Error::new(Code::ProviderFailed, "the sandbox could not be made").suggestion("`stead provider check` says more")),
        };
        if !matches!(written, Ok(Outcome::New(_))) {
            self.unmake_imported(made).await;
        }
        written
    }

    async fn unmake_imported(&self, made: Option<Made>) {
        if let Some(made) = made {
            self.unmake(made).await;
        }
    }

    /// Names, and then rows. Whatever comes between leaves layers that no row names, which are removed like all of those.
    async fn place_import(&self, entered: Entered, import: Import, unpacked: Box<dyn UnpackedArchive>) -> Result<Outcome<Environment>> {
        let _kept = self.layers.read().await;
        let (entries, size) = (unpacked.entries(), unpacked.size());
        let layers = import.layers.clone();
        let written = match unpacked.place().await {
            Ok(()) => self.write_import(entered, import, entries, size).await,
            Err(error) => Err(error.into()),
        };
        if !matches!(written, Ok(Outcome::New(_))) {
            self.drop_layers_behind(layers);
        }
        written
    }

    async fn write_import(&self, entered: Entered, import: Import, entries: u64, size: u64) -> Result<Outcome<Environment>> {
        let (app, context, sealer) = (self.clone(), self.context.clone(), self.sealer.clone());
        self.store
            .write(move |unit| {
                Box::pin(async move {
                    if let Claim::Answered(reply) = idempotency::claim(unit, &context, &*sealer, &entered.caller).await? {
                        return Ok(Outcome::Again(reply));
                    }
                    let (id, count) = (import.draft.environment.id, import.checkpoints.len());
                    let name = import.draft.environment.name.clone();
                    insert(unit, &context, &entered, import.draft).await?;
                    for checkpoint in &import.checkpoints {
                        checkpoints::insert(unit, checkpoint).await?;
                    }
                    if import.set_up {
                        environments::set_setup_version(unit, id, Some(1)).await?;
                    }
                    let details = vec![
                        ("name", name.into()),
                        ("archive_id", import.archive_id.into()),
                        ("checkpoints", count.into()),
                        ("entries", entries.into()),
                        ("size", size.into()),
                    ];
                    let (project, target_id) = (entered.project, id.to_string());
                    let act = Act { project, action: "environment.import", target_type: "environment", target_id, details };
                    record(unit, &context, &entered.caller, act).await?;
                    let found = environments::find_any(unit, id).await?.ok_or_else(|| crate::environments::unknown(id))?;
                    let environment = app.dress(found);
                    idempotency::answer(unit, &context, &entered.caller, 201, &environment).await?;
                    Ok(Outcome::New(environment))
                })
            })
            .await
    }

    /// Everything about the new records, checked, before the files arrive.
    async fn draft_import(&self, entered: &Entered, request: &ImportRequest, manifest: Manifest, keeper: &Keeper) -> Result<Import> {
        let archived = manifest.environment.clone();
        let name = request.name.clone().unwrap_or(archived.name);
        self.check_name_is_free(entered, &name).await?;
        let mut spec = archived.spec;
        if let Some(mount) = spec.bound_workspace() {
            return Err(invalid(format!(
                "the definition in the archive mounts `{}` in the place of the files that it holds",
                mount.source
            )));
        }
        spec.name = spec.name.is_some().then(|| name.clone());
        spec.id = None;
        let new = NewEnvironment {
            name: Some(name),
            environment_mode: Some(archived.environment_mode),
            lifetime: Some(archived.lifetime),
            purpose: archived.purpose,
            template_id: archived.template_id,
            retention_policy: Some(archived.retention_policy),
            tags: Some(archived.tags),
            allow_unenforced: Some(request.allow_unenforced),
            spec: Some(spec),
            ..NewEnvironment::default()
        };
        let mut draft = self.draft_checked(entered, request, new).await?;
        if draft.sandbox.provider != ProviderName::Local {
            let message = format!("provider `{}` keeps no layers, and the archive holds some", draft.sandbox.provider);
            return Err(Error::new(Code::ArchiveUnsupported, message).suggestion("`stead provider list` shows what each can do"));
        }
        self.check_system(&manifest, keeper).await?;
        let layers: Vec<LayerId> = (0..manifest.layers).map(|_| LayerId::new(&self.context)).collect();
        let checkpoints = self.draft_checkpoints(entered, &draft, &manifest, &layers);
        let at = usize::try_from(manifest.present).unwrap_or(usize::MAX);
        let present = checkpoints.get(at).ok_or_else(|| invalid("the archive has no present checkpoint"))?;
        let stack = Stack { upper: None, below: present.layers.clone() };
        (draft.sandbox.checkpoint_id, draft.sandbox.stack, draft.environment.stack) = (Some(present.id), stack.clone(), stack);
        let set_up = manifest.checkpoints.get(at).is_some_and(|present| present.set_up);
        let over_host = manifest.system.is_some();
        Ok(Import { draft, checkpoints, layers, set_up, archive_id: manifest.archive_id, over_host })
    }

    /// The same as for any other definition, but for directories of the user's own: nobody sees what an archive asks for.
    async fn draft_checked(&self, entered: &Entered, request: &ImportRequest, new: NewEnvironment) -> Result<Draft> {
        let asked_by = AskedBy::caller(&entered.caller, None);
        let asked_by = AskedBy { own_user: asked_by.own_user && request.allow_mounts, ..asked_by };
        let is_own = matches!(entered.caller.credential, Credential::Socket) && !request.allow_mounts;
        self.draft(entered, new, asked_by).await.map_err(|error| match error.code() {
            Code::Forbidden if is_own => error.suggestion(
                "if you trust whoever made the archive, import it with --allow-mounts (`allow_mounts=true`), \
                 or start the server with --allow-host-path and a directory above it",
            ),
            _ => error,
        })
    }

    /// Only a courtesy, before much is sent: the commit decides.
    async fn check_name_is_free(&self, entered: &Entered, name: &str) -> Result<()> {
        let (project, filter) = (entered.project, EnvironmentFilter { name: Some(name.to_owned()), ..EnvironmentFilter::default() });
        let page = PageRequest { limit: 1, after: None };
        let found = self
            .store
            .read(move |unit| Box::pin(async move { Ok::<_, Error>(environments::list(unit, project, &filter, &page).await?) }))
            .await?;
        if found.is_empty() { Ok(()) } else { Err(name_taken(name)) }
    }

    /// A layer over a system is true of that one alone.
    async fn check_system(&self, manifest: &Manifest, keeper: &Keeper) -> Result<()> {
        let Some(theirs) = &manifest.system else { return Ok(()) };
        if *theirs == keeper.layers()?.host_system().await? {
            return Ok(());
        }
        let message = "the archive holds changes of a system that had other packages than this host's";
        Err(Error::new(Code::ArchiveUnsupported, message).suggestion(
            "import it on a host with the same packages in the same versions, or use `root.view: image`, which is the same everywhere",
        ))
    }

    fn draft_checkpoints(&self, entered: &Entered, draft: &Draft, manifest: &Manifest, layers: &[LayerId]) -> Vec<Checkpoint> {
        let now = self.context.now();
        // They are listed in the order of their ids.
        let mut ids: Vec<CheckpointId> = manifest.checkpoints.iter().map(|_| CheckpointId::new(&self.context)).collect();
        ids.sort();
        let at = |numbers: &[u64]| numbers.iter().filter_map(|number| layers.get(usize::try_from(*number).ok()?).copied()).collect();
        let rows = manifest.checkpoints.iter().zip(&ids).map(|(archived, id)| Checkpoint {
            id: *id,
            project_id: entered.project,
            environment_id: draft.environment.id,
            sandbox_id: draft.sandbox.id,
            name: archived.name.clone(),
            parent_id: archived.parent.and_then(|parent| ids.get(usize::try_from(parent).ok()?).copied()),
            state: if archived.torn { CheckpointState::Sealed } else { CheckpointState::Durable },
            reason: archived.reason,
            created_by: Some(entered.caller.principal),
            // One of the future would keep others from being made.
            created_at: archived.created_at.min(now),
            durable_at: (!archived.torn).then_some(now),
            setup_version: archived.set_up.then_some(1),
            message: archived.torn.then(|| TORN.to_owned()),
            layers: at(&archived.layers),
            host_id: draft.sandbox.host_id,
            sealed_in: None,
        });
        rows.collect()
    }
}

impl Import {
    fn target(&self) -> ArchiveTarget {
        let seen = &self.draft.sandbox.stack.below;
        ArchiveTarget {
            layers: self.layers.iter().map(|layer| (*layer, seen.contains(layer))).collect(),
            over_host: self.over_host,
            most: disk_of(&self.draft.environment.spec),
        }
    }
}

fn disk_of(spec: &Spec) -> Option<u64> {
    let resources = spec.sandbox.as_ref().and_then(|sandbox| sandbox.resources.as_ref())?;
    resources.disk_mb.map(|size| size.saturating_mul(1 << 20))
}
