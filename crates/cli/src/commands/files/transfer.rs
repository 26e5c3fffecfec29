use super::{changed, inside};
use crate::arguments::files::Transfer;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn r#move(invocation: &Invocation<'_>, arguments: &Transfer) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let (from, to) = (inside(&arguments.from)?, inside(&arguments.to)?);
    client.move_file(environment.id, &from, &to, arguments.overwrite).await?;
    let sentence = format!("moved `{from}` to `{to}` in {}", environment.name);
    changed(invocation, &[to], &sentence)
}

pub async fn copy(invocation: &Invocation<'_>, arguments: &Transfer) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let (from, to) = (inside(&arguments.from)?, inside(&arguments.to)?);
    client.copy_file(environment.id, &from, &to, arguments.overwrite).await?;
    let sentence = format!("copied `{from}` to `{to}` in {}", environment.name);
    changed(invocation, &[to], &sentence)
}
