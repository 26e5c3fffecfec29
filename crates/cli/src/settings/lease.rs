//! The token of a lease that a command presents: of the file that was named, else of the variable.

use std::path::Path;

use stead_client::Key;
use stead_domain::ids::LeaseId;
use stead_domain::lease::{LeaseToken, lease_of};
use stead_domain::{Code, Error, api_key};

use super::resolve::read_line_of;
use super::{Setting, Source, Surroundings};
use crate::arguments::GlobalArguments;
use crate::failure::{Failure, Result};

const FLAG: Source = Source::Flag("--lease-token-file");
const VARIABLE: Source = Source::Variable("STEAD_LEASE");

/// What is no token is refused here: whoever set it means to be the holder.
pub fn given(global: &GlobalArguments, surroundings: &Surroundings) -> Result<Option<Setting<LeaseToken>>> {
    let (text, source) = match (&global.lease_token_file, surroundings.variable("STEAD_LEASE")) {
        (Some(path), _) => (read_line_of(path, "the token").map_err(unreadable)?, FLAG),
        (None, Some(text)) => (text, VARIABLE),
        (None, None) => return Ok(None),
    };
    let token = text.trim();
    if lease_of(token).is_none() {
        return Err(Error::new(Code::Usage, format!("what {source} gives is no token of a lease: one begins with stl_"))
            .suggestion(match source {
                VARIABLE => "set it to what `stead lease acquire` printed, or leave it out: unset STEAD_LEASE",
                _ => "name a file that `stead lease acquire -o FILE` wrote, which holds the token and nothing else, or leave --lease-token-file out",
            })
            .into());
    }
    Ok(Some(Setting::new(LeaseToken(token.to_owned()), source)))
}

fn unreadable(failure: Failure) -> Failure {
    match failure {
        Failure::Domain(error) => {
            error.suggestion("name a file that `stead lease acquire -o FILE` wrote, or leave --lease-token-file out").into()
        }
        other => other,
    }
}

/// Which lease would be presented, for a hint: what cannot be read, or only once, names none.
pub(super) fn named(global: &GlobalArguments, surroundings: &Surroundings) -> Option<Setting<LeaseId>> {
    if global.lease_token_file.as_deref() == Some(Path::new("-")) {
        return None;
    }
    let given = given(global, surroundings).ok()??;
    Some(Setting::new(lease_of(&given.value.0)?, given.source))
}

/// The lease of a token that is used as a key, with or without its project.
pub(super) fn of_key(key: &Setting<Key>) -> Option<Setting<LeaseId>> {
    Some(Setting::new(lease_of(api_key::split(key.value.reveal()).0)?, key.source.clone()))
}

/// How to be without the lease that came from there, as somebody types it.
pub fn without(source: &Source) -> String {
    match source {
        Source::Variable(name) => format!("unset {name}"),
        other => format!("leave {other} out"),
    }
}
