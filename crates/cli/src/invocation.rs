//! One run of the command line: what the user said, and what the commands need to answer.

use stead_client::Client;
use stead_domain::{Context, Timestamp};

use crate::arguments::GlobalArguments;
use crate::connection;
use crate::failure::Result;
use crate::printer::Printer;
use crate::settings::{Presents, Settings, Surroundings};

pub struct Invocation<'run> {
    pub global: GlobalArguments,
    pub printer: &'run Printer,
    pub surroundings: Surroundings,
    pub context: Context,
}

impl Invocation<'_> {
    /// The settings, with what was not used of them said aloud.
    pub fn settings(&self) -> Result<Settings> {
        self.settings_that(Presents::Lease)
    }

    /// The same for what nobody's lease is needed for: neither one that has ended nor one that cannot be read is in its way.
    pub fn settings_without_lease(&self) -> Result<Settings> {
        self.settings_that(Presents::Nothing)
    }

    fn settings_that(&self, presents: Presents) -> Result<Settings> {
        let settings = Settings::resolve(&self.global, &self.surroundings, presents)?;
        for warning in &settings.warnings {
            self.printer.warn(warning);
        }
        Ok(settings)
    }

    /// A client that is connected; the local server is started when nobody answers.
    pub async fn client(&self) -> Result<Client> {
        connection::open(&self.settings()?, self.printer, &self.context).await
    }

    /// The same for what only looks, and for what nobody's lease is needed for.
    pub async fn client_without_lease(&self) -> Result<Client> {
        connection::open(&self.settings_without_lease()?, self.printer, &self.context).await
    }

    pub fn now(&self) -> Timestamp {
        self.context.now()
    }
}
