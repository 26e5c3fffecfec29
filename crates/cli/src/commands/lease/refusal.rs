//! What somebody is told who was refused, in words of the command line: the API knows of headers, and not where a token came from.

use serde_json::Value;
use stead_client::ClientError;
use stead_domain::Code;
use stead_domain::ids::LeaseId;

use crate::failure::{Failure, suggestion};
use crate::invocation::Invocation;
use crate::printer::given::quoted;
use crate::settings::Settings;
use crate::settings::lease::without;

/// Refused something with a lease that is held. Of refusals only that of somebody who is not its holder is told in other words.
pub fn of_held(invocation: &Invocation<'_>, settings: &Settings, lease: LeaseId, error: ClientError) -> Failure {
    let failure = Failure::from(error);
    let said = match &failure {
        Failure::Reply { body, .. } if body.error.code == Code::Forbidden.as_str() => suggestion(&body.error).unwrap_or_default(),
        _ => return failure,
    };
    match settings.presented() {
        Some(presented) if presented.value != lease && said.contains("its token") => {
            // A token decides alone, also where its owner could have done without.
            let source = &presented.source;
            let next =
                format!("{source} presents {}, another lease: {}, or present the token of this one", presented.value, without(source));
            reworded(invocation, failure, next)
        }
        None if said.contains("Stead-Lease") => {
            let next = "present its token: set STEAD_LEASE to it, or name the file that holds it with --lease-token-file; whoever acquired \
                        it was told it once";
            reworded(invocation, failure, next.to_owned())
        }
        _ => failure,
    }
}

/// Refused the lease itself, though it may be the caller's already. `next` is told how the token is presented on a command line.
pub fn of_wanted(invocation: &Invocation<'_>, failure: Failure, next: impl Fn(&str) -> String) -> Failure {
    let Some(presented) = Settings::named_lease(&invocation.global, &invocation.surroundings) else { return failure };
    let held_by = match &failure {
        Failure::Reply { body, .. } if body.error.code == Code::LeaseHeld.as_str() => {
            body.error.details.as_ref().and_then(|details| details.get("lease_id")?.as_str()?.parse::<LeaseId>().ok())
        }
        _ => None,
    };
    if held_by != Some(presented.value) {
        return failure;
    }
    let file =
        invocation.global.lease_token_file.as_ref().map(|path| format!(" --lease-token-file {}", quoted(&path.display().to_string())));
    let next = next(&file.unwrap_or_default());
    reworded(invocation, failure, format!("that is the lease which {} presents: {next}", presented.source))
}

/// For people only: programs are given the API's own error.
fn reworded(invocation: &Invocation<'_>, failure: Failure, next: String) -> Failure {
    match failure {
        Failure::Reply { status, mut body } if invocation.printer.is_human() => {
            body.error.details.get_or_insert_default().insert("suggestion".to_owned(), Value::String(next));
            Failure::Reply { status, body }
        }
        other => other,
    }
}
