//! A definition that changed reaches the place where it is awake: what may leave is held to it at once.

use stead_domain::environment::Environment;
use stead_domain::ids::EnvironmentId;
use stead_domain::{Error, Result};
use stead_store::{environments, sandboxes};

use crate::App;
use crate::patience::within;

impl App {
    /// Tells the place of an environment what its definition now is, even when the caller hangs up. The edit stands whatever comes of it.
    pub(crate) async fn tell_place(&self, environment: &Environment) {
        let (app, id) = (self.clone(), environment.id);
        let told = self.detached(async move { app.tell_of(id).await }).await;
        if let Err(error) = told {
            tracing::warn!(environment = %id, %error, "its place could not be told of the new definition");
        }
    }

    async fn tell_of(&self, id: EnvironmentId) -> Result<()> {
        // Whoever read the definition before the edit has started by then, and is told too; whoever comes later reads the new one.
        drop(self.gates.shut(id).await);
        let environment = self.load(id).await?;
        let provider = environment.runtime.provider.unwrap_or(environment.provider);
        // Another host's server tells its own place; whoever runs nothing need not be told.
        let Ok(ground) = self.ground(provider, environment.runtime.host) else { return Ok(()) };
        Ok(within(ground.place()?.definition_changed(&self.premises(&environment)?)).await?)
    }

    /// For a server that has just started: the one before may have been cut off between an edit and telling of it.
    pub(crate) async fn tell_all_places(&self) {
        if let Err(error) = self.try_to_tell_all().await {
            tracing::warn!(%error, "the places could not all be told of their definitions");
        }
    }

    async fn try_to_tell_all(&self) -> Result<()> {
        for provider in self.providers.all() {
            if provider.place().is_none() {
                continue;
            }
            let (name, host) = (provider.name(), provider.host());
            let mut after = None;
            loop {
                let page = self
                    .store
                    .read(move |unit| {
                        Box::pin(async move {
                            let sandboxes = sandboxes::of_host(unit, name, host, after).await?;
                            let mut found = Vec::new();
                            for sandbox in &sandboxes {
                                found.extend(environments::of_sandbox(unit, sandbox.id).await?);
                            }
                            Ok::<_, Error>((sandboxes.last().map(|sandbox| sandbox.id), found))
                        })
                    })
                    .await?;
                let (Some(last), found) = page else { break };
                after = Some(last);
                for id in found {
                    if self.stopping.is_cancelled() {
                        return Ok(());
                    }
                    if let Err(error) = self.tell_of(id).await {
                        tracing::warn!(environment = %id, %error, "its place could not be told of its definition");
                    }
                }
            }
        }
        Ok(())
    }
}
