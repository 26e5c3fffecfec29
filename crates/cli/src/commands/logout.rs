use serde_json::json;
use stead_domain::{Code, Error};

use crate::failure::Result;
use crate::invocation::Invocation;
use crate::settings::{ConfigFile, Credentials, LOCAL_PROFILE};

pub fn run(invocation: &Invocation<'_>) -> Result<()> {
    let config = ConfigFile::read(&invocation.surroundings)?;
    let name = invocation.global.profile.clone().or(config.profile).filter(|name| name != LOCAL_PROFILE);
    let Some(name) = name.filter(|name| config.profiles.contains_key(name)) else {
        return Err(Error::new(Code::NotFound, "there is no such profile to forget").suggestion("stead config show").into());
    };
    Credentials::remove(&invocation.surroundings, &name)?;
    ConfigFile::remove_profile(&invocation.surroundings, &name)?;
    invocation.printer.record(&json!({ "profile": name }), &name, |printer| {
        printer.note(&format!("forgot profile {name} and its key; the key itself is still good: `stead key revoke` ends it"));
        Ok(())
    })
}
