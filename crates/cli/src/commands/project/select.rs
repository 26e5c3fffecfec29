use stead_domain::{Code, Error};

use crate::arguments::project::Handle;
use crate::connection;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::settings::{ConfigFile, LOCAL_PROFILE, Settings, Source, Target};

pub async fn run(invocation: &Invocation<'_>, arguments: &Handle) -> Result<()> {
    let settings = invocation.settings_without_lease()?;
    let profile = place(&settings)?;
    let client = connection::open(&settings, invocation.printer, &invocation.context).await?;
    let project = client.get_project(&arguments.handle).await?;
    ConfigFile::select_project(&invocation.surroundings, profile, &project.handle)?;
    invocation.printer.record(&project, &project.id.to_string(), |printer| {
        printer.note(&format!("project {} is used from now on", project.handle));
        if matches!(settings.project.source, Source::Variable(_) | Source::Directory(_)) && settings.project.value != project.handle {
            printer.warn(&format!("here {} comes first and says {}", settings.project.source, settings.project.value));
        }
        Ok(())
    })
}

/// The profile to write to; none for the local server.
fn place(settings: &Settings) -> Result<Option<&str>> {
    match (&settings.profile, &settings.target) {
        (Some(profile), _) if profile.value != LOCAL_PROFILE => Ok(Some(&profile.value)),
        (_, Target::Local { .. }) => Ok(None),
        (_, Target::Remote { endpoint }) => {
            let message = format!("the address comes from {}, and no profile is there to remember a project", endpoint.source);
            Err(Error::new(Code::Usage, message).suggestion("set STEAD_PROJECT, or make a profile with `stead login`").into())
        }
    }
}
