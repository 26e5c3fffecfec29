use std::fs::File;
use std::io::{self, IsTerminal, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use stead_domain::secret::{self, LONGEST_VALUE, NewSecretValue, SecretValue};
use stead_domain::{Code, Error};

use crate::arguments::secret::SetSecret;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;

pub async fn run(invocation: &Invocation<'_>, arguments: &SetSecret) -> Result<()> {
    if !arguments.refused.is_empty() {
        return Err(Error::new(Code::Usage, "a value is never an argument: everybody on the machine sees arguments, and shells keep them")
            .suggestion(format!("pipe it in, say --file FILE, or type it: stead secret set {}", arguments.name))
            .into());
    }
    // Found out before anybody types it.
    secret::check_name("name", &arguments.name)?;
    let value = value(arguments)?;
    secret::check_value("value", value.bytes())?;
    let new = match value.text() {
        Some(text) => NewSecretValue { value: Some(text.to_owned()), value_base64: None },
        None => NewSecretValue { value: None, value_base64: Some(STANDARD.encode(value.bytes())) },
    };
    let client = invocation.client_without_lease().await?;
    let before = match client.get_secret(&arguments.name).await {
        Ok(before) => Some(before.version),
        Err(_) => None,
    };
    let set = client.set_secret(&arguments.name, &new).await?;
    for warning in &set.warnings {
        invocation.printer.warn(warning);
    }
    invocation.printer.record(&set, &set.secret.name, |printer| {
        let (name, version) = (&set.secret.name, set.secret.version);
        match before {
            Some(before) if before == version => printer.note(&format!("{name} had this value already (version {version})")),
            _ if secret::NEVER_BOUND.contains(&name.as_str()) => printer.note(&format!("set {name} (version {version})")),
            _ => printer.note(&format!("set {name} (version {version}); processes that begin from now on get it where it is bound")),
        }
        if before.is_none() && !secret::NEVER_BOUND.contains(&name.as_str()) {
            printer.hint(&format!("let an environment use it: stead env bind-secret ENVIRONMENT {name}"));
        }
        Ok(())
    })
}

fn value(arguments: &SetSecret) -> Result<SecretValue> {
    if let Some(path) = &arguments.file {
        let failed = |error: io::Error| {
            Failure::from(Error::new(Code::LocalFile, format!("{} cannot be read: {error}", path.display())).suggestion("check the path"))
        };
        return read(File::open(path).map_err(failed)?).map_err(failed);
    }
    if io::stdin().is_terminal() {
        let prompt = format!("{} (not shown)", arguments.name);
        let typed = dialoguer::Password::new().with_prompt(prompt).interact();
        let typed = typed.map_err(|error| {
            Error::new(Code::Usage, format!("the value could not be read: {error}")).suggestion("pipe it in, or say --file FILE")
        })?;
        return Ok(SecretValue::new(typed.into_bytes()));
    }
    let failed = |error: io::Error| Error::new(Code::LocalFile, format!("stdin cannot be read: {error}")).suggestion("pipe the value in");
    let mut bytes = read(io::stdin()).map_err(failed)?.bytes().to_vec();
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(SecretValue::new(bytes))
}

/// A little more than may be: what is too long is said to be so.
fn read(from: impl Read) -> io::Result<SecretValue> {
    let mut bytes = Vec::with_capacity(LONGEST_VALUE + 2);
    from.take(LONGEST_VALUE as u64 + 2).read_to_end(&mut bytes)?;
    Ok(SecretValue::new(bytes))
}
