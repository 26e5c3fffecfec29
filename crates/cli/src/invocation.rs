//! One run of the command line: what the user said, and what the commands need to answer.

use stead_client::Client;
use stead_domain::{Context, Timestamp};

use crate::arguments::GlobalArguments;
use crate::connection;
use crate::failure::Result;
use crate::printer::Printer;
use crate::settings::{Settings, Surroundings};

pub struct Invocation<'run> {
    pub global: GlobalArguments,
    pub printer: &'run Printer,
    pub surroundings: Surroundings,
    pub context: Context,
}

impl Invocation<'_> {
    /// The settings, with what was not used of them said aloud.
    pub fn settings(&self) -> Result<Settings> {
        let settings = Settings::resolve(&self.global, &self.surroundings)?;
        for warning in &settings.warnings {
            self.printer.warn(warning);
        }
        Ok(settings)
    }

    /// A client that is connected; the local server is started when nobody answers.
    pub async fn client(&self) -> Result<Client> {
        connection::open(&self.settings()?, self.printer, &self.context).await
    }

    /// The same for what nobody's lease is needed for: one that has ended must not keep its owner from the next.
    pub async fn client_without_lease(&self) -> Result<Client> {
        connection::open(&self.settings()?.presenting(None), self.printer, &self.context).await
    }

    pub fn now(&self) -> Timestamp {
        self.context.now()
    }
}
