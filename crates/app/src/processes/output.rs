//! Output, piece by piece and only as it is asked for: a reader that stalls costs no memory.

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::principal::Role;
use stead_domain::process::{OutputStream, ProcessExit};
use stead_domain::{Code, Error, Result};

use crate::place::{Follower, Mark, Output, PlaceError, Progress};
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

/// How far a reader goes before it says so to a process that waits for it.
const STEP: u64 = 256 << 10;

/// What somebody wants to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    pub from: u64,
    /// Only this one.
    pub stream: Option<OutputStream>,
    /// Until the process is over.
    pub follow: bool,
    /// A process that was started so waits for this reader.
    pub hold: bool,
}

/// Reads the output of one process from an offset on.
pub struct OutputReader {
    app: App,
    ground: Ground,
    placed: Placed,
    from: u64,
    near: Option<Mark>,
    stream: Option<OutputStream>,
    follow: bool,
    /// Where the output ended when the process did.
    end: Option<u64>,
    told: bool,
    hold: bool,
    /// The process' end of our following it, and how far it was told that we are.
    follower: Option<Box<dyn Follower>>,
    reached: Option<u64>,
}

impl App {
    pub async fn read_output(
        &self,
        entered: &Entered,
        environment: EnvironmentId,
        id: ProcessId,
        reading: Reading,
    ) -> Result<OutputReader> {
        let Reading { from, stream, follow, hold } = reading;
        let placed = self.placed(entered, environment, id).await?;
        let ground = self.ground_of(&placed)?;
        if hold && !entered.role.covers(Role::Member) {
            // Whoever stops reading stops the process.
            return Err(Error::new(Code::Forbidden, "`hold` needs the role `member`; as a viewer you can only read")
                .suggestion("leave `hold` out; what is no longer kept is then told as a gap"));
        }
        let app = self.clone();
        Ok(OutputReader {
            app,
            ground,
            placed,
            from,
            near: None,
            stream,
            follow,
            end: None,
            told: false,
            hold,
            follower: None,
            reached: None,
        })
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
        let read = self.ground.place()?.read(environment, id, self.from, self.near, self.stream, at_most).await;
        let output = match read {
            // There is a row and no program yet, or never was one: it has printed nothing.
            Err(PlaceError::NoProcess) if self.placed.process.exit.is_none() => Output { next: self.from, ..Output::default() },
            Err(PlaceError::NoProcess) => {
                return Err(Error::new(Code::NotFound, "the output of this process is no longer kept")
                    .suggestion("the server's --keep-logs says for how long it is"));
            }
            read => read?,
        };
        self.from = output.next.max(self.from);
        self.near = output.near;
        Ok(output)
    }

    /// The next piece. Without `follow`, none when everything that is there was read; with it, none when the process is over and everything
    /// up to then was read. May be dropped at any time: what was not answered is answered the next time.
    pub async fn next(&mut self, at_most: usize) -> Result<Option<Piece>> {
        loop {
            if self.told {
                return Ok(None);
            }
            self.say_how_far().await;
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

    /// Tells a process that waits for us what was taken: all that was answered before.
    async fn say_how_far(&mut self) {
        if !self.hold || self.reached.is_some_and(|reached| self.from < reached + STEP) {
            return;
        }
        if self.follower.as_ref().is_none_or(|follower| !follower.reached(self.from)) {
            self.follower = None;
            let (environment, id, from) = (self.placed.process.environment_id, self.placed.process.id, self.from);
            if let Ok(place) = self.ground.place() {
                // One that cannot be told waits for a while; if it then loses something, that is told as a gap.
                self.follower = place.follow(environment, id, from).await.unwrap_or_default();
            }
        }
        // Who could not be told is told with the next piece.
        self.reached = self.follower.is_some().then_some(self.from);
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
