//! The control socket, without any network namespace.

use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use stead_egress::control::{Client, ClientError, Failure, Socket};
use stead_egress::policy::PolicyText;
use stead_egress::{Options, RunError, run};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::policy;

async fn client(directory: &std::path::Path) -> Client {
    for _ in 0..400 {
        if let Ok(client) = Client::connect(directory).await {
            return client;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the relay does not answer");
}

fn code(outcome: Result<(), ClientError>) -> Option<Failure> {
    match outcome {
        Err(ClientError::Refused { code, .. }) => Some(code),
        _ => None,
    }
}

#[tokio::test]
async fn requests_are_checked_before_anything_changes() {
    let directory = tempfile::tempdir().unwrap();
    let tasks = TaskTracker::new();
    let options = || Options::new(directory.path().join("relay"), directory.path().join("journal"));
    let first = options();
    tasks.spawn(async move { run(first, stead_testing::context(1).0, CancellationToken::new()).await });
    let mut client = client(&directory.path().join("relay")).await;
    assert!(
        matches!(run(options(), stead_testing::context(1).0, CancellationToken::new()).await, Err(RunError::Running(_))),
        "one relay for one directory"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bad = PolicyText { allowed_hosts: vec!["*".to_owned()], ..policy(&[]) };
    assert_eq!(code(client.add("../x", policy(&[]), vec![]).await), Some(Failure::InvalidEnvironment));
    assert_eq!(code(client.add("env_1", bad.clone(), vec![]).await), Some(Failure::InvalidPolicy));
    for socket in [Socket::Tcp { port: 80 }, Socket::Proxy, Socket::DnsStreams, Socket::Packets, Socket::Tun { mtu: 1500 }] {
        assert_eq!(
            code(client.add("env_1", policy(&[]), vec![(socket, datagrams.as_fd())]).await),
            Some(Failure::InvalidSocket),
            "{socket:?}"
        );
    }
    assert_eq!(code(client.add("env_1", policy(&[]), vec![(Socket::DnsDatagrams, listener.as_fd())]).await), Some(Failure::InvalidSocket));
    assert!(client.list().await.unwrap().is_empty());
    assert_eq!(code(client.update("env_1", policy(&[])).await), Some(Failure::NoSuchEnvironment));
    client.add("env_1", policy(&["a.example"]), vec![(Socket::Tcp { port: 80 }, listener.as_fd())]).await.unwrap();
    assert_eq!(code(client.update("env_1", bad).await), Some(Failure::InvalidPolicy));
    assert_eq!(client.list().await.unwrap()[0].policy, policy(&["a.example"]));
    client.ping().await.unwrap();
    assert_eq!(code(client.retire().await), Some(Failure::Busy));
    client.remove("env_1").await.unwrap();
    client.retire().await.unwrap();
    tasks.close();
    tasks.wait().await;
    assert!(client.ping().await.is_err());
    assert!(!directory.path().join("relay/relay.sock").exists());
}
