use stead_domain::checkpoint::Checkpoint;

use crate::arguments::checkpoint::List;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &List) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let page = paging::collect(&arguments.list, async |options| client.list_checkpoints(environment.id, &options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|checkpoint| checkpoint.id.to_string()).collect();
    let now = invocation.now();
    let row = |checkpoint: &Checkpoint| {
        let current = if environment.runtime.checkpoint_id == Some(checkpoint.id) { "*" } else { "" };
        vec![
            current.to_owned(),
            checkpoint.name.clone().unwrap_or_default(),
            checkpoint.state.to_string(),
            checkpoint.reason.to_string(),
            human::age(now, checkpoint.created_at),
            checkpoint.id.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = page.items.iter().map(row).collect();
    let empty = format!("{0} has no checkpoints; make one: stead checkpoint create {0}", environment.name);
    invocation.printer.list(&page, &ids, &["", "name", "state", "reason", "age", "id"], &rows, &empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
