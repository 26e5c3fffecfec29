//! The local provider: a sandbox is a durable directory on this host, `sandboxes/<sandbox id>` below the data directory.
//!
//! The directory's name is the label, and `sandboxes/.installation` says whose they are: what another store made there is never touched.

mod abilities;
mod archive;
mod barrier;
mod blueprint;
mod brokered;
mod changes;
mod cursor;
mod directory;
mod entry;
mod host_paths;
mod images;
mod journal;
mod layers;
mod place;
mod projects;
mod relay;
mod removal;
mod said;
mod secrets;
mod shared_sync;
mod spare;
mod stack;
mod trash;
mod tree;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use abilities::{Abilities, Known, Obstacle, Tell};
use async_trait::async_trait;
use host_paths::HostPaths;
use images::Images;
use layers::{LocalLayers, Shelf};
use place::LocalPlace;
pub use place::{Roles, inside, skeleton};
pub use relay::Relay;
use shared_sync::SharedSync;
use spare::Spare;
use stead_app::{AskedBy, Layers, Listed, NewSandbox, Observation, Place, Provider, ProviderError, Resource};
use stead_domain::definition::Spec;
use stead_domain::ids::{HostId, SandboxId};
use stead_domain::posture::{Capabilities, Enforcement};
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::Sandbox;
use tokio::task::spawn_blocking;
use trash::Trash;

type Result<T, E = ProviderError> = std::result::Result<T, E>;

pub struct Local {
    root: PathBuf,
    trash: Arc<Trash>,
    layers: LocalLayers,
    host: HostId,
    host_paths: Arc<HostPaths>,
    images: Arc<Images>,
    sync: Arc<SharedSync>,
    spare: Spare,
    place: Option<(LocalPlace, Known)>,
}

impl Local {
    /// Opens the directory below `data_dir` for this installation. Another installation's directory is refused.
    pub fn open(data_dir: &Path, installation: &str, host: HostId, allow_host_paths: Vec<PathBuf>) -> Result<Self> {
        let root = data_dir.join("sandboxes");
        let trash = data_dir.join("trash");
        for directory in [&root, &trash] {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let marker = root.join(".installation");
        match std::fs::read_to_string(&marker) {
            Ok(owner) if owner.trim() == installation => {}
            Ok(owner) if !owner.trim().is_empty() => {
                return Err(ProviderError::Refused(format!(
                    "{} belongs to the installation {}, and the store is of the installation {installation}: use the data directory that belongs to the store",
                    root.display(),
                    owner.trim()
                )));
            }
            Ok(_) => write_marker(&marker, installation)?,
            Err(error) if error.kind() == ErrorKind::NotFound => write_marker(&marker, installation)?,
            Err(error) => return Err(failed(error)),
        }
        let host_paths = Arc::new(HostPaths { allowed: allow_host_paths, data_dir: data_dir.to_owned(), home: std::env::home_dir() });
        let sync = Arc::new(SharedSync::open(&root).map_err(failed)?);
        let spare = Spare::open(data_dir.join("spare/sandboxes")).map_err(failed)?;
        let images = Arc::new(Images::open(data_dir.join("images"), trash.clone()).map_err(failed)?);
        let shelf = Arc::new(Shelf::open(data_dir, root.clone()).map_err(failed)?);
        shelf.clear(&trash).map_err(failed)?;
        let trash = Arc::new(Trash::open(trash).map_err(failed)?);
        let layers = LocalLayers { shelf, trash: Arc::clone(&trash), images: Arc::clone(&images), skeleton: skeleton(data_dir) };
        Ok(Self { root, trash, layers, host, host_paths, images, sync, spare, place: None })
    }

    /// Also runs processes, with the help of others that `roles` says how to start.
    #[must_use]
    pub fn with_processes(mut self, data_dir: &Path, roles: Roles, abilities: Known) -> Self {
        let (host_paths, images, shelf) = (Arc::clone(&self.host_paths), Arc::clone(&self.images), Arc::clone(&self.layers.shelf));
        self.place = Some((LocalPlace::new(data_dir, self.root.clone(), shelf, host_paths, images, roles, abilities.clone()), abilities));
        self
    }

    /// An archive is unpacked here already, so that whoever names it hears at once what is wrong with it, and from then on it is what it was.
    fn check_image(&self, spec: &mut Spec, asked_by: &AskedBy) -> stead_domain::Result<()> {
        let Some((image, digest)) = spec.image() else { return Ok(()) };
        let path = Path::new(image);
        let before = asked_by.image_before.as_ref();
        if before.is_some_and(|(before, of)| before == image && of.as_deref() == digest) {
            // As it was. Whoever makes a place looks at it again, on the host that it is on.
            return Ok(());
        }
        if before.is_none_or(|(before, _)| before != image) {
            self.host_paths.check("spec.root.image", path, asked_by)?;
        }
        let prepared = self.images.prepare(path, digest, false).map_err(|trouble| {
            let field = if matches!(trouble, images::Trouble::Different { .. }) { "spec.root.digest" } else { "spec.root.image" };
            let message = format!("`{image}` cannot be used: {trouble}");
            stead_domain::Error::field(field, message).suggestion(trouble.advice())
        })?;
        if let Some(root) = &mut spec.root {
            root.digest = prepared.digest;
        }
        Ok(())
    }

    fn path(&self, sandbox: SandboxId) -> PathBuf {
        self.root.join(sandbox.to_string())
    }
}

fn write_marker(path: &Path, installation: &str) -> Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, installation).and_then(|()| std::fs::rename(&unfinished, path)).map_err(failed)
}

