//! The proxy for programs that use one: HTTP `CONNECT`, plain HTTP in absolute form, and SOCKS5 with names. The same decisions as for everybody.

mod http;
mod socks;

use std::sync::Arc;

use tokio::io::split;

use crate::environment::Environment;
use crate::host::Host;
use crate::reason::Reason;
use crate::relay::stream::{Inbound, Stream};
use crate::sniff::Expected;

/// One connection to the proxy's port.
pub async fn serve(environment: &Arc<Environment>, stream: Box<dyn Stream>) {
    let (reader, writer) = split(stream);
    let mut inbound = Inbound::new(reader);
    let Ok(true) = environment.beginning(async { Ok(inbound.fill().await?) }).await else { return };
    if inbound.buffer.first() == Some(&5) {
        socks::serve(environment, inbound, writer).await;
    } else {
        http::serve(environment, inbound, writer).await;
    }
}

/// An address that stands for a name is that name here too.
fn expected(environment: &Environment, host: Host, port: u16) -> Result<Expected, Reason> {
    let host = match host {
        Host::Address(address) => environment.meant_by(address)?,
        name => name,
    };
    Ok(Expected { host, port })
}
