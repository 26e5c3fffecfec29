use super::begin::{Here, Wanted};
use crate::arguments::process::Exec;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;
use crate::session::{Progress, Signals};

pub async fn run(invocation: &Invocation<'_>, arguments: &Exec) -> Result<()> {
    let settings = invocation.settings()?;
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let here = Here { invocation, settings: &settings, client: &client, progress: Progress::new() };
    let mut signals = Signals::listen()?;
    Wanted::new(&arguments.command, &arguments.how, arguments.detach).run(&here, &environment, &mut signals).await
}
