//! Output, piece by piece and only as it is asked for: a reader that stalls costs no memory.

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::{OutputStream, ProcessExit};
use stead_domain::{Code, Error, Result};

use crate::place::{Output, PlaceError, Progress};
use crate::processes::{Ground, Placed};
use crate::{App, Entered};

/// The next thing that a reader hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Output(Output),
    /// It is over, and everything up to then was read.
    Exit(ProcessExit),
    /// There was never a program.
    Failed(String),
}

/// Reads the output of one process from an offset on.
pub struct OutputReader {
    app: App,
    ground: Ground,
    placed: Placed,
    from: u64,
    stream: Option<OutputStream>,
    follow: bool,
    /// Where the output ended when the process did.
    end: Option<u64>,
    told: bool,
}

impl App {
    /// With `follow`, pieces come until the process is over.
    pub async fn read_output(
        &self,
        entered: &Entered,
        environment: EnvironmentId,
        id: ProcessId,
        from: u64,
        stream: Option<OutputStream>,
        follow: bool,
    ) -> Result<OutputReader> {
        let placed = self.placed(entered, environment, id).await?;
        let ground = self.ground_of(&placed)?;
        Ok(OutputReader { app: self.clone(), ground, placed, from, stream, follow, end: None, told: false })
    }
}

impl OutputReader {
    /// Where the next piece begins.
    pub fn offset(&self) -> u64 {
        self.from
    }

    /// What is there now, at most about so many bytes; empty when nothing is.
    pub async fn read(&mut self, at_most: usize) -> Result<Output> {
        let (environment, id) = (self.placed.process.environment_id, self.placed.process.id);
        let read = self.ground.place()?.read(environment, id, self.from, self.stream, at_most).await;
        let output = match read {
            // There is a row and no program yet, or never was one: it has printed nothing.
            Err(PlaceError::NoProcess) if self.placed.process.exit.is_none() => Output { frames: Vec::new(), next: self.from },
            Err(PlaceError::NoProcess) => {
                return Err(Error::new(Code::NotFound, "the output of this process is no longer kept")
                    .suggestion("the server's --keep-logs says for how long it is"));
            }
            read => read?,
        };
        self.from = output.next.max(self.from);
        Ok(output)
    }

    /// The next piece. Without `follow`, none when everything that is there was read; with it, none when the process is over and everything
    /// up to then was read. May be dropped at any time: what was not answered is answered the next time.
    pub async fn next(&mut self, at_most: usize) -> Result<Option<Piece>> {
        loop {
            if self.told {
                return Ok(None);
            }
            // A child in the background may go on printing. What came after the end is for who asks again.
            if self.end.is_none_or(|end| self.from < end) {
                let before = self.from;
                let output = self.read(at_most).await?;
                if !output.frames.is_empty() {
                    return Ok(Some(Piece::Output(output)));
                }
                if self.from > before {
                    continue;
                }
            }
            if !self.follow {
                return Ok(None);
            }
            if let Some(piece) = self.until_further().await? {
                self.told = true;
                return Ok(Some(piece));
            }
        }
    }

    /// Waits until there is more to read; the last piece when there never will be.
    async fn until_further(&mut self) -> Result<Option<Piece>> {
        let (environment, id) = (self.placed.process.environment_id, self.placed.process.id);
        if let Some(error) = &self.placed.process.error {
            return Ok(Some(Piece::Failed(error.clone())));
        }
        let place = self.ground.place()?;
        let seen = match (place.progress(environment, id).await?, &self.placed.process.exit) {
            (Some(progress), _) => progress,
            (None, Some(exit)) => return Ok(Some(Piece::Exit(exit.clone()))),
            // Nobody keeps it and no row says how it ended: its watcher finds out, or the request that starts it is still at work.
            (None, None) => {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                self.read_row_again().await?;
                return Ok(None);
            }
        };
        let known = self.placed.process.exit.clone();
        match seen.exit.clone().or(known) {
            Some(exit) => {
                self.app.watches.note(id, &exit);
                let end = *self.end.get_or_insert(seen.end);
                Ok((self.from >= end).then_some(Piece::Exit(exit)))
            }
            None if seen.end > self.from => {
                // More came while we looked.
                Ok(None)
            }
            None => {
                let further = place.further(environment, id, &seen).await;
                match further {
                    Ok(Progress { .. }) | Err(PlaceError::NoProcess) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    async fn read_row_again(&mut self) -> Result<()> {
        let id = self.placed.process.id;
        let found = self
            .app
            .store
            .read(move |unit| Box::pin(async move { Ok::<_, Error>(stead_store::processes::find_any(unit, id).await?) }))
            .await?;
        self.placed.process = found.ok_or_else(|| super::unknown(id))?;
        Ok(())
    }
}
