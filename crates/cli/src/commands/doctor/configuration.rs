//! The files of settings: whether they can be read.

use super::check::Check;
use crate::failure::{Failure, suggestion};
use crate::invocation::Invocation;
use crate::settings::Settings;

/// The settings, and what is wrong with the files that they come from. What is wrong does not keep the rest from being looked at: then
/// the settings are those without the files, where they can do without.
pub fn settings(invocation: &Invocation<'_>) -> (Option<Settings>, Vec<Failure>) {
    let mut broken = Settings::broken_files(&invocation.surroundings);
    match invocation.settings() {
        Ok(settings) => (Some(settings), broken),
        Err(failure) => {
            if broken.is_empty() {
                broken.push(failure);
            }
            (Settings::resolve_without_files(&invocation.global, &invocation.surroundings).ok(), broken)
        }
    }
}

pub fn examine(broken: &[Failure]) -> Vec<Check> {
    if broken.is_empty() {
        return vec![Check::ok("SD13", "configuration", "it can be read")];
    }
    let bodies = broken.iter().filter_map(Failure::body);
    bodies
        .map(|body| {
            let next = suggestion(&body.error).unwrap_or("mend the file, or move it away").to_owned();
            Check::fail("SD13", "configuration", body.error.message, next)
        })
        .collect()
}
