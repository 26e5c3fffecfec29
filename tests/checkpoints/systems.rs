//! Layers of a system that is the environment's own.

use serde_json::json;

use super::Spot;
use super::disk::{Disk, SHARING};
use crate::api::world::{ENVIRONMENTS, expect, text};
use crate::crashes::eventually;
use crate::support::{Http, Server};

/// None where this host gives no place a system of its own, and then that is said.
#[expect(clippy::print_stderr, reason = "what was not run must be seen")]
fn system(http: &Http, name: &str) -> Option<Spot> {
    let spec = json!({"name": name, "spec": {"sandbox": {"network_access": "disabled", "package_policy": "system"}}});
    let made = http.post(ENVIRONMENTS, spec);
    if made.status != 201 {
        eprintln!("NOT RUN: this host gives no place a system of its own: {}", made.json());
        return None;
    }
    Some(Spot { http: http.clone(), id: text(&made.json(), "id") })
}

/// What the script of [`changes`] leaves, told so that a name that cannot be looked up would be told as well.
const SEEN: &str = "cat /etc/kept /usr/local/tool file; ls /etc/apt /etc/own 2>&1; ls -la /etc /usr/local 2>&1 | grep -c '?????'; \
    ls /etc | grep ^f; test -e /etc/issue && echo issue; stat -c '%U %a' /etc/kept; cat /etc/passwd | wc -l";

fn changes(number: u64) -> String {
    format!(
        "echo {number} > file; echo {number} > /etc/f{number}; rm -f /etc/f{}; echo {number} > /usr/local/tool; mkdir -p /etc/own; \
         echo {number} > /etc/own/f{number}; rm -f /etc/own/f{}",
        number.saturating_sub(1),
        number.saturating_sub(1)
    )
}

#[test]
fn many_layers_of_a_system_become_one() {
    let server = Server::start();
    let Some(spot) = system(&server.http(), "deep") else { return };
    spot.works("echo kept > /etc/kept; chmod 640 /etc/kept; rm -f /etc/issue; rm -rf /etc/apt; mkdir /etc/apt; echo own > /etc/apt/own; echo 1 > /usr/local/gone");
    let mut checkpoints = Vec::new();
    for number in 1..36 {
        spot.works(&changes(number));
        if number == 20 {
            spot.works("rm /usr/local/gone");
        }
        checkpoints.push(spot.checkpoint(json!({"wait": "sealed"})));
    }
    let seen = spot.works(&format!("{SEEN}; true"));
    expect(&spot.http.post(&spot.path("/stop"), json!({})), 200);
    let layers = || expect(&spot.http.get(&spot.path("")), 200)["runtime"]["layers"].as_u64().unwrap();
    spot.works("echo more > /etc/more");
    spot.checkpoint(json!({}));
    eventually("they are one", || (layers() < 10).then_some(()));
    assert_eq!(spot.works(&format!("rm /etc/more; {SEEN}; true")), seen);
    assert_eq!(
        spot.works("ls /usr/local/gone 2>&1 || echo none; rm -r /etc/own /etc/apt; ls -d /etc/own /etc/apt 2>/dev/null || echo none"),
        "ls: cannot access '/usr/local/gone': No such file or directory\nnone\nnone\n"
    );
    for number in [0, 10, 34] {
        spot.restore(&checkpoints[number]);
        assert_eq!(spot.works("cat file /usr/local/tool; ls /etc/own"), format!("{0}\n{0}\nf{0}\n", number + 1));
    }
    spot.delete();
}

#[test]
fn a_system_is_sealed_beside_what_runs_in_it() {
    for disk in SHARING.into_iter().filter_map(|kind| Disk::new(kind, 600 << 20)) {
        let server = disk.server();
        let Some(spot) = system(&server.http(), "running") else { return };
        spot.works(&format!("echo kept > /etc/kept; rm -f /etc/issue; rm -rf /etc/apt; mkdir /etc/apt; {}", changes(1)));
        spot.checkpoint(json!({}));
        spot.works(&format!("{}; chown 33:33 /etc/f2; rm -r /etc/apt", changes(2)));
        let process = spot.begins("sleep 600");
        let seen = spot.works(&format!("{SEEN}; stat -c '%u %g' /etc/f2; true"));
        let checkpoint = spot.checkpoint(json!({"on_running": "freeze"}));
        assert!(spot.runs(&process));
        spot.works(&changes(3));
        let fork = spot.fork(json!({"checkpoint_id": checkpoint["id"]})).remove(0);
        assert_eq!(fork.works(&format!("{SEEN}; stat -c '%u %g' /etc/f2; true")), seen);
        fork.works("rm /etc/f2; echo own > /etc/kept; cat /etc/kept");
        fork.delete();
        spot.delete();
        drop(server);
    }
}
