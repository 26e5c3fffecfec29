//! A checkout: a process inside with a purpose, so that its progress is output, its failure a failure, and a crash loses neither.

use std::collections::BTreeMap;

use stead_domain::checkout::{CheckoutRequest, OnChanges};
use stead_domain::environment::Environment;
use stead_domain::ids::{EnvironmentId, PrincipalId};
use stead_domain::process::{Process, ProcessPurpose};
use stead_domain::process_request::NewProcess;
use stead_domain::{Error, Result};
use stead_store::principals;

use super::GitHost;
use crate::idempotency::Outcome;
use crate::{App, Entered};

/// Where repositories are when no app says otherwise.
const USUAL: &str = "https://github.com";
const SCRIPT: &str = include_str!("checkout.sh");
/// How it reaches the shell: what stands in a list of processes is what it works on.
const VARIABLE: &str = "STEAD_CHECKOUT";

impl App {
    /// Begins to put a repository into an environment. The process ends with 0 when exactly what was asked for is there, and has printed
    /// the commit to stdout then.
    pub async fn check_out(&self, entered: &Entered, id: EnvironmentId, request: CheckoutRequest) -> Result<Outcome<Process>> {
        if let Err(error) = request.check() {
            return Err(self.unless_unknown(entered, id, error).await);
        }
        let environment = self.get_environment(entered, id).await?;
        let new = self.checkout_process(&environment, &request, entered.caller.principal).await?;
        let (app, whose) = (self.clone(), entered.clone());
        let begun = self.detached(async move { app.begin_to_the_end(whose, id, new, Some(ProcessPurpose::Checkout)).await }).await?;
        self.tell_begun(begun).await
    }

    async fn checkout_process(&self, environment: &Environment, request: &CheckoutRequest, by: PrincipalId) -> Result<NewProcess> {
        let repos = environment.spec.repos.as_ref();
        let repository = request.repository(repos)?;
        let own_name = repository.split_once('/').map_or(repository, |(_, name)| name);
        let directory = request.directory.as_deref().unwrap_or(own_name);
        let submodules = request.submodules.or_else(|| repos?.submodules).unwrap_or(false);
        let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let (name, email) = self.committer(by).await?;
        let arguments = [
            format!("{}/{repository}.git", self.git_url()),
            directory.to_owned(),
            request.reference.clone().unwrap_or_default(),
            request.commit.clone().unwrap_or_default(),
            yes(submodules),
            yes(request.partial.unwrap_or(false)),
            request.on_changes.unwrap_or(OnChanges::Fail).to_string(),
            name,
            email,
        ];
        let shell = ["sh", "-c", &format!("eval \"${VARIABLE}\""), "checkout"].map(str::to_owned);
        let env = BTreeMap::from([(VARIABLE.to_owned(), SCRIPT.to_owned())]);
        Ok(NewProcess { argv: shell.into_iter().chain(arguments).collect(), env, ..NewProcess::default() })
    }

    /// Who commits, where nobody says otherwise: whoever asked, at an address that is nobody's.
    async fn committer(&self, by: PrincipalId) -> Result<(String, String)> {
        let found = self.store.read(move |unit| Box::pin(async move { Ok::<_, Error>(principals::find(unit, by).await?) })).await?;
        let name = found.map_or_else(|| "stead".to_owned(), |principal| principal.name);
        let plain = |c: char| if c.is_control() || matches!(c, '<' | '>') { ' ' } else { c };
        Ok((name.chars().map(plain).collect(), format!("{by}@stead.invalid")))
    }

    /// Where repositories are cloned from.
    fn git_url(&self) -> String {
        self.git_host().map_or_else(|| USUAL.to_owned(), GitHost::web)
    }
}
