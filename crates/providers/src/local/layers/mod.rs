//! Layers: directories that are seen on top of each other, the uppermost written to and the others sealed.
//!
//! Which layers a sandbox sees is known to the store alone; a layer becomes sealed by the commit that gives its sandbox another one to write
//! to, and nothing moves. So there is no step of sealing, restoring or forking that a crash could leave half done. The first layer of a
//! sandbox lies in the sandbox's own directory; all others, and those whose sandbox is gone, below `layers`. Each holds `workspace` and,
//! where the system is the sandbox's own, `system`.

mod carrying;
mod compare;
mod durable;
mod identity;
mod making;
mod systems;
mod written;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use stead_app::{ArchivePieces, DifferencePage, IncomingArchive, Layers, PackedArchive, PlaceError, ProviderError, View, Wanted};
use stead_domain::checkpoint::Stack;
use stead_domain::definition::Spec;
use stead_domain::ids::{LayerId, SandboxId};

pub use identity::is_identity;

use self::systems::Systems;
pub use self::systems::name_of;
use super::images::Images;
use super::trash::Trash;
use super::{archive, blocking, tree};

type Result<T, E = std::io::Error> = std::result::Result<T, E>;

/// What belongs to a layer of the things that lie in the directory of a sandbox.
const PARTS: &[&str] = &["workspace", "system"];
/// Lies in the directory of a sandbox whose first layer was sealed, and may be needed by others.
const SEALED: &str = "sealed";
/// Begins the name of a layer that is being moved out of the directory of its sandbox.
const MOVING: &str = ".moving-";

/// Begins the name of a layer that is being made of others, or of another.
const MAKING: &str = ".merging-";
/// Begins the name of a layer that arrives in an archive.
const IMPORTING: &str = ".importing-";

/// Where layers lie.
pub struct Shelf {
    layers: PathBuf,
    sandboxes: PathBuf,
    /// Held while a layer changes its place.
    moving: Mutex<()>,
}

/// The layers of one sandbox, as directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub upper: PathBuf,
    /// From the top down.
    pub below: Vec<PathBuf>,
}

impl Shelf {
    pub fn open(data_dir: &Path, sandboxes: PathBuf) -> Result<Self> {
        let layers = data_dir.join("layers");
        make_directory(&layers)?;
        Ok(Self { layers: layers.canonicalize()?, sandboxes: sandboxes.canonicalize()?, moving: Mutex::default() })
    }

    pub fn path(&self) -> &Path {
        &self.layers
    }

    fn home(&self, layer: LayerId) -> PathBuf {
        self.sandboxes.join(layer.home().to_string())
    }

    fn shelved(&self, layer: LayerId) -> PathBuf {
        self.layers.join(layer.to_string())
    }

    /// Where everything lies that a sandbox sees. What is sealed must be there; what is written to is made when it is needed.
    pub fn locate(&self, sandbox: SandboxId, stack: &Stack) -> Result<Located> {
        let upper = match stack.upper {
            None => self.sandboxes.join(sandbox.to_string()),
            Some(layer) => self.shelved(layer),
        };
        let below = stack.below.iter().map(|layer| self.find(*layer)).collect::<Result<_>>()?;
        Ok(Located { upper, below })
    }

    /// Where a layer lies that holds something.
    pub fn find(&self, layer: LayerId) -> Result<PathBuf> {
        let (shelved, home) = (self.shelved(layer), self.home(layer));
        if shelved.is_dir() {
            return Ok(shelved);
        }
        if home.join(PARTS[0]).is_dir() && !self.layers.join(format!("{MOVING}{layer}")).exists() {
            return Ok(home);
        }
        // It may be on its way.
        self.shelve(layer)?;
        if shelved.is_dir() { Ok(shelved) } else { Err(std::io::Error::new(ErrorKind::NotFound, format!("the layer {layer} is gone"))) }
    }

