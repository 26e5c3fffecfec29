use super::begin::{Here, Wanted};
use crate::arguments::process::Shell;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::references;
use crate::session::{Progress, Signals};

pub async fn run(invocation: &Invocation<'_>, arguments: &Shell) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let here = Here { invocation, settings: &settings, client: &client, progress: Progress::new() };
    let mut signals = Signals::listen()?;
    let usual = ["bash".to_owned(), "sh".to_owned()];
    let shells = arguments.shell.as_ref().map_or(&usual[..], std::slice::from_ref);
    let mut outcome = Ok(());
    for shell in shells {
        let command = [shell.clone()];
        let wanted =
            Wanted { command: &command, variables: &arguments.variables, directory: arguments.dir.clone(), timeout: None, detach: false };
        outcome = wanted.run(&here, &environment, &mut signals).await;
        if !outcome.as_ref().is_err_and(is_missing) {
            break;
        }
    }
    outcome
}

/// The shell is not there inside. One that ran and ended with that code has told it already.
fn is_missing(failure: &Failure) -> bool {
    !matches!(failure, Failure::Told(_)) && failure.exit_status() == ExitStatus::Command(127)
}
