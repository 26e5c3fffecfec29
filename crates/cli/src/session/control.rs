//! Signals and sizes, sent one after the other so that they arrive in order.

use stead_client::Client;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::process::TerminalSize;
use stead_domain::signal::Signal;
use tokio::sync::mpsc::UnboundedReceiver;

use super::patience::patiently;

pub enum Order {
    Signal(Signal),
    Resize(TerminalSize),
}

/// A program that is over by now needs no orders, so what cannot be done is passed over.
pub async fn obey(client: &Client, environment: EnvironmentId, process: ProcessId, mut orders: UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        let _ = match order {
            Order::Signal(signal) => patiently(async || client.signal_process(environment, process, signal).await).await,
            Order::Resize(size) => patiently(async || client.resize_process(environment, process, size).await).await,
        };
    }
}
