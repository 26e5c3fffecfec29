use stead_client::{Client, Endpoint};
use stead_domain::{Code, Error, api_key, names};

use crate::arguments::GlobalArguments;
use crate::arguments::local::Login;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::settings::{ConfigFile, Credentials, LOCAL_PROFILE, Presents, Profile, Settings, Source, Target, read_key_file};

const DEFAULT_PROFILE: &str = "default";

pub async fn run(invocation: &Invocation<'_>, arguments: &Login) -> Result<()> {
    let name = invocation.global.profile.as_deref().unwrap_or(DEFAULT_PROFILE);
    check_profile_name(name)?;
    let endpoint = Endpoint::parse(&arguments.address)?;
    let Some(file) = &invocation.global.key_file else {
        return Err(Error::new(Code::Usage, "a key is needed to log in")
            .suggestion("save it to a file and say --key-file FILE, or pipe it in and say --key-file -")
            .into());
    };
    let key = read_key_file(file)?;
    if !endpoint.is_secure() && !endpoint.is_local() {
        invocation.printer.warn("the key travels unencrypted over plain http");
    }
    let claimed = invocation.global.project.clone().or_else(|| api_key::split(key.reveal()).1.map(str::to_owned));
    let surroundings = &invocation.surroundings;
    let ca_file = invocation.global.ca_file.clone().or_else(|| surroundings.path("STEAD_CA_FILE")).map(|path| surroundings.absolute(&path));
    let client = Client::new(endpoint.clone(), Some(key.clone()), claimed.as_deref().unwrap_or("default"), invocation.context.clone())
        .trusting(ca_file.clone());
    let identity = client.identity().await?;
    let project = claimed.or_else(|| identity.project.clone());
    // The key first: a profile without one would ask the server as nobody.
    Credentials::set(surroundings, name, &key)?;
    let profile = Profile { url: Some(endpoint.to_string()), ca_file, project: project.clone() };
    ConfigFile::write_profile(surroundings, name, &profile)?;
    invocation.printer.record(&identity, &identity.principal_id.to_string(), |printer| {
        printer.note(&format!("logged in to {endpoint} as {} ({})", identity.name, identity.principal_id));
        let project = project.as_deref().unwrap_or("default");
        let overruling = overruling(invocation);
        if overruling.is_empty() {
            printer.note(&format!("profile {name} is used from now on, project {project}"));
            printer.hint("back to the local server: `stead --profile local …`, or `stead logout`");
        } else {
            printer.note(&format!("profile {name} is remembered, project {project}"));
            let names = overruling.join(" and ");
            let verb = if overruling.len() == 1 { "comes" } else { "come" };
            printer.warn(&format!("{names} {verb} before it: unset {}, or say --profile {name}", overruling.join(" ")));
        }
        Ok(())
    })
}

/// The variables that the next command would heed instead of what the profile says.
fn overruling(invocation: &Invocation<'_>) -> Vec<&'static str> {
    let Ok(next) = Settings::resolve(&GlobalArguments::default(), &invocation.surroundings, Presents::Nothing) else { return Vec::new() };
    let server = match &next.target {
        Target::Local { socket, .. } => &socket.source,
        Target::Remote { endpoint } => &endpoint.source,
    };
    let key = next.key.as_ref().map(|key| &key.source);
    let mut found = Vec::new();
    for source in [Some(server), key, Some(&next.project.source)].into_iter().flatten() {
        if let Source::Variable(variable) = source
            && !found.contains(variable)
        {
            found.push(*variable);
        }
    }
    found
}

fn check_profile_name(name: &str) -> Result<()> {
    if name == LOCAL_PROFILE {
        return Err(Error::new(Code::Usage, "`local` is the local server and needs no login")
            .suggestion("choose another --profile")
            .into());
    }
    names::check_definition_id(name).map_err(|_| Error::new(Code::Usage, format!("`{name}` cannot be a profile's name")))?;
    Ok(())
}
