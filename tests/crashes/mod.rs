//! Servers that end without warning, and others that come after them: what was acknowledged is there, and nothing half-made stays.

mod backups;
mod endings;
mod kills;
mod lost_replies;
mod rounds;
mod two_hosts;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Http, Reply, Server};

pub const ENVIRONMENTS: &str = "/v1/projects/default/environments";

/// Whether the sizes that are proved are asked for.
pub fn proving() -> bool {
    std::env::var_os("STEAD_PROVE").is_some()
}

/// The same numbers for the same seed (SplitMix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides.max(1)
    }
}

/// Looks again and again until it is so. How long it takes is nobody's business; only a world that never gets there fails.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("this never came: {what}");
}

/// Creates with a key that is the name.
pub fn create(http: &Http, name: &str) -> std::io::Result<Reply> {
    let body = serde_json::json!({ "name": name }).to_string();
    http.try_send("POST", ENVIRONMENTS, &[("Idempotency-Key", name)], Some(body.as_bytes()))
}

/// All environments, tombstones too.
pub fn all(http: &Http) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let reply = http.get(&format!("{ENVIRONMENTS}?include_destroyed=true&limit=200{cursor}"));
        assert_eq!(reply.status, 200, "{}", reply.json());
        let page = reply.json();
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return found,
        }
    }
}

pub fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// Waits until nothing is between two states, and gives all records.
pub fn settled(http: &Http) -> Vec<Value> {
    eventually("nothing is provisioning or destroying", || {
        let all = all(http);
        all.iter().all(|record| !matches!(text(record, "status"), "provisioning" | "destroying")).then_some(all)
    })
}

/// The workspaces on the disk.
pub fn directories(data_dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(data_dir.join("sandboxes")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("sbx_")).collect()
}

/// Every record is whole or gone, each live one has its directory, and there is no other directory.
pub fn assert_whole(server: &Server, records: &[Value]) -> BTreeMap<String, String> {
    let mut live = BTreeMap::new();
    for record in records {
        match text(record, "status") {
            "ready" => {
                let workspace = server.path().join("sandboxes").join(text(record, "sandbox_id")).join("workspace");
                assert!(workspace.is_dir(), "{record} has no directory");
                let again = live.insert(text(record, "name").to_owned(), text(record, "id").to_owned());
                assert_eq!(again, None, "a name is there twice: {record}");
            }
            "destroyed" => {}
            _ => panic!("half-made: {record}"),
        }
    }
    let ready = records.iter().filter(|record| text(record, "status") == "ready");
    let expected: BTreeSet<String> = ready.map(|record| text(record, "sandbox_id").to_owned()).collect();
    // What a killed server made and could not record is removed soon after the next one has started.
    eventually("each directory has its record", || (directories(server.path()) == expected).then_some(()));
    live
}
