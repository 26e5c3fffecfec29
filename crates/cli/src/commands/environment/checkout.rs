use std::time::Duration;

use stead_domain::checkout::CheckoutRequest;
use stead_domain::environment::Environment;

use crate::arguments::checkout::Checkout;
use crate::commands::process::begin::{Here, conclude, ended, start_at};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;
use crate::session::{Progress, Session, Signals};

/// How long one look at it takes.
const LOOK: Duration = Duration::from_secs(30);

pub async fn run(invocation: &Invocation<'_>, arguments: &Checkout) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let request = CheckoutRequest {
        repository: arguments.repository.clone(),
        reference: arguments.git_reference.clone(),
        commit: arguments.commit.clone(),
        directory: arguments.directory.clone(),
        submodules: arguments.submodules.then_some(true),
        partial: arguments.partial.then_some(true),
        on_changes: arguments.on_changes,
    };
    request.check()?;
    check_out(invocation, &environment, &request).await
}

/// Shows the progress, and ends as the checkout does.
pub async fn check_out(invocation: &Invocation<'_>, environment: &Environment, request: &CheckoutRequest) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let here = Here { invocation, settings: &settings, client: &client, progress: Progress::new() };
    let mut signals = Signals::listen()?;
    let process =
        here.progress.during(&format!("starting in {}", environment.name), start_at(&here, environment, "checkouts", request)).await?;
    if invocation.printer.is_json() {
        let mut process = process;
        while !process.status.is_over() {
            process = client.wait_for_process(environment.id, process.id, LOOK).await?;
        }
        invocation.printer.json(&process)?;
        return ended(&process);
    }
    let session = Session::fresh(invocation, &settings, &process, false);
    conclude(invocation, &process, session.run(&mut signals).await?)
}
