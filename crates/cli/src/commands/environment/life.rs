//! `stead env wake|sleep|stop|posture`.

use stead_domain::environment::Environment;

use super::view;
use crate::arguments::environment::{Reference, Sleep};
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn wake(invocation: &Invocation<'_>, arguments: &Reference) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    told(invocation, &client.wake_environment(environment.id).await?, "is awake")
}

pub async fn sleep(invocation: &Invocation<'_>, arguments: &Sleep) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    told(invocation, &client.sleep_environment(environment.id, arguments.force).await?, "sleeps")
}

pub async fn stop(invocation: &Invocation<'_>, arguments: &Reference) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    told(invocation, &client.stop_environment(environment.id).await?, "has stopped, and sleeps")
}

fn told(invocation: &Invocation<'_>, environment: &Environment, what: &str) -> Result<()> {
    invocation.printer.record(environment, &environment.id.to_string(), |printer| {
        printer.note(&format!("environment {} {what}", environment.name));
        Ok(())
    })
}

pub async fn posture(invocation: &Invocation<'_>, arguments: &Reference) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.environment).await?;
    let posture = client.get_posture(environment.id).await?;
    invocation.printer.record(&posture, &environment.id.to_string(), |printer| view::posture(printer, &posture.fields, &environment.spec))
}