fn failed(error: std::io::Error) -> ProviderError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            ProviderError::StorageFull(error.to_string())
        }
        _ => ProviderError::Failed(error.to_string()),
    }
}

/// Runs file work where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T> {
    match spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(failed),
        Err(error) => Err(ProviderError::Failed(error.to_string())),
    }
}

#[async_trait]
impl Provider for Local {
    fn name(&self) -> ProviderName {
        ProviderName::Local
    }

    /// Without a spawner directories are kept and nothing runs in them: what a definition leaves open is granted, and no restriction is
    /// claimed that only a running place could hold.
    fn capabilities(&self) -> Capabilities {
        let kept = match &self.place {
            Some((_, abilities)) => abilities.now().capabilities(),
            None => Capabilities::default()
                .with("sandbox.mode", &[("workspace", Enforcement::Enforced)])
                .with("sandbox.workspace_access", &[("rw", Enforcement::Enforced)])
                .with("sandbox.network_access", &[("enabled", Enforcement::Enforced)])
                .with("sandbox.package_policy", &[("workspace", Enforcement::BestEffort)])
                .with("secret_bindings.delivery", &[("env", Enforcement::BestEffort), ("file", Enforcement::BestEffort)]),
        };
        // Nothing of it runs unsandboxed.
        kept.with("sandbox.mode", &[("off", Enforcement::Unsupported)])
    }

    async fn settled(&self) {
        if let Some((_, abilities)) = &self.place {
            abilities.settled().await;
        }
    }

    fn features(&self) -> Vec<String> {
        let processes = self.place.is_some().then_some("processes");
        ["durable_workspace", "checkpoints"].into_iter().chain(processes).map(str::to_owned).collect()
    }

    fn host(&self) -> Option<HostId> {
        Some(self.host)
    }

    fn place(&self) -> Option<&dyn Place> {
        self.place.as_ref().map(|(place, _)| place as &dyn Place)
    }

    fn layers(&self) -> Option<&dyn Layers> {
        Some(&self.layers)
    }

    fn check_definition(&self, spec: &mut Spec, asked_by: &AskedBy) -> stead_domain::Result<()> {
        self.check_image(spec, asked_by)?;
        let mut paths = spec.host_paths();
        paths.try_for_each(|(index, path)| self.host_paths.check(&format!("spec.mounts[{index}].source"), Path::new(path), asked_by))
    }

    /// A few empty directories.
    fn is_made_at_once(&self) -> bool {
        true
    }

    async fn create(&self, request: &NewSandbox) -> Result<Resource> {
        let path = self.path(request.id);
        let resource = Resource { id: request.id.to_string(), name: request.name.clone() };
        let sync = Arc::clone(&self.sync);
        let synced = blocking(move || tree::create(&path).and_then(|()| sync.sync_at_once())).await?;
        if !synced {
            self.sync.sync().await.map_err(failed)?;
        }
        Ok(resource)
    }

    async fn make_at_once(&self, request: &NewSandbox) -> Result<Resource> {
        let path = self.path(request.id);
        // To give a directory another name waits for nothing, so it needs no thread that may.
        if !self.spare.take(&path) {
            blocking(move || tree::create(&path)).await?;
        }
        Ok(Resource { id: request.id.to_string(), name: request.name.clone() })
    }

    async fn secure(&self) -> Result<()> {
        self.sync.sync().await.map_err(failed)
    }

    async fn inspect(&self, sandbox: &Sandbox) -> Result<Observation> {
        let path = self.path(sandbox.id);
        let shown = path.clone();
        let whole = blocking(move || tree::is_whole(&path)).await?;
        Ok(if whole {
            Observation { exists: true, state: "ready".to_owned(), message: None }
        } else {
            Observation { exists: false, state: "missing".to_owned(), message: Some(format!("the directory {} is gone", shown.display())) }
        })
    }

    async fn start(&self, sandbox: &Sandbox) -> Result<()> {
        match self.inspect(sandbox).await? {
            Observation { exists: true, .. } => Ok(()),
            Observation { message, .. } => Err(ProviderError::Failed(message.unwrap_or_default())),
        }
    }

    /// Nothing runs in a directory.
    async fn stop(&self, _sandbox: &Sandbox) -> Result<()> {
        Ok(())
    }

    async fn destroy(&self, sandbox: SandboxId, _resource_id: Option<&str>) -> Result<()> {
        let (path, trash) = (self.path(sandbox), self.trash.path().join(sandbox.to_string()));
        let shelf = Arc::clone(&self.layers.shelf);
        let moved = blocking(move || {
            if let Err(error) = projects::release(&path) {
                // A bound on what nobody writes to does no harm.
                tracing::warn!(sandbox = %path.display(), %error, "what bounded it could not be taken away");
            }
            shelf.part_with(sandbox)?;
            tree::discard(&path, &trash)
        })
        .await?;
        if moved {
            self.sync.sync().await.map_err(failed)?;
            self.trash.empty_behind();
        }
        Ok(())
    }

