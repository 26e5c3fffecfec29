//! What Stead needs of whoever makes sandboxes.

use async_trait::async_trait;
use stead_domain::changes::RelativePath;
use stead_domain::checkpoint::Stack;
use stead_domain::checkpoint_diff::Difference;
use stead_domain::definition::Spec;
use stead_domain::ids::{HostId, LayerId, SandboxId};
use stead_domain::posture::Capabilities;
use stead_domain::principal::{Caller, Credential};
use stead_domain::provider::ProviderName;
use stead_domain::sandbox::Sandbox;
use stead_domain::{Code, Error};
use tokio::sync::mpsc;

use crate::place::{Place, PlaceError};

/// Makes and keeps sandboxes. Every call may be repeated after a crash or a lost reply and has the same outcome: `create` finds what it
/// made before by our id, `destroy` of what is gone succeeds.
#[async_trait]
pub trait Provider: Send + Sync {
    fn name(&self) -> ProviderName;

    /// What it enforces of each posture field, as far as that is known.
    fn capabilities(&self) -> Capabilities;

    /// Waits until what it enforces is known. Some have to find it out first.
    async fn settled(&self) {}

    /// What can be done in its sandboxes, as an environment's `capabilities` lists it.
    fn features(&self) -> Vec<String>;

    /// The host whose sandboxes it keeps; none when any server may speak for it.
    fn host(&self) -> Option<HostId>;

    /// Refuses a definition that this provider cannot carry out for reasons of its own, beyond what its capabilities say. What it leaves
    /// open and must not change later is filled in. May take as long as it takes to read an image.
    fn check_definition(&self, _spec: &mut Spec, _asked_by: &AskedBy) -> stead_domain::Result<()> {
        Ok(())
    }

    /// Where its sandboxes run processes; none when they cannot.
    fn place(&self) -> Option<&dyn Place> {
        None
    }

    /// Where the files of its sandboxes lie in layers; none when they do not.
    fn layers(&self) -> Option<&dyn Layers> {
        None
    }

    /// Whether to make a sandbox costs next to nothing, and nobody is harmed by one without a row until the janitor finds it.
    fn is_made_at_once(&self) -> bool {
        false
    }

    async fn create(&self, request: &NewSandbox) -> Result<Resource, ProviderError>;

    /// The same where it is made at once, and lost with the host's power until `secure` has returned.
    async fn make_at_once(&self, request: &NewSandbox) -> Result<Resource, ProviderError> {
        self.create(request).await
    }

    /// Returns when everything that was made at once before outlasts a loss of power.
    async fn secure(&self) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn inspect(&self, sandbox: &Sandbox) -> Result<Observation, ProviderError>;
    async fn start(&self, sandbox: &Sandbox) -> Result<(), ProviderError>;
    async fn stop(&self, sandbox: &Sandbox) -> Result<(), ProviderError>;
    async fn destroy(&self, sandbox: SandboxId, resource_id: Option<&str>) -> Result<(), ProviderError>;

    /// Removes one that holds nobody's work because nothing ever ran in it; whether that was so.
    async fn discard_unused(&self, _sandbox: SandboxId) -> Result<bool, ProviderError> {
        Ok(false)
    }

    /// Everything at the provider that carries this installation's label.
    async fn list(&self) -> Result<Vec<Listed>, ProviderError>;

    /// The digests of images that it keeps and nobody wanted lately.
    async fn images(&self) -> Result<Vec<String>, ProviderError> {
        Ok(Vec::new())
    }

    /// Removes one that no definition names; whether it did. One that is in use stays.
    async fn remove_image(&self, _digest: &str) -> Result<bool, ProviderError> {
        Ok(false)
    }

    /// Whether it can be used now, in a sentence.
    async fn check(&self) -> Result<String, ProviderError>;

    /// What it occupies on this machine, as label and bytes.
    async fn usage(&self) -> Result<Vec<(String, u64)>, ProviderError>;
}

/// The layers that the files of sandboxes lie in. Which of them a sandbox sees, and which are sealed, the store alone knows. Calls may be
/// repeated.
#[async_trait]
pub trait Layers: Send + Sync {
    /// From now on a layer stays when its sandbox goes. Answers a mark of the present time, which says later whether the host went down since.
    async fn seal(&self, layer: LayerId) -> Result<String, ProviderError>;

    /// Brings sealed layers to the disk. False when the host went down since they were sealed, and some of it may be lost.
    async fn make_durable(&self, layers: &[LayerId], sealed_in: Option<&str>) -> Result<bool, ProviderError>;

    /// What differs between the workspaces of two views.
    async fn differences(&self, before: &View, after: &View, which: &Wanted) -> Result<DifferencePage, PlaceError>;

    /// Makes one layer of these, the topmost first, that shows what they do in an environment of this definition. It is no layer yet: nobody
    /// sees it before it is placed. False when these cannot be made one.
    async fn merge(&self, layers: &[LayerId], into: LayerId, spec: &Spec) -> Result<bool, PlaceError>;

    /// Makes another layer of one that nobody writes to now, which shares everything with it until either is written to. It is no layer yet,
    /// like one that was merged. Refused with [`PlaceError::NeedsStop`] where nothing can be shared.
    async fn copy(&self, layer: LayerId, into: LayerId) -> Result<(), PlaceError>;

    /// Puts a layer in place that was merged or copied.
    async fn place_made(&self, layer: LayerId) -> Result<(), ProviderError>;

    /// Lets go of one that was not placed, and may be half made.
    async fn drop_made(&self, layer: LayerId) -> Result<(), ProviderError>;

    /// Hides from a new sandbox what the system in the layers below it knows itself by.
    async fn forget_identity(&self, sandbox: SandboxId, stack: &Stack) -> Result<(), ProviderError>;

