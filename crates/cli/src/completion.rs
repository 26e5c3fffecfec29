//! Live names for the shell: what the running server knows. It is never started for this, and never waited for long.

use std::ffi::OsStr;
use std::future::Future;
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use stead_client::{Client, EnvironmentFilter, ListOptions, ProcessFilter};
use stead_domain::environment::ScopeFilter;

use crate::arguments::GlobalArguments;
use crate::printer::escape;
use crate::settings::{Presents, Settings, Surroundings};
use crate::{connection, world};

/// The variable that the shell's script sets when it asks for candidates.
pub const VARIABLE: &str = "STEAD_COMPLETE";
const PATIENCE: Duration = Duration::from_millis(300);

pub fn environments() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, async |client, typed| {
            let reference = (!typed.is_empty()).then(|| typed.to_owned());
            let filter = EnvironmentFilter { reference, scope: Some(ScopeFilter::Any), ..EnvironmentFilter::default() };
            let page = client.list_environments(&filter, &ListOptions::default()).await?;
            Ok(page.items.into_iter().map(|environment| (environment.name, environment.status.to_string())).collect())
        })
    })
}

/// Processes that are not over, of every environment.
pub fn processes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, async |client, _| {
            let (mut names, running) = (Names::new(), ProcessFilter { status: None, unfinished: true });
            for environment in client.list_environments(&EnvironmentFilter::default(), &ListOptions::default()).await?.items {
                let page = client.list_processes(environment.id, running, &ListOptions::default()).await?;
                names.extend(page.items.into_iter().map(|process| (process.id.to_string(), process.argv.join(" "))));
            }
            Ok(names)
        })
    })
}

pub fn projects() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, async |client, _| {
            let page = client.list_projects(&ListOptions::default()).await?;
            Ok(page.items.into_iter().map(|project| (project.handle, project.name)).collect())
        })
    })
}

type Names = Vec<(String, String)>;

/// Runs a question against the server. Whatever goes wrong, there is simply nothing to offer.
fn candidates(typed: &OsStr, ask: impl AsyncFn(&Client, &str) -> stead_client::Result<Names>) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy().into_owned();
    let names = block_on(async {
        let surroundings = Surroundings::of_this_process().ok()?;
        let settings = Settings::resolve(&GlobalArguments::default(), &surroundings, Presents::Nothing).ok()?;
        let client = connection::client(&settings, &world::context());
        tokio::time::timeout(PATIENCE, ask(&client, &typed)).await.ok()?.ok()
    });
    // A control character in a name would be typed into the shell.
    let safe = |name: &String| !name.chars().any(char::is_control);
    names
        .unwrap_or_default()
        .into_iter()
        .filter(|(name, _)| safe(name) && name.to_lowercase().starts_with(&typed.to_lowercase()))
        .map(|(name, help)| CompletionCandidate::new(name).help(Some(escape::line(&help).into_owned().into())))
        .collect()
}

fn block_on<T>(future: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?.block_on(future)
}