    async fn discard_unused(&self, sandbox: SandboxId) -> Result<bool> {
        let path = self.path(sandbox);
        blocking(move || tree::discard_empty(&path)).await
    }

    async fn list(&self) -> Result<Vec<Listed>> {
        // Whoever lists cleans up, and what could not be removed before may go now.
        self.trash.empty_behind();
        let root = self.root.clone();
        blocking(move || {
            let mut listed = Vec::new();
            for entry in std::fs::read_dir(root)? {
                // What does not have our label is not ours.
                if let Some(sandbox) = entry?.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok()) {
                    listed.push(Listed { sandbox, resource_id: sandbox.to_string() });
                }
            }
            Ok(listed)
        })
        .await
    }

    async fn check(&self) -> Result<String> {
        let probe = self.trash.path().join(".probe");
        blocking(move || {
            std::fs::write(&probe, b"probe")?;
            match std::fs::remove_file(&probe) {
                // It lay in the trash, and the trash was emptied.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                outcome => outcome,
            }
        })
        .await?;
        Ok(format!("directories below {} can be made", self.root.display()))
    }

    async fn usage(&self) -> Result<Vec<(String, u64)>> {
        let (root, trash, images) = (self.root.clone(), self.trash.path().to_owned(), Arc::clone(&self.images));
        let layers = self.layers.shelf.path().to_owned();
        let sizes = move || {
            [("workspaces", tree::size(&root)), ("layers", tree::size(&layers)), ("images", images.size()), ("trash", tree::size(&trash))]
        };
        blocking(move || Ok(sizes().map(|(what, size)| (what.to_owned(), size)).to_vec())).await
    }

    async fn images(&self) -> Result<Vec<String>> {
        let images = Arc::clone(&self.images);
        blocking(move || images.unwanted_lately()).await
    }

    async fn remove_image(&self, digest: &str) -> Result<bool> {
        let (images, digest) = (Arc::clone(&self.images), digest.to_owned());
        let removed = blocking(move || images.remove(&digest)).await?;
        if removed {
            self.trash.empty_behind();
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use stead_testing::context;

    use super::*;

    fn local(directory: &Path, installation: &str) -> Result<Local> {
        Local::open(directory, installation, HostId::new(&context(1).0), Vec::new())
    }

    fn new(seed: u64) -> NewSandbox {
        NewSandbox { id: SandboxId::new(&context(seed).0), name: "web".to_owned() }
    }

    #[tokio::test]
    async fn only_what_holds_nothing_is_discarded_as_unused() {
        let directory = tempfile::TempDir::new().unwrap();
        let local = local(directory.path(), "one").unwrap();
        let [unused, used] = [new(2), new(3)];
        for request in [&unused, &used] {
            local.create(request).await.unwrap();
        }
        std::fs::write(local.path(used.id).join("runtime/file"), "kept").unwrap();
        assert!(local.discard_unused(unused.id).await.unwrap() && !local.path(unused.id).exists());
        assert!(local.discard_unused(unused.id).await.unwrap());
        assert!(!local.discard_unused(used.id).await.unwrap());
        assert_eq!(std::fs::read_to_string(local.path(used.id).join("runtime/file")).unwrap(), "kept");
    }

    #[tokio::test]
    async fn every_call_may_be_repeated() {
        let directory = tempfile::TempDir::new().unwrap();
        let local = local(directory.path(), "one").unwrap();
        let request = new(2);
        let first = local.create(&request).await.unwrap();
        std::fs::write(local.path(request.id).join("workspace/file"), "kept").unwrap();
        assert_eq!(local.create(&request).await.unwrap(), first);
        assert_eq!(std::fs::read_to_string(local.path(request.id).join("workspace/file")).unwrap(), "kept");
        assert_eq!(local.list().await.unwrap(), [Listed { sandbox: request.id, resource_id: request.id.to_string() }]);
        local.destroy(request.id, None).await.unwrap();
        local.destroy(request.id, None).await.unwrap();
        assert!(local.list().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn half_a_directory_is_finished_and_a_foreign_one_is_not_listed() {
        let directory = tempfile::TempDir::new().unwrap();
        let local = local(directory.path(), "one").unwrap();
        let request = new(3);
        std::fs::create_dir(local.path(request.id)).unwrap();
        std::fs::create_dir(local.root.join("somebody-elses")).unwrap();
        local.create(&request).await.unwrap();
        assert!(local.path(request.id).join("workspace").is_dir() && local.path(request.id).join("runtime").is_dir());
        assert_eq!(local.list().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn another_installations_directory_is_refused() {
        let directory = tempfile::TempDir::new().unwrap();
        local(directory.path(), "one").unwrap();
        assert!(matches!(local(directory.path(), "two"), Err(ProviderError::Refused(_))));
        local(directory.path(), "one").unwrap();
    }
}