    /// Moves a layer out of the directory of its sandbox, so that it stays when that goes. May be cut off anywhere and repeated.
    fn shelve(&self, layer: LayerId) -> Result<()> {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let (shelved, home) = (self.shelved(layer), self.home(layer));
        if shelved.is_dir() || !home.join(SEALED).exists() {
            return Ok(());
        }
        let unfinished = self.layers.join(format!("{MOVING}{layer}"));
        // What is not there may come back: nothing is put in its place.
        if !home.join(PARTS[0]).is_dir() && !unfinished.join(PARTS[0]).is_dir() {
            return Ok(());
        }
        make_directory(&unfinished)?;
        for part in PARTS {
            match fs::rename(home.join(part), unfinished.join(part)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // The name is there before the directory of the sandbox may go.
        fs::rename(&unfinished, &shelved)?;
        fs::File::open(&self.layers)?.sync_all()
    }

    /// Before a sandbox goes: what others may need of it stays.
    pub fn part_with(&self, sandbox: SandboxId) -> Result<()> {
        if self.sandboxes.join(sandbox.to_string()).join(SEALED).exists() { self.shelve(LayerId::first_of(sandbox)) } else { Ok(()) }
    }

    /// There to be sealed: it stays when its sandbox goes.
    fn prepare(&self, layer: LayerId) -> Result<()> {
        let (shelved, home) = (self.shelved(layer), self.home(layer));
        if home.is_dir() && !shelved.is_dir() {
            fs::OpenOptions::new().write(true).create(true).truncate(false).open(home.join(SEALED))?;
            return Ok(());
        }
        // One that nothing was ever written to.
        make_directory(&shelved)?;
        make_directory(&shelved.join(PARTS[0]))
    }

    /// Those that lie by themselves.
    fn list(&self) -> Result<Vec<LayerId>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.layers)? {
            found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<LayerId>().ok()));
        }
        Ok(found)
    }

    /// Moves a layer out of the way; whether there was one.
    fn discard(&self, layer: LayerId, trash: &Path) -> Result<bool> {
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let (shelved, home) = (self.shelved(layer), self.home(layer));
        if shelved.is_dir() {
            return tree::discard(&shelved, &trash.join(layer.to_string()));
        }
        let mut moved = false;
        for part in PARTS {
            moved |= tree::discard(&home.join(part), &trash.join(format!("{layer}-{part}")))?;
        }
        if home.is_dir() {
            // A sandbox without one is not whole.
            make_directory(&home.join(PARTS[0]))?;
        }
        Ok(moved)
    }
}

pub fn make_directory(path: &Path) -> Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        outcome => outcome,
    }
}

