//! Servers that are killed and callers that hang up in the middle of an archive.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::super::Spot;
use super::{IMPORT, assert_nothing_came, layers, send};
use crate::api::world::{ENVIRONMENTS, expect, text, walk};
use crate::crashes::{Dice, all, assert_whole, eventually, proving, settled};
use crate::support::{Http, Server};

fn filled(server: &Server) -> Spot {
    let spot = Spot::new(&server.http(), "source");
    spot.works("mkdir d; for n in $(seq 400); do echo $n > d/$n; done; head -c 2000000 /dev/urandom > big; sha256sum big > sum");
    spot.checkpoint(json!({"name": "one"}));
    spot.works("rm d/1; echo changed > d/2");
    spot.checkpoint(json!({"name": "two"}));
    spot.works("echo three > three");
    spot
}

const LOOK: &str = "sha256sum -c sum; ls d | wc -l; cat d/2 three";
const SEEN: &str = "big: OK\n399\nchanged\nthree\n";

/// The layers that rows name are there, and no others are. Those of one environment are as many as the archive has.
fn assert_layers(server: &Server, imported: usize) {
    eventually("only layers that rows name are there", || {
        let names = layers(server.path());
        (names.len() == imported * 3 && names.iter().all(|name| name.starts_with("lyr_"))).then_some(())
    });
}

#[test]
fn a_server_that_is_killed_amid_an_import_has_all_of_it_or_nothing() {
    let rounds = if proving() { 60 } else { 8 };
    let from = Server::start();
    let archive = filled(&from).export();
    let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    let start = || Server::builder().on(Arc::clone(&directory)).with(&["--rate-limit", "0"]).start();
    let (mut server, mut dice) = (start(), Dice(31));
    // How long one takes here, so that it is killed at any moment of it.
    let begun = std::time::Instant::now();
    expect(&send(&server.http(), &archive, "?name=measured", None), 201);
    let took = u64::try_from(begun.elapsed().as_micros()).unwrap();
    let mut imported = 1;
    for round in 0..rounds {
        let (http, body, query, key) = (server.http(), archive.clone(), format!("?name=round-{round}"), format!("key-{round}"));
        let request = {
            let (query, key) = (query.clone(), key.clone());
            move |http: &Http| http.try_send("POST", &format!("{IMPORT}{query}"), &[("Idempotency-Key", &key)], Some(&body))
        };
        let first = request.clone();
        let thread = std::thread::spawn(move || first(&http));
        std::thread::sleep(Duration::from_micros(dice.roll(took * 12 / 10)));
        server.kill();
        let answered = thread.join().unwrap().is_ok_and(|reply| reply.status == 201);
        server = start();
        let records = settled(&server.http());
        let there: Vec<_> = records.iter().filter(|record| record["name"] == format!("round-{round}")).collect();
        assert!(there.len() <= 1 && (!answered || there.len() == 1), "{there:?}");
        imported += there.len();
        assert_whole(&server, &records);
        assert_layers(&server, imported);
        if dice.roll(2) == 0 {
            // The same request once more, at the next server.
            let made = expect(&request(&server.http()).unwrap(), 201);
            imported += 1 - there.len();
            let come = Spot { http: server.http(), id: text(&made, "id") };
            assert_eq!(come.works(LOOK), SEEN, "round {round}");
            assert_eq!(come.checkpoints().len(), 3);
            expect(&come.http.post(&come.path("/stop"), json!({})), 200);
        }
    }
    for record in walk(&server.http(), ENVIRONMENTS, 200) {
        if text(&record, "name").starts_with("round-") || text(&record, "name") == "measured" {
            Spot { http: server.http(), id: text(&record, "id") }.delete();
        }
    }
    eventually("nothing is left", || layers(server.path()).is_empty().then_some(()));
}

