//! Get and list. What is not over is asked of its place, which knows earlier than the row.

use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::page::{Page, PageRequest};
use stead_domain::process::{Process, ProcessExit, ProcessStatus};
use stead_domain::{Error, Result};
use stead_store::{environments, processes};

use crate::place::Place;
use crate::processes::ProcessQuery;
use crate::processes::watch::placed_unfinished;
use crate::{App, Entered};

/// How long a place is asked about one of many processes.
const ASKED: std::time::Duration = std::time::Duration::from_secs(1);

impl App {
    pub async fn get_process(&self, entered: &Entered, environment: EnvironmentId, id: ProcessId) -> Result<Process> {
        let placed = self.placed(entered, environment, id).await?;
        // Another host's is told as its row has it.
        match self.ground_of(&placed) {
            Ok(ground) => Ok(self.merged(placed.process, ground.place()?).await),
            Err(_) => Ok(placed.process),
        }
    }

    pub async fn list_processes(
        &self,
        entered: &Entered,
        environment: EnvironmentId,
        query: ProcessQuery,
        page: PageRequest,
    ) -> Result<Page<Process>> {
        let (project, limit) = (entered.project, page.limit);
        let (environment, rows) = self
            .store
            .read(move |unit| {
                Box::pin(async move {
                    let found = environments::find(unit, project, environment).await?;
                    let environment = found.ok_or_else(|| crate::environments::unknown(environment))?;
                    let rows = processes::list(unit, environment.id, &query, &page).await?;
                    Ok::<_, Error>((environment, rows))
                })
            })
            .await?;
        let mut listed = Page::new(rows, limit, |process| process.id.to_string());
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        if let Ok(ground) = self.ground(provider, environment.runtime.host) {
            let mut items = Vec::with_capacity(listed.items.len());
            for process in listed.items {
                items.push(self.merged(process, ground.place()?).await);
            }
            // What ended meanwhile is no longer what was asked for.
            items.retain(|process| {
                !(query.unfinished && process.status.is_over()) && query.status.is_none_or(|status| status == process.status)
            });
            listed.items = items;
        }
        Ok(listed)
    }

    /// What runs on this host now, in whatever project.
    pub async fn running_here(&self) -> Result<Vec<Process>> {
        let (host, mut after, mut running) = (self.host, None, Vec::new());
        loop {
            let page = self.store.read(move |unit| Box::pin(async move { placed_unfinished(unit, host, after).await })).await?;
            let Some(last) = page.last() else { return Ok(running) };
            after = Some(last.process.id);
            for placed in page {
                let Ok(ground) = self.ground_of(&placed) else { continue };
                // One keeper that does not answer is not to keep everybody from hearing of the others.
                let asked = tokio::time::timeout(ASKED, self.merged(placed.process.clone(), ground.place()?)).await;
                let process = asked.unwrap_or(placed.process);
                running.extend((!process.status.is_over()).then_some(process));
            }
        }
    }

    /// A process as its place knows it. A place that cannot be asked leaves what the row says, and what was already said of its end.
    pub(crate) async fn merged(&self, process: Process, place: &dyn Place) -> Process {
        if process.status.is_over() {
            return process;
        }
        if let Some(exit) = self.watches.exit_of(process.id) {
            return ended(process, exit);
        }
        match place.progress(process.environment_id, process.id).await {
            Ok(Some(progress)) => match progress.exit {
                Some(exit) => {
                    self.watches.note(process.id, &exit);
                    ended(process, exit)
                }
                None => Process { status: ProcessStatus::Running, ..process },
            },
            Ok(None) => process,
            Err(error) => {
                tracing::debug!(process = %process.id, %error, "its place could not be asked");
                process
            }
        }
    }
}

pub(crate) fn ended(process: Process, exit: ProcessExit) -> Process {
    Process { status: ProcessStatus::Exited, exit: Some(exit), ..process }
}