/// Ends work on files when nobody waits for it any more.
struct Asked(Arc<AtomicBool>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The shelf as the use cases see it.
pub struct LocalLayers {
    pub shelf: Arc<Shelf>,
    pub trash: Arc<Trash>,
    pub images: Arc<Images>,
    pub skeleton: PathBuf,
}

impl LocalLayers {
    fn emptied_unless(&self, nothing_was_left: bool) {
        if !nothing_was_left {
            self.trash.empty_behind();
        }
    }
}

#[async_trait]
impl Layers for LocalLayers {
    async fn seal(&self, layer: LayerId) -> Result<String, ProviderError> {
        let shelf = self.shelf.clone();
        blocking(move || {
            shelf.prepare(layer)?;
            durable::boot()
        })
        .await
    }

    async fn make_durable(&self, layers: &[LayerId], sealed_in: Option<&str>) -> Result<bool, ProviderError> {
        let (shelf, layers, sealed_in) = (self.shelf.clone(), layers.to_vec(), sealed_in.map(str::to_owned));
        blocking(move || {
            if sealed_in.is_some_and(|sealed_in| durable::boot().is_ok_and(|now| now != sealed_in)) {
                return Ok(false);
            }
            let found = layers.iter().map(|layer| shelf.find(*layer)).collect::<Result<Vec<_>>>()?;
            durable::bring_to_disk(&found, &[&shelf.layers, &shelf.sandboxes])?;
            Ok(true)
        })
        .await
    }

    async fn differences(&self, before: &View, after: &View, which: &Wanted) -> Result<DifferencePage, PlaceError> {
        compare::differences(self.shelf.clone(), before.clone(), after.clone(), which.clone()).await
    }

    async fn merge(&self, layers: &[LayerId], into: LayerId, spec: &Spec) -> Result<bool, PlaceError> {
        let image = spec.image().map(|(path, digest)| self.images.find(Path::new(path), digest));
        let systems = Systems { skeleton: self.skeleton.clone(), images: self.images.path().to_owned(), image };
        let merged = making::merge(self.shelf.clone(), self.trash.path().to_owned(), layers.to_vec(), into, systems).await;
        self.emptied_unless(matches!(merged, Ok(true)));
        merged
    }

    async fn copy(&self, layer: LayerId, into: LayerId) -> Result<(), PlaceError> {
        let copied = making::copy(self.shelf.clone(), self.trash.path().to_owned(), layer, into).await;
        self.emptied_unless(copied.is_ok());
        copied
    }

    async fn place_made(&self, layer: LayerId) -> Result<(), ProviderError> {
        let shelf = self.shelf.clone();
        blocking(move || shelf.place_made(layer)).await
    }

    async fn drop_made(&self, layer: LayerId) -> Result<(), ProviderError> {
        let (shelf, trash) = (self.shelf.clone(), self.trash.path().to_owned());
        let dropped = blocking(move || shelf.drop_made(layer, &trash)).await?;
        self.emptied_unless(!dropped);
        Ok(())
    }

    async fn forget_identity(&self, sandbox: SandboxId, stack: &Stack) -> Result<(), ProviderError> {
        let (shelf, stack) = (self.shelf.clone(), stack.clone());
        blocking(move || {
            let located = shelf.locate(sandbox, &stack)?;
            identity::forget(&located.upper, &located.below)
        })
        .await
    }

    async fn host_system(&self) -> Result<String, ProviderError> {
        blocking(archive::fingerprint).await
    }

    async fn lie_over_host(&self, layers: &[LayerId]) -> Result<bool, ProviderError> {
        let (shelf, layers) = (self.shelf.clone(), layers.to_vec());
        blocking(move || {
            for layer in layers {
                if archive::is_over_host(&shelf.find(layer)?)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }

    async fn pack(&self, manifest: Vec<u8>, layers: &[LayerId]) -> Result<PackedArchive, PlaceError> {
        carrying::pack(self.shelf.clone(), manifest, layers.to_vec()).await
    }

    async fn open_archive(&self, pieces: ArchivePieces) -> Result<Box<dyn IncomingArchive>, PlaceError> {
        self.open(pieces).await
    }

    async fn is_written(&self, sandbox: SandboxId, stack: &Stack) -> Result<bool, ProviderError> {
        let (shelf, stack) = (self.shelf.clone(), stack.clone());
        blocking(move || written::is_written(&shelf.locate(sandbox, &stack)?)).await
    }

    async fn list(&self) -> Result<Vec<LayerId>, ProviderError> {
        let shelf = self.shelf.clone();
        blocking(move || shelf.list()).await
    }

    async fn remove(&self, layer: LayerId) -> Result<(), ProviderError> {
        let (shelf, trash) = (self.shelf.clone(), self.trash.path().to_owned());
        if blocking(move || shelf.discard(layer, &trash)).await? {
            self.trash.empty_behind();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stead_testing::context;

    use super::*;

    struct House {
        _directory: tempfile::TempDir,
        shelf: Shelf,
        sandbox: SandboxId,
        home: PathBuf,
    }

    fn house() -> House {
        let directory = tempfile::TempDir::new().unwrap();
        let sandboxes = directory.path().join("sandboxes");
        fs::create_dir(&sandboxes).unwrap();
        let shelf = Shelf::open(directory.path(), sandboxes.clone()).unwrap();
        let sandbox = SandboxId::new(&context(7).0);
        let home = sandboxes.join(sandbox.to_string());
        tree::create(&home).unwrap();
        fs::write(home.join("workspace/file"), "kept").unwrap();
        House { _directory: directory, shelf, sandbox, home }
    }

    #[test]
    fn a_sealed_layer_is_found_wherever_it_is_on_its_way() {
        let House { shelf, sandbox, home, .. } = &house();
        let layer = LayerId::first_of(*sandbox);
        shelf.prepare(layer).unwrap();
        assert_eq!(shelf.find(layer).unwrap(), *home);
        // Cut off after each step of moving it.
        let unfinished = shelf.layers.join(format!("{MOVING}{layer}"));
        fs::create_dir(&unfinished).unwrap();
        let found = shelf.find(layer).unwrap();
        assert_eq!(fs::read_to_string(found.join("workspace/file")).unwrap(), "kept");
        fs::rename(&found, &unfinished).unwrap();
        let found = shelf.find(layer).unwrap();
        assert_eq!(fs::read_to_string(found.join("workspace/file")).unwrap(), "kept");
        shelf.part_with(*sandbox).unwrap();
        fs::remove_dir_all(home).unwrap();
        assert_eq!(shelf.find(layer).unwrap(), found);
        assert_eq!(shelf.list().unwrap(), [layer]);
    }

    #[test]
    fn what_was_never_sealed_goes_with_its_sandbox() {
        let House { shelf, sandbox, home, .. } = &house();
        shelf.part_with(*sandbox).unwrap();
        assert!(home.join("workspace/file").exists() && shelf.list().unwrap().is_empty());
    }

    #[test]
    fn a_layer_that_is_gone_is_an_error_and_one_that_is_written_to_is_not() {
        let House { shelf, sandbox, home, .. } = &house();
        let lost = LayerId::new(&context(9).0);
        assert!(shelf.locate(*sandbox, &Stack { upper: None, below: vec![lost] }).is_err());
        let located = shelf.locate(*sandbox, &Stack { upper: Some(lost), below: vec![LayerId::first_of(*sandbox)] }).unwrap();
        assert_eq!(located, Located { upper: shelf.layers.join(lost.to_string()), below: vec![home.clone()] });
    }

    #[test]
    fn a_layer_that_was_away_for_a_while_is_there_again() {
        let House { shelf, sandbox, home, .. } = &house();
        let layer = LayerId::first_of(*sandbox);
        shelf.prepare(layer).unwrap();
        fs::rename(home.join("workspace"), home.join("away")).unwrap();
        assert!(shelf.find(layer).is_err() && shelf.list().unwrap().is_empty());
        fs::rename(home.join("away"), home.join("workspace")).unwrap();
        assert_eq!(shelf.find(layer).unwrap(), *home);
    }

    #[test]
    fn discarding_leaves_a_sandbox_whole() {
        let House { shelf, sandbox, home, _directory } = &house();
        let trash = _directory.path().join("trash");
        fs::create_dir(&trash).unwrap();
        let layer = LayerId::first_of(*sandbox);
        assert!(shelf.discard(layer, &trash).unwrap());
        assert!(tree::is_whole(home).unwrap() && !home.join("workspace/file").exists());
        let other = LayerId::new(&context(9).0);
        assert!(!shelf.discard(other, &trash).unwrap());
        shelf.prepare(other).unwrap();
        assert!(shelf.discard(other, &trash).unwrap() && shelf.list().unwrap().is_empty());
    }
}
