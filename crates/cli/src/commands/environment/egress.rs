use std::time::Duration;

use stead_client::ListOptions;
use stead_domain::egress::EgressEntry;
use stead_domain::page::{MAXIMUM_LIMIT, Page};

use crate::arguments::egress::Egress;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

const LOOK: Duration = Duration::from_millis(500);

pub async fn run(invocation: &Invocation<'_>, arguments: &Egress) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let after = |cursor: Option<String>| ListOptions { limit: Some(MAXIMUM_LIMIT), cursor };
    let mut page = if arguments.all {
        client.list_egress(environment.id, None, &after(None)).await?
    } else {
        client.list_egress(environment.id, Some(arguments.tail), &ListOptions::default()).await?
    };
    while arguments.all && page.has_more {
        let next = client.list_egress(environment.id, None, &after(page.next_cursor)).await?;
        page.items.extend(next.items);
        page = Page { items: page.items, ..next_of(next.has_more, next.next_cursor) };
    }
    if !arguments.follow {
        let hosts: Vec<String> = page.items.iter().map(|entry| format!("{}:{}", entry.host, entry.port)).collect();
        let rows: Vec<Vec<String>> = page.items.iter().map(row).collect();
        let empty = format!("nothing has left {} or wanted to", environment.name);
        return invocation.printer.list(&page, &hosts, &["at", "decision", "host", "port", "protocol", "note"], &rows, &empty);
    }
    loop {
        for entry in &page.items {
            if invocation.printer.is_json() {
                invocation.printer.json(entry)?;
            } else {
                invocation.printer.line(&row(entry).join("  "))?;
            }
        }
        if !page.has_more {
            tokio::time::sleep(LOOK).await;
        }
        page = client.list_egress(environment.id, None, &after(page.next_cursor)).await?;
    }
}

fn next_of(has_more: bool, next_cursor: Option<String>) -> Page<EgressEntry> {
    Page { items: Vec::new(), has_more, next_cursor }
}

fn row(entry: &EgressEntry) -> Vec<String> {
    let mut note = entry.message.clone().unwrap_or_default();
    if let Some(named) = &entry.named {
        note = format!("{note} ({named})");
    }
    if !entry.secrets.is_empty() {
        note = format!("{note}with {}", entry.secrets.join(", "));
    }
    if entry.bytes_up + entry.bytes_down > 0 {
        note = format!("{note}, {} up, {} down", human::bytes(entry.bytes_up), human::bytes(entry.bytes_down));
    }
    if entry.repeated > 0 {
        note = format!("{note}, {} times more", entry.repeated);
    }
    vec![human::moment(entry.at), entry.decision.to_string(), entry.host.clone(), entry.port.to_string(), entry.protocol.clone(), note]
}
