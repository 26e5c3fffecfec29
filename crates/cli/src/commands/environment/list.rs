use stead_client::EnvironmentFilter;
use stead_domain::environment::{Environment, ScopeFilter};

use crate::arguments::environment::List;
use crate::commands::lease::words;
use crate::commands::paging;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::human;

pub async fn run(invocation: &Invocation<'_>, arguments: &List) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let filter = EnvironmentFilter {
        provider: arguments.provider,
        status: arguments.status,
        purpose: arguments.purpose,
        scope: Some(ScopeFilter::Any),
        include_destroyed: arguments.include_destroyed,
        ..EnvironmentFilter::default()
    };
    let page = paging::collect(&arguments.list, async |options| client.list_environments(&filter, &options).await).await?;
    let ids: Vec<String> = page.items.iter().map(|environment| environment.id.to_string()).collect();
    let row = |environment: &Environment| {
        vec![
            environment.name.clone(),
            environment.status.to_string(),
            words::holder(environment).map(|held| held.holder.clone()).unwrap_or_default(),
            words::holder(environment).map(words::left).unwrap_or_default(),
            environment.provider.to_string(),
            environment.purpose.map(|purpose| purpose.to_string()).unwrap_or_default(),
            human::age(invocation.now(), environment.created_at),
            environment.id.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = page.items.iter().map(row).collect();
    let filtered = arguments.provider.is_some() || arguments.status.is_some() || arguments.purpose.is_some();
    let empty = if filtered {
        format!("no environment in project {} fits", client.project())
    } else {
        format!("no environments in project {} yet; make one: stead env create NAME", client.project())
    };
    invocation.printer.list(&page, &ids, &["name", "status", "held by", "left", "provider", "purpose", "age", "id"], &rows, &empty)?;
    paging::more(invocation.printer, &page);
    Ok(())
}
