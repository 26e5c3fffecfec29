//! Files of an environment. Everything is done inside, by a process of the place's own, so that no path leads out; an environment that sleeps
//! is woken for it.

use std::sync::Arc;

use bytes::Bytes;
use stead_domain::changes::EntryType;
use stead_domain::environment::Environment;
use stead_domain::files::{FileEntry, FileEvent, FileOrder, FilePath, FileWord};
use stead_domain::ids::EnvironmentId;
use stead_domain::{Code, Error, Result};
use stead_store::{environments, sandboxes};

use crate::file_changes::Noted;
use crate::leases::Right;
use crate::patience::within;
use crate::place::Errand;
use crate::processes::check_usable;
use crate::{App, Entered};

/// What was found of a list.
pub struct Listed {
    pub entries: Vec<FileEntry>,
    /// There is more after the last one.
    pub more: bool,
}

/// A file that is being read.
pub struct FileReader {
    pub entry: FileEntry,
    pub bytes: FileStream,
}

/// What is being said inside.
pub struct FileStream {
    errand: Box<dyn Errand>,
}

impl FileStream {
    /// The next bytes; none at the end. What comes next is read only when it is asked for.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        match within(self.errand.next()).await? {
            (FileWord::Bytes, bytes) => Ok(Some(bytes)),
            (FileWord::Done { .. }, _) => Ok(None),
            (FileWord::Failed(failure), _) => Err(failure.into()),
            _ => Err(out_of_turn()),
        }
    }
}

/// Files that are being watched.
pub struct FileWatch {
    errand: Box<dyn Errand>,
}

impl FileWatch {
    /// What happened next; none when what was watched is gone.
    pub async fn next(&mut self) -> Result<Option<Vec<FileEvent>>> {
        match self.errand.next().await?.0 {
            FileWord::Events { events } => Ok(Some(events)),
            FileWord::Done { .. } => Ok(None),
            FileWord::Failed(failure) => Err(failure.into()),
            _ => Err(out_of_turn()),
        }
    }
}

/// What came of what was sent.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// How many bytes a file has now, or those of an archive had.
    pub size: u64,
    /// Entries of an archive.
    pub count: u64,
}

/// What has begun inside.
pub(crate) struct Opened {
    pub(crate) errand: Box<dyn Errand>,
    /// Of what changes something.
    pub(crate) noted: Option<Noted>,
    /// For as long as it does.
    right: Option<Arc<Right>>,
}

/// A file that is being written.
pub struct FileWriter {
    errand: Box<dyn Errand>,
    noted: Option<Noted>,
    _right: Option<Arc<Right>>,
}

impl FileWriter {
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        // Whatever runs inside may stop who writes; whoever sends is not kept waiting for ever.
        match within(self.errand.send(bytes)).await {
            Ok(()) => Ok(()),
            // It stopped listening, and may have said why.
            Err(error) => {
                let outcome = Err(self.last_word().await.err().unwrap_or_else(|| error.into()));
                self.ended(outcome).await
            }
        }
    }

    /// That was all; what came of it.
    pub async fn finish(mut self) -> Result<Written> {
        let outcome = match within(self.errand.end()).await {
            Ok(()) => self.last_word().await,
            Err(error) => Err(self.last_word().await.err().unwrap_or_else(|| error.into())),
        };
        self.ended(outcome).await
    }

    async fn ended<T>(&mut self, outcome: Result<T>) -> Result<T> {
        match self.noted.take() {
            Some(noted) => noted.ended(outcome).await,
            None => outcome,
        }
    }

    async fn last_word(&mut self) -> Result<Written> {
        match within(self.errand.next()).await?.0 {
            FileWord::Done { size, count, .. } => Ok(Written { size, count }),
            FileWord::Failed(failure) => Err(failure.into()),
            _ => Err(out_of_turn()),
        }
    }
}

fn out_of_turn() -> Error {
    Error::new(Code::ProviderFailed, "what was done inside the environment ended in nonsense")
        .suggestion("try again; `stead env sleep` and then once more if it stays so")
}

impl App {
    pub async fn stat_file(&self, entered: &Entered, id: EnvironmentId, path: FilePath) -> Result<FileEntry> {
        let mut errand = self.open_errand(entered, id, &FileOrder::Stat { path }).await?.errand;
        let mut entries = collect(&mut *errand, 1).await?.entries;
        entries.pop().ok_or_else(out_of_turn)
    }

    /// What a path leads to, through links: what reading it would read.
    pub async fn stat_target(&self, entered: &Entered, id: EnvironmentId, path: &FilePath) -> Result<FileEntry> {
        Ok(self.read_file(entered, id, path.clone(), 0, Some(0)).await?.entry)
    }