    /// What this host's system is: another where layers over it would mean something else.
    async fn host_system(&self) -> Result<String, ProviderError>;

    /// Whether one of these lies over the host's system.
    async fn lie_over_host(&self, layers: &[LayerId]) -> Result<bool, ProviderError>;

    /// Sealed layers as an archive that begins with a manifest. They must stay for as long as it is read.
    async fn pack(&self, manifest: Vec<u8>, layers: &[LayerId]) -> Result<PackedArchive, PlaceError>;

    /// An archive as it arrives, up to where its manifest ends.
    async fn open_archive(&self, pieces: ArchivePieces) -> Result<Box<dyn IncomingArchive>, PlaceError>;

    /// Whether what a sandbox sees is not what lies below the layer that it writes to.
    async fn is_written(&self, sandbox: SandboxId, stack: &Stack) -> Result<bool, ProviderError>;

    /// Those that belong to no present sandbox alone.
    async fn list(&self) -> Result<Vec<LayerId>, ProviderError>;

    /// Removes one that nobody needs.
    async fn remove(&self, layer: LayerId) -> Result<(), ProviderError>;
}

/// The bytes of an archive as they arrive. The end is said by a none: whoever only lets go was cut off.
pub type ArchivePieces = mpsc::Receiver<Option<Vec<u8>>>;

/// An archive that is being made.
pub struct PackedArchive {
    /// How many bytes it has.
    pub size: u64,
    /// An error is the last of them.
    pub pieces: mpsc::Receiver<Result<Vec<u8>, PlaceError>>,
}

/// Where an archive goes.
pub struct ArchiveTarget {
    /// The layers that its layers become, in order, and whether each counts as what the environment occupies.
    pub layers: Vec<(LayerId, bool)>,
    /// Whether layers over the host's system are taken.
    pub over_host: bool,
    /// What those that count may occupy, in bytes.
    pub most: Option<u64>,
}

/// An archive that nobody vouches for, of which only the manifest was read.
#[async_trait]
pub trait IncomingArchive: Send {
    fn manifest(&self) -> &[u8];

    /// Reads all of it. What it answers is whole and on the disk.
    async fn unpack(self: Box<Self>, into: ArchiveTarget) -> Result<Box<dyn UnpackedArchive>, PlaceError>;
}

/// Layers that arrived, and that nobody sees before they are placed. Whoever lets go of them throws them away.
#[async_trait]
pub trait UnpackedArchive: Send {
    fn entries(&self) -> u64;
    /// Bytes of files.
    fn size(&self) -> u64;
    async fn place(self: Box<Self>) -> Result<(), ProviderError>;
}

/// Layers that are seen on top of each other, the topmost first.
#[derive(Clone, Debug)]
pub struct View {
    pub layers: Vec<LayerId>,
    /// The topmost is one that is written to: it may be missing, and may change while it is looked at.
    pub live: bool,
}

/// Which differences are asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Only this path.
    pub only: Option<RelativePath>,
    /// Behind this path.
    pub after: Option<RelativePath>,
    pub limit: usize,
    /// Also how files differ, line by line.
    pub text: bool,
}

#[derive(Clone, Debug, Default)]
pub struct DifferencePage {
    pub items: Vec<Difference>,
    /// Behind which path the next ones are.
    pub next: Option<RelativePath>,
    /// How many directories could not be looked into.
    pub unreadable: u64,
}

/// On whose word a definition is to be carried out.
#[derive(Clone, Debug, Default)]
pub struct AskedBy {
    /// The user who runs this server, on this machine and outside any sandbox: may mount what is that user's own.
    pub own_user: bool,
    /// Directories of the host that the present definition mounts already; whoever edits something else need not be allowed to mount them.
    pub mounted_before: Vec<String>,
    /// The image of the present definition, with its digest.
    pub image_before: Option<(String, Option<String>)>,
}

impl AskedBy {
    pub fn caller(caller: &Caller, present: Option<&Spec>) -> Self {
        let mounted_before = present.into_iter().flat_map(Spec::host_paths).map(|(_, path)| path.to_owned()).collect();
        let image = present.and_then(Spec::image);
        let image_before = image.map(|(image, digest)| (image.to_owned(), digest.map(str::to_owned)));
        Self { own_user: matches!(caller.credential, Credential::Socket), mounted_before, image_before }
    }
}

/// A sandbox to be made. Its id is the label on everything made for it.
#[derive(Clone, Debug)]
pub struct NewSandbox {
    pub id: SandboxId,
    /// For people who look at the provider's own list.
    pub name: String,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    pub id: String,
    pub name: String,
}

/// What the provider says of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether it is there at all.
    pub exists: bool,
    /// The provider's own word.
    pub state: String,
    pub message: Option<String>,
}

/// One entry of the provider's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub sandbox: SandboxId,
    pub resource_id: String,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("the disk is full or refuses writes: {0}")]
    StorageFull(String),
    #[error("the provider cannot be reached: {0}")]
    Unreachable(String),
    #[error("the provider refused: {0}")]
    Refused(String),
    #[error("the provider failed: {0}")]
    Failed(String),
}

impl From<ProviderError> for Error {
    fn from(error: ProviderError) -> Self {
        match &error {
            ProviderError::StorageFull(_) => Self::new(Code::StorageFull, error.to_string())
                .suggestion("free space under the data directory, then try again; `stead system df` shows what uses it"),
            ProviderError::Unreachable(_) => Self::new(Code::ServiceUnavailable, error.to_string())
                .suggestion("`stead provider check` says more; try again when it answers"),
            ProviderError::Refused(_) | ProviderError::Failed(_) => {
                Self::new(Code::ProviderFailed, error.to_string()).suggestion("`stead provider check` and `stead doctor` say more")
            }
        }
    }
}
