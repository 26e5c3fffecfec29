//! What was over for long enough is forgotten: first its output, then its record, so that a crash between leaves what is found again.

use stead_domain::process::Process;
use stead_domain::{Error, Result};
use stead_store::{processes, sandboxes};

use crate::App;
use crate::processes::Placed;

impl App {
    /// How many processes of this host are older than they have to be kept.
    pub(crate) async fn count_old_processes(&self) -> Result<u64> {
        let (host, before) = (self.host, self.context.now().minus(self.settings.retention.logs));
        self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(processes::count_over_before(unit, host, before).await?) })).await
    }

    /// Forgets them, and tells how many it were.
    pub async fn forget_old_processes(&self) -> Result<u64> {
        let (host, before) = (self.host, self.context.now().minus(self.settings.retention.logs));
        let mut count = 0;
        loop {
            let old = self
                .store
                .read(move |unit| {
                    Box::pin(async move {
                        let mut old = Vec::new();
                        for process in processes::over_before(unit, host, before).await? {
                            let sandbox = sandboxes::find(unit, process.sandbox_id).await?;
                            old.push((process, sandbox.map(|sandbox| (sandbox.provider, sandbox.host_id))));
                        }
                        Ok::<_, Error>(old)
                    })
                })
                .await?;
            let mut forgotten = Vec::new();
            for (process, sandbox) in old {
                let outcome = match sandbox {
                    Some((provider, host)) => self.forget_output(Placed { process: process.clone(), provider, host }).await,
                    None => Ok(()),
                };
                match outcome {
                    Ok(()) => forgotten.push(process.id),
                    Err(error) => tracing::warn!(process = %process.id, %error, "its output could not be removed yet"),
                }
            }
            if forgotten.is_empty() || self.stopping.is_cancelled() {
                return Ok(count);
            }
            count += forgotten.len() as u64;
            self.store
                .write(move |unit| {
                    Box::pin(async move {
                        for id in forgotten {
                            processes::delete(unit, id).await?;
                        }
                        Ok::<_, Error>(())
                    })
                })
                .await?;
        }
    }

    async fn forget_output(&self, placed: Placed) -> Result<()> {
        let ground = self.ground_of(&placed)?;
        let Process { id, environment_id, .. } = placed.process;
        Ok(ground.place()?.forget(environment_id, Some(id)).await?)
    }
}
