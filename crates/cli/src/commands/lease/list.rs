use std::collections::HashMap;

use stead_client::ListOptions;
use stead_domain::ids::EnvironmentId;
use stead_domain::lease::{LeaseStatus, LeaseView};
use stead_domain::page::Page;

use super::words;
use crate::arguments::lease::List;
use crate::commands::process;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

const HEADERS: [&str; 8] = ["environment", "holder", "status", "left", "fence", "note", "age", "id"];
const AFTER_NOTE: usize = 6;
/// So many of those who wait are told of, at most.
const MOST_TOLD: usize = 10;

type Told = fn(&LeaseView) -> Option<String>;

pub async fn run(invocation: &Invocation<'_>, arguments: &List) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let options = ListOptions { limit: Some(arguments.limit), cursor: arguments.cursor.clone() };
    let page = match &arguments.environment {
        None => client.list_leases(arguments.all, &options).await?,
        Some(reference) => {
            let environment = references::environment(&client, reference).await?;
            if arguments.all {
                client.leases_of(environment.id, &options).await?
            } else {
                // Held ones are few, and those of a shared sandbox are all of its environments'.
                let held = references::all(async |options| client.list_leases(false, &options).await).await?;
                let mut items = Vec::new();
                for lease in held.into_iter().filter(|lease| lease.sandbox_id == environment.sandbox_id) {
                    // Alone it tells who waits; one that has ended meanwhile is held no more.
                    let lease = client.get_lease(lease.id).await?;
                    items.extend((lease.status == LeaseStatus::Active).then_some(lease));
                }
                Page { items, has_more: false, next_cursor: None }
            }
        }
    };
    let names: HashMap<EnvironmentId, String> =
        process::find::environments(&client).await?.into_iter().map(|environment| (environment.id, environment.name)).collect();
    let ids: Vec<String> = page.items.iter().map(|lease| lease.id.to_string()).collect();
    let mut headers = HEADERS.to_vec();
    let mut rows: Vec<Vec<String>> = page.items.iter().map(|lease| row(invocation, &names, lease)).collect();
    // Only where one of them has something to say there.
    let more: [(&str, Told); 2] = [("reason", |lease| lease.reason.clone()), ("waiting", waiting)];
    for (header, told) in more {
        if page.items.iter().any(|lease| told(lease).is_some()) {
            headers.insert(AFTER_NOTE, header);
            rows.iter_mut().zip(&page.items).for_each(|(row, lease)| row.insert(AFTER_NOTE, told(lease).unwrap_or_default()));
        }
    }
    let empty = match (&arguments.environment, arguments.all) {
        (Some(environment), false) => format!("nobody holds {environment}; --all shows who did"),
        (Some(environment), true) => format!("nobody has held {environment} yet"),
        (None, false) => "nobody holds anything; --all shows who did".to_owned(),
        (None, true) => "nobody has held anything yet".to_owned(),
    };
    invocation.printer.list(&page, &ids, &headers, &rows, &empty)?;
    if let Some(cursor) = &page.next_cursor {
        invocation.printer.hint(&format!("there is more: --cursor {cursor}"));
    }
    Ok(())
}

fn row(invocation: &Invocation<'_>, names: &HashMap<EnvironmentId, String>, lease: &LeaseView) -> Vec<String> {
    vec![
        names.get(&lease.environment_id).cloned().unwrap_or_else(|| lease.environment_id.to_string()),
        lease.holder.clone(),
        words::status(lease),
        words::left_of(lease),
        lease.fence.to_string(),
        lease.note.clone().unwrap_or_default(),
        human::age(invocation.now(), lease.acquired_at),
        lease.id.to_string(),
    ]
}

/// How many wait for it, as far as that is told.
fn waiting(lease: &LeaseView) -> Option<String> {
    match lease.waiting.len() {
        0 => None,
        MOST_TOLD.. => Some(format!("{MOST_TOLD} or more")),
        count => Some(count.to_string()),
    }
}