    pub async fn list_files(&self, entered: &Entered, id: EnvironmentId, order: FileOrder) -> Result<Listed> {
        let most = match order {
            FileOrder::List { limit, .. } => limit,
            FileOrder::Find(ref find) => find.limit,
            _ => 0,
        };
        collect(&mut *self.open_errand(entered, id, &order).await?.errand, most).await
    }

    pub async fn read_file(
        &self,
        entered: &Entered,
        id: EnvironmentId,
        path: FilePath,
        offset: u64,
        length: Option<u64>,
    ) -> Result<FileReader> {
        let mut errand = self.open_errand(entered, id, &FileOrder::Read { path, offset, length }).await?.errand;
        match within(errand.next()).await?.0 {
            FileWord::Entries { mut entries } => match entries.pop() {
                Some(entry) if entry.r#type == EntryType::File => Ok(FileReader { entry, bytes: FileStream { errand } }),
                _ => Err(out_of_turn()),
            },
            FileWord::Failed(failure) => Err(failure.into()),
            _ => Err(out_of_turn()),
        }
    }

    /// For orders whose answer is a stream. What is wrong with them is said before that begins.
    pub async fn stream_files(&self, entered: &Entered, id: EnvironmentId, order: &FileOrder) -> Result<FileStream> {
        let mut errand = self.open_errand(entered, id, order).await?.errand;
        match errand.next().await?.0 {
            FileWord::Begun => Ok(FileStream { errand }),
            FileWord::Failed(failure) => Err(failure.into()),
            _ => Err(out_of_turn()),
        }
    }

    /// Watches from before this answers until what it gives is dropped. The environment stays awake for it.
    pub async fn watch_files(&self, entered: &Entered, id: EnvironmentId, path: FilePath, recursive: bool) -> Result<FileWatch> {
        let FileStream { errand } = self.stream_files(entered, id, &FileOrder::Watch { path, recursive }).await?;
        Ok(FileWatch { errand })
    }

    /// For orders that bytes follow.
    pub async fn write_file(&self, entered: &Entered, id: EnvironmentId, order: &FileOrder) -> Result<FileWriter> {
        let Opened { errand, noted, right } = self.open_errand(entered, id, order).await?;
        Ok(FileWriter { errand, noted, _right: right })
    }

    pub(crate) async fn open_errand(&self, entered: &Entered, id: EnvironmentId, order: &FileOrder) -> Result<Opened> {
        // Before the gate: whoever stops what the last holder left shuts it.
        let right = match order.changes() {
            true => {
                let environment = self.get_environment(entered, id).await?;
                check_usable(&environment)?;
                Some(Arc::new(self.enter(entered, &environment).await?))
            }
            false => None,
        };
        // Only until it has begun: whoever puts the environment to sleep does not wait for a long one.
        let _passing = self.gates.pass(id).await;
        let (environment, provider, host) = self.read_for_errand(entered, id).await?;
        check_usable(&environment)?;
        let ground = self.ground(provider, host)?;
        let noted = self.note_change(entered, &environment, order, right.as_ref()).await?;
        let warrant = right.as_ref().map(|right| right.warrant);
        let errand = match ground.place() {
            Ok(place) => within(place.errand(&self.premises(&environment)?, warrant, order)).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        match (errand, noted) {
            (Ok(errand), noted) => Ok(Opened { errand, noted, right }),
            (Err(error), Some(noted)) => noted.ended(Err(error)).await,
            (Err(error), None) => Err(error),
        }
    }

    async fn read_for_errand(
        &self,
        entered: &Entered,
        id: EnvironmentId,
    ) -> Result<(Environment, stead_domain::provider::ProviderName, Option<stead_domain::ids::HostId>)> {
        let project = entered.project;
        self.store
            .glance(move |unit| {
                Box::pin(async move {
                    let environment = environments::find(unit, project, id).await?.ok_or_else(|| crate::environments::unknown(id))?;
                    let sandbox = sandboxes::find(unit, environment.sandbox_id).await?;
                    let sandbox = sandbox.ok_or_else(|| Error::internal(format!("environment {id} has no sandbox row")))?;
                    Ok((environment, sandbox.provider, sandbox.host_id))
                })
            })
            .await
    }
}

/// Everything until it is done, and no more than was asked for: who speaks is not believed to end by itself.
pub(crate) async fn collect(errand: &mut dyn Errand, most: u64) -> Result<Listed> {
    let mut entries = Vec::new();
    loop {
        match errand.next().await?.0 {
            FileWord::Entries { entries: more } if (entries.len() + more.len()) as u64 <= most => entries.extend(more),
            FileWord::Done { more, .. } => return Ok(Listed { entries, more }),
            FileWord::Failed(failure) => return Err(failure.into()),
            _ => return Err(out_of_turn()),
        }
    }
}
