//! Export: an environment with its definition and its checkpoints as one stream, for another machine. What is there now is sealed first.

use std::collections::HashMap;

use stead_domain::archive::{ArchivedCheckpoint, ArchivedEnvironment, ExportRequest, FORMAT, MOST_CHECKPOINTS, Manifest};
use stead_domain::checkpoint::{Checkpoint, CheckpointReason, OnRunning};
use stead_domain::environment::Environment;
use stead_domain::ids::{CheckpointId, EnvironmentId, LayerId};
use stead_domain::page::{MAXIMUM_LIMIT, PageRequest};
use stead_domain::{Code, Error, Result, hexadecimal};
use stead_store::{Unit, checkpoints, environments};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::pins::Pinned;
use super::seal::act;
use super::{Keeper, unknown};
use crate::audit::record;
use crate::place::PlaceError;
use crate::{App, Entered};

/// An archive that is being made. Its layers stay for as long as this is there.
pub struct Export {
    pub environment: Environment,
    /// What was sealed for it, or before.
    pub checkpoint: CheckpointId,
    /// How many bytes it has.
    pub size: u64,
    sent: u64,
    pieces: mpsc::Receiver<Result<Vec<u8>, PlaceError>>,
    _pinned: Pinned,
    _slot: OwnedSemaphorePermit,
}

impl Export {
    /// The next bytes; none at the end. What comes next is read only when it is asked for.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        match self.pieces.recv().await {
            Some(piece) => {
                let piece = piece?;
                self.sent += piece.len() as u64;
                Ok(Some(piece))
            }
            None if self.sent == self.size => Ok(None),
            None => Err(Error::internal(format!("an archive ended after {} of {} bytes", self.sent, self.size))),
        }
    }
}

/// Everything that goes into an archive besides the files.
struct Contents {
    checkpoints: Vec<Checkpoint>,
    /// Of the checkpoint that the files are of, in that list.
    present: usize,
    setup_version: Option<u64>,
}

impl App {
    pub async fn export_environment(&self, entered: &Entered, id: EnvironmentId, request: ExportRequest) -> Result<Export> {
        let (app, entered) = (self.clone(), entered.clone());
        self.detached(async move { app.begin_export(entered, id, request).await }).await
    }

    async fn begin_export(&self, entered: Entered, id: EnvironmentId, request: ExportRequest) -> Result<Export> {
        let slot = self.archive_slot()?;
        let on_running = request.on_running.unwrap_or(OnRunning::Busy);
        let present = self.checkpoint_of_now(&entered, id, on_running, CheckpointReason::Export).await?;
        let environment = self.get_environment(&entered, id).await?;
        let keeper = self.keeper(&environment)?;
        let kept = self.layers.read().await;
        let contents = self.contents(&environment, present.id).await?;
        let layers = numbered(&contents.checkpoints);
        let pinned = self.pin(layers.clone());
        drop(kept);
        self.drop_beyond_behind(&environment);
        let manifest = self.manifest(&environment, &contents, &layers, &keeper).await?.write()?;
        let packed = keeper.layers()?.pack(manifest, &layers).await?;
        let (context, noted, checkpoint) = (self.context.clone(), environment.clone(), present.id);
        self.store
            .write(move |unit| {
                Box::pin(async move { record(unit, &context, &entered.caller, act(&noted, "environment.export", &present)).await })
            })
            .await?;
        Ok(Export { environment, checkpoint, size: packed.size, sent: 0, pieces: packed.pieces, _pinned: pinned, _slot: slot })
    }