#[test]
fn a_server_that_is_killed_amid_an_export_has_what_it_had() {
    let rounds = if proving() { 25 } else { 4 };
    let directory = Arc::new(tempfile::Builder::new().prefix("stead-").tempdir().unwrap());
    let start = || Server::builder().on(Arc::clone(&directory)).with(&["--rate-limit", "0"]).start();
    let (mut server, mut dice) = (start(), Dice(41));
    let (mut spot, other) = (filled(&server), Server::start());
    let begun = std::time::Instant::now();
    spot.export();
    let took = u64::try_from(begun.elapsed().as_micros()).unwrap();
    for round in 0..rounds {
        spot.works(&format!("echo {round} > round"));
        let (http, path) = (server.http(), spot.path("/export"));
        let thread = std::thread::spawn(move || http.try_send("POST", &path, &[], Some(b"{}")));
        std::thread::sleep(Duration::from_micros(dice.roll(took * 12 / 10)));
        server.kill();
        let cut = thread.join().unwrap();
        server = start();
        spot.http = server.http();
        assert_eq!(spot.works(&format!("{LOOK}; cat round")), format!("{SEEN}{round}\n"));
        // Whether it was sealed or not, the next one is whole; and what came out before is whole or no archive.
        let come = Spot::import(&other.http(), &spot.export(), &format!("whole-{round}"));
        assert_eq!(come.works(&format!("{LOOK}; cat round")), format!("{SEEN}{round}\n"));
        come.delete();
        if let Ok(reply) = cut {
            Spot::import(&other.http(), &reply.body, &format!("before-{round}")).delete();
        }
    }
    spot.delete();
    eventually("nothing is left", || layers(server.path()).is_empty().then_some(()));
}

#[test]
fn who_hangs_up_leaves_nothing() {
    let (from, to) = (Server::start(), Server::start());
    let archive = filled(&from).export();
    let (before, count) = (layers(to.path()), all(&to.http()).len());
    let address = to.address.trim_start_matches("http://");
    for (number, part) in [0, 1, 5, 9, 10].into_iter().enumerate() {
        let mut socket = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST {IMPORT}?name=hung-{number} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
            to.owner_key(),
            archive.len() + usize::from(part == 10)
        );
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&archive[..archive.len() * part / 10]).unwrap();
        if part == 9 {
            // Until something of it is there.
            eventually("it is under way", || layers(to.path()).iter().any(|name| name.starts_with(".importing-")).then_some(()));
        }
        socket.shutdown(std::net::Shutdown::Both).unwrap();
    }
    assert_nothing_came(&to, &before, count);
    // All of it, and gone before the answer: then it is made, like anything else.
    let mut socket = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {IMPORT}?name=made HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        to.owner_key(),
        archive.len()
    );
    socket.write_all(&[head.as_bytes(), &archive].concat()).unwrap();
    let mut first = [0; 1];
    socket.read_exact(&mut first).unwrap();
    drop(socket);
    let listed = walk(&to.http(), &format!("{ENVIRONMENTS}?name=made"), 10);
    assert_eq!(Spot { http: to.http(), id: text(&listed[0], "id") }.works(LOOK), SEEN);
}

#[test]
fn layers_that_arrive_are_left_alone_by_whoever_removes_others() {
    let (from, to) = (Server::start(), Server::start());
    let archive = filled(&from).export();
    let address = to.address.trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST {IMPORT}?name=slow HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
        to.owner_key(),
        archive.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    let half = archive.len() / 2;
    socket.write_all(&archive[..half]).unwrap();
    eventually("it is under way", || layers(to.path()).iter().any(|name| name.starts_with(".importing-")).then_some(()));
    // Others come and go meanwhile, and nobody waits for this one.
    for number in 0..3 {
        let spot = Spot::new(&to.http(), &format!("other-{number}"));
        spot.works("echo x > x");
        spot.checkpoint(json!({}));
        spot.delete();
    }
    eventually("they are gone", || layers(to.path()).iter().all(|name| name.starts_with(".importing-")).then_some(()));
    socket.write_all(&archive[half..]).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 201"), "{reply}");
    assert_layers(&to, 1);
}

#[test]
fn who_sends_slowly_takes_up_no_more_than_there_is_for_archives() {
    let server = Server::start();
    let spot = Spot::new(&server.http(), "source");
    spot.works("echo text > file");
    let archive = spot.export();
    let address = server.address.trim_start_matches("http://").to_owned();
    let mut slow = Vec::new();
    let mut one_more = || {
        let mut socket = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST {IMPORT}?name=slow HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n",
            server.owner_key(),
            archive.len()
        );
        socket.write_all(&[head.as_bytes(), &archive[..700]].concat()).unwrap();
        slow.push(socket);
    };
    (0..31).for_each(|_| one_more());
    eventually("there is no room for another", || {
        // One that is refused because this look took its room is followed by another.
        one_more();
        (send(&server.http(), &archive, "?name=late", None).status == 503).then_some(())
    });
    let reply = server.http().post(&spot.path("/export"), json!({}));
    assert_eq!(crate::api::world::refused(&reply, 503, "service_unavailable")["recoverable"], true);
    // Nobody else waits for them.
    assert_eq!(spot.works("cat file"), "text\n");
    drop(slow);
    eventually("there is room again", || (send(&server.http(), &archive, "?name=after", None).status == 201).then_some(()));
}
