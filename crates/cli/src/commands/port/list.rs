use stead_domain::ports::EnvironmentPort;

use crate::arguments::port::List;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &List) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let ports = client.list_ports(environment.id).await?;
    let numbers: Vec<String> = ports.items.iter().map(|item| item.port.to_string()).collect();
    let rows: Vec<Vec<String>> = ports.items.iter().map(row).collect();
    let empty = match ports.awake {
        true => format!("nothing listens in {}", environment.name),
        false => format!("{} is asleep, and nothing listens in it", environment.name),
    };
    invocation.printer.list(&ports, &numbers, &["port", "state", "address", "process", "url"], &rows, &empty)
}

fn row(item: &EnvironmentPort) -> Vec<String> {
    let state = match (item.listening, item.primary) {
        (true, true) => "listening, primary",
        (true, false) => "listening",
        (false, true) => "declared, primary",
        (false, false) => "declared",
    };
    let address = item.address.map(|address| address.to_string()).unwrap_or_default();
    let process = item.process.as_ref().map(|process| format!("{} ({})", process.name, process.pid)).unwrap_or_default();
    vec![item.port.to_string(), state.to_owned(), address, process, item.url.clone().unwrap_or_default()]
}
