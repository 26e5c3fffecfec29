use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stead_client::Client;
use stead_domain::environment::Environment;
use stead_domain::{Code, Error};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::arguments::port::{Forward, Mapping};
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::Printer;
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Forward) -> Result<()> {
    let client = Arc::new(invocation.client().await?);
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let mut listeners = Vec::new();
    // All of them or none: whoever asked for three is not left with two.
    for mapping in &arguments.ports {
        listeners.push((*mapping, bind(SocketAddr::new(arguments.address, mapping.here), mapping.inside).await?));
    }
    for (mapping, listener) in &listeners {
        announce(invocation.printer, &environment, *mapping, listener.local_addr()?)?;
    }
    if !arguments.address.is_loopback() {
        invocation.printer.warn(&format!("whoever reaches {} reaches these ports, without a key", arguments.address));
    }
    // Dropped with us, and every connection with them.
    let (mut accepting, mut connections) = (JoinSet::new(), JoinSet::new());
    let (sender, mut accepted) = mpsc::channel(1);
    for (mapping, listener) in listeners {
        accepting.spawn(accept(listener, mapping.inside, sender.clone()));
    }
    loop {
        tokio::select! {
            Some((port, socket)) = accepted.recv() => {
                let (client, id) = (Arc::clone(&client), environment.id);
                connections.spawn(async move { pass(&client, id, port, socket).await.err() });
            }
            Some(ended) = connections.join_next() => if let Ok(Some(failure)) = ended {
                // Whoever connected sees it closed; why, is said here, and the next may fare better.
                invocation.printer.failure(&failure);
            },
        }
    }
}

async fn accept(listener: TcpListener, port: u16, accepted: mpsc::Sender<(u16, TcpStream)>) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => drop(accepted.send((port, socket)).await),
            // Too many open files, for instance: hammering it does not help.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn bind(address: SocketAddr, inside: u16) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::from(
            Error::new(Code::LocalFile, format!("{address} cannot be listened on here: {error}"))
                .suggestion(format!("choose another port here, such as 0:{inside} for any that is free")),
        )
    })
}

fn announce(printer: &Printer, environment: &Environment, mapping: Mapping, address: SocketAddr) -> Result<()> {
    let Mapping { inside, .. } = mapping;
    if printer.is_json() {
        return printer.json_line(&json!({"address": address.to_string(), "port": inside, "environment_id": environment.id}));
    }
    if printer.is_human() {
        return printer.line(&format!("{address} is port {inside} of {}", environment.name));
    }
    printer.line(&address.to_string())
}

async fn pass(client: &Client, id: stead_domain::ids::EnvironmentId, port: u16, socket: TcpStream) -> Result<()> {
    let _ = socket.set_nodelay(true);
    let tunnel = client.tunnel(id, port).await?;
    // A connection that breaks is the business of those at its ends.
    let _ = tunnel.join(socket).await;
    Ok(())
}
