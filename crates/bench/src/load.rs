//! Many clients that each do one thing after the other, and how long each took.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::LocalSet;

use crate::client::{Client, request};

pub const ENVIRONMENTS: &str = "/v1/projects/default/environments";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Get,
    List,
    Patch,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Create, Self::Get, Self::List, Self::Patch];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list 50",
            Self::Patch => "patch",
        }
    }
}

/// One line of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub store: &'static str,
    pub environments: usize,
    pub operation: &'static str,
    pub clients: usize,
    pub requests: usize,
    pub per_second: f64,
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
}

pub struct Target {
    pub address: String,
    pub key: String,
    pub store: &'static str,
    /// How many environments the store held before.
    pub environments: usize,
    /// Some that are there, to get and to edit.
    pub ids: Vec<String>,
    /// For names that were never used.
    pub serial: Rc<Cell<usize>>,
}

impl Target {
    fn request(&self, operation: Operation, client: usize, number: usize) -> Vec<u8> {
        let id = &self.ids[(client * 7919 + number * 31) % self.ids.len()];
        match operation {
            Operation::Create => {
                let serial = self.serial.get();
                self.serial.set(serial + 1);
                request("POST", ENVIRONMENTS, &self.key, &format!("{{\"name\":\"bench-{serial}\"}}"))
            }
            Operation::Get => request("GET", &format!("{ENVIRONMENTS}/{id}"), &self.key, ""),
            Operation::List => request("GET", &format!("{ENVIRONMENTS}?limit=50"), &self.key, ""),
            Operation::Patch => {
                // Each client edits its own: two edits of one row only measure who waits for whom.
                let id = &self.ids[client % self.ids.len()];
                request("PATCH", &format!("{ENVIRONMENTS}/{id}"), &self.key, &format!("{{\"tags\":{{\"n\":\"{client}-{number}\"}}}}"))
            }
        }
    }

    /// Makes some environments to work on, through the API.
    pub async fn prepare(&mut self, count: usize) {
        let mut client = Client::connect(&self.address).await.unwrap();
        for number in 0..count {
            let message = request("POST", ENVIRONMENTS, &self.key, &format!("{{\"name\":\"target-{}-{number}\"}}", self.environments));
            let (status, body) = client.call(&message).await.unwrap();
            assert_eq!(status, 201, "{}", String::from_utf8_lossy(body));
            let made: serde_json::Value = serde_json::from_slice(body).unwrap();
            self.ids.push(made["id"].as_str().unwrap().to_owned());
        }
    }

    /// Lets so many clients do it for so long, after a while that does not count.
    pub async fn measure(self: &Rc<Self>, operation: Operation, clients: usize, time: Duration) -> Measured {
        let started = Instant::now();
        let (begin, end) = (started + time / 5, started + time / 5 + time);
        let set = LocalSet::new();
        let tasks: Vec<_> = (0..clients)
            .map(|client| {
                let target = Rc::clone(self);
                set.spawn_local(async move {
                    let mut connection = Client::connect(&target.address).await.unwrap();
                    let mut took = Vec::new();
                    for number in 0.. {
                        let message = target.request(operation, client, number);
                        let sent = Instant::now();
                        if sent >= end {
                            break;
                        }
                        let (status, body) = connection.call(&message).await.unwrap();
                        assert!(matches!(status, 200 | 201), "{operation:?}: {status} {}", String::from_utf8_lossy(body));
                        if sent >= begin {
                            took.push(sent.elapsed());
                        }
                    }
                    took
                })
            })
            .collect();
        set.await;
        let mut took = Vec::new();
        for task in tasks {
            took.extend(task.await.unwrap());
        }
        took.sort_unstable();
        let at = |share: f64| {
            took.get(((took.len() as f64 * share) as usize).min(took.len() - 1)).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
        };
        Measured {
            store: self.store,
            environments: self.environments,
            operation: operation.name(),
            clients,
            requests: took.len(),
            per_second: took.len() as f64 / time.as_secs_f64(),
            p50_milliseconds: at(0.50),
            p99_milliseconds: at(0.99),
        }
    }
}
