use super::inside;
use crate::arguments::files::Cat;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::Sheet;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Cat) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let mut download = client.download_file(environment.id, &inside(&arguments.path)?).await?;
    let mut sheet = Sheet::new(arguments.raw);
    while let Some(bytes) = download.next().await? {
        sheet.write(&bytes)?;
    }
    sheet.end()
}