    /// In one look, so that they are all there at one moment.
    async fn contents(&self, environment: &Environment, present: CheckpointId) -> Result<Contents> {
        let (project, id) = (environment.project_id, environment.id);
        self.store
            .read(move |unit| {
                Box::pin(async move {
                    let mut found = all_of(unit, id).await?;
                    // A fork that nothing was written to has the files of another environment's.
                    if !found.iter().any(|checkpoint| checkpoint.id == present) {
                        found.push(checkpoints::find(unit, project, present).await?.ok_or_else(|| unknown(present))?);
                    }
                    found.sort_by_key(|checkpoint| checkpoint.id);
                    let present = found.iter().position(|checkpoint| checkpoint.id == present).unwrap_or_default();
                    let setup_version = environments::setup_version(unit, id).await?;
                    Ok::<_, Error>(Contents { checkpoints: found, present, setup_version })
                })
            })
            .await
    }

    async fn manifest(&self, environment: &Environment, contents: &Contents, layers: &[LayerId], keeper: &Keeper) -> Result<Manifest> {
        let random: [u8; 16] = self.context.random();
        let system = match keeper.layers()?.lie_over_host(layers).await? {
            true => Some(keeper.layers()?.host_system().await?),
            false => None,
        };
        Ok(Manifest {
            format: FORMAT,
            stead: env!("CARGO_PKG_VERSION").to_owned(),
            archive_id: hexadecimal::write(&random),
            exported_at: self.context.now(),
            environment: ArchivedEnvironment {
                name: environment.name.clone(),
                environment_mode: environment.environment_mode,
                lifetime: environment.lifetime,
                purpose: environment.purpose,
                template_id: environment.template_id,
                retention_policy: environment.retention_policy,
                tags: environment.tags.clone(),
                spec: environment.spec.clone(),
            },
            checkpoints: contents.archived(environment, layers),
            present: contents.present as u64,
            layers: layers.len() as u64,
            system,
        })
    }
}

impl Contents {
    fn archived(&self, environment: &Environment, layers: &[LayerId]) -> Vec<ArchivedCheckpoint> {
        let numbers: HashMap<LayerId, u64> = layers.iter().zip(0..).map(|(layer, number)| (*layer, number)).collect();
        let places: HashMap<CheckpointId, u64> = self.checkpoints.iter().zip(0..).map(|(checkpoint, at)| (checkpoint.id, at)).collect();
        let archived = |(at, checkpoint): (u64, &Checkpoint)| {
            // What ran before in another environment is known only of the files that this one has now.
            let is_own = checkpoint.environment_id == environment.id;
            let set_up = if is_own { checkpoint.setup_version } else { self.setup_version.filter(|_| at == self.present as u64) };
            ArchivedCheckpoint {
                name: checkpoint.name.clone(),
                parent: checkpoint.parent_id.and_then(|parent| places.get(&parent).copied()).filter(|parent| *parent < at),
                created_at: checkpoint.created_at,
                reason: checkpoint.reason,
                torn: checkpoint.message.is_some(),
                set_up: set_up == Some(environment.spec_version),
                layers: checkpoint.layers.iter().filter_map(|layer| numbers.get(layer).copied()).collect(),
            }
        };
        (0..).zip(&self.checkpoints).map(archived).collect()
    }
}

async fn all_of(unit: &mut Unit, id: EnvironmentId) -> Result<Vec<Checkpoint>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let rows = checkpoints::list(unit, id, &PageRequest { limit: MAXIMUM_LIMIT, after }).await?;
        let Some(last) = rows.last() else { return Ok(found) };
        after = Some(last.id.to_string());
        found.extend(rows);
        if found.len() > MOST_CHECKPOINTS {
            return Err(Error::new(Code::ArchiveUnsupported, "the environment has more checkpoints than fit into an archive")
                .suggestion("delete those that nobody needs (`stead checkpoint delete`), and try again"));
        }
    }
}

/// Each layer once, those of the oldest checkpoint first and from the bottom up.
fn numbered(checkpoints: &[Checkpoint]) -> Vec<LayerId> {
    let mut seen = std::collections::HashSet::new();
    let all = checkpoints.iter().flat_map(|checkpoint| checkpoint.layers.iter().rev());
    all.filter(|layer| seen.insert(**layer)).copied().collect()
}
