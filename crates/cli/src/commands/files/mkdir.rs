use super::{changed, inside};
use crate::arguments::files::Mkdir;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Mkdir) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let path = inside(&arguments.path)?;
    client.make_directory(environment.id, &path, arguments.mode, arguments.parents).await?;
    let sentence = format!("made `{path}` in {}", environment.name);
    changed(invocation, &[path], &sentence)
}
