use stead_domain::ports::NewSignedUrl;

use crate::arguments::port::Url;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Url) -> Result<()> {
    let client = invocation.client().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let signed = client.sign_port_url(environment.id, arguments.port, &NewSignedUrl { expires_in: arguments.expires }).await?;
    invocation.printer.record(&signed, &signed.url, |printer| {
        printer.line(&signed.url)?;
        printer.note(&format!(
            "whoever has it may use port {} of {} until {}",
            arguments.port,
            environment.name,
            human::moment(signed.expires_at)
        ));
        Ok(())
    })
}
