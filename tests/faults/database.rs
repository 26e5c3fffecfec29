//! A PostgreSQL that goes away and comes back.

use stead_testing::PrivatePostgres;

use super::assert_helpful;
use crate::crashes::{ENVIRONMENTS, assert_whole, create, eventually, settled, text};
use crate::support::{Http, Reply, Server};

/// Several at once: each waits a few seconds for a database before it gives up.
fn at_once(http: &Http, requests: &[(&'static str, String)]) -> Vec<Reply> {
    let threads: Vec<_> = requests
        .iter()
        .map(|(method, path)| {
            let (http, method, path) = (http.clone(), *method, path.clone());
            let body = (method == "POST").then(|| format!("{{\"name\": \"{}\"}}", path.len()));
            std::thread::spawn(move || http.try_send(method, &path, &[], body.as_deref().map(str::as_bytes)).unwrap())
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn a_database_that_goes_away_is_said_and_comes_back() {
    let mut postgres = PrivatePostgres::start();
    let url = postgres.url();
    let server = Server::builder().with(&["--database", &url, "--rate-limit", "0"]).start();
    let http = server.http();
    let kept = text(&create(&http, "kept").unwrap().json(), "id").to_owned();

    // In the middle of many requests.
    let writers: Vec<_> = (0..30)
        .map(|number| {
            let http = http.clone();
            std::thread::spawn(move || (format!("c{number}"), create(&http, &format!("c{number}")).unwrap()))
        })
        .collect();
    postgres.stop();
    let mut acknowledged = vec![("kept".to_owned(), kept.clone())];
    for (name, reply) in writers.into_iter().map(|writer| writer.join().unwrap()) {
        if reply.status == 201 {
            acknowledged.push((name, text(&reply.json(), "id").to_owned()));
        } else {
            assert_helpful(&reply, 503, "service_unavailable");
            assert!(reply.header("retry-after").is_some());
        }
    }
    let one = format!("{ENVIRONMENTS}/{kept}");
    let requests = [("GET", one.clone()), ("GET", ENVIRONMENTS.to_owned()), ("POST", ENVIRONMENTS.to_owned()), ("DELETE", one)];
    for reply in at_once(&http, &requests) {
        assert_helpful(&reply, 503, "service_unavailable");
        assert!(reply.header("retry-after").is_some());
        let text = String::from_utf8(reply.body).unwrap();
        assert!(!text.contains("stead-pg-") && !text.contains("postgres"), "nothing of the address: {text}");
    }
    let probes = at_once(&http, &[("GET", "/readyz".to_owned()), ("GET", "/healthz".to_owned()), ("GET", "/metrics".to_owned())]);
    assert_eq!(probes.iter().map(|reply| reply.status).collect::<Vec<_>>(), [503, 200, 200]);

    postgres.resume();
    eventually("ready again", || (http.get("/readyz").status == 200).then_some(()));
    for number in 0..30 {
        let name = format!("c{number}");
        let made = eventually("an answer", || {
            let reply = create(&http, &name).unwrap();
            match reply.status {
                201 => Some(text(&reply.json(), "id").to_owned()),
                409 | 503 => None,
                _ => panic!("{}", reply.json()),
            }
        });
        acknowledged.push((name, made));
    }
    let live = assert_whole(&server, &settled(&http));
    for (name, id) in &acknowledged {
        assert_eq!(live.get(name), Some(id), "`{name}` was acknowledged, once");
    }
    assert_eq!(live.len(), 32);
}

#[test]
fn a_database_that_is_not_there_at_the_start_is_said() {
    let directory = tempfile::TempDir::new().unwrap();
    let elsewhere = directory.path().display();
    // Nobody listens on the port of a listener that has gone.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut postgres = PrivatePostgres::start();
    let socket = postgres.url().split_once("host=").unwrap().1.to_owned();
    postgres.sql("CREATE USER guarded PASSWORD 'another'");
    std::fs::write(format!("{socket}/data/pg_hba.conf"), "local all guarded scram-sha-256\nlocal all all trust\n").unwrap();
    postgres.stop();
    postgres.resume();
    for (url, expected) in [
        (format!("postgres://stead:s3cret@127.0.0.1:{port}/stead"), vec!["127.0.0.1".to_owned(), port.to_string(), "refused".to_owned()]),
        ("postgres://stead:s3cret@nowhere.invalid:7/stead".to_owned(), vec!["nowhere.invalid, port 7".into(), "host is unknown".into()]),
        (format!("postgres://stead:s3cret@localhost/stead?host={elsewhere}"), vec![elsewhere.to_string(), "no such socket".into()]),
        (format!("postgres://stead:s3cret@localhost/absent?host={socket}"), vec![socket.clone(), "no database absent".into()]),
        (format!("postgres://nobody:s3cret@localhost/postgres?host={socket}"), vec![socket.clone(), "user nobody".into()]),
        (format!("postgres://guarded:s3cret@localhost/postgres?host={socket}"), vec![socket, "password of user guarded".into()]),
        ("nonsense".to_owned(), vec!["database".into()]),
    ] {
        let Err((status, stderr)) = Server::builder().with(&["--database", &url]).try_start() else { panic!("it started on {url}") };
        assert_eq!(status, 1, "{url}: {stderr}");
        assert!(stderr.contains("hint:") && !stderr.contains("s3cret") && !stderr.contains("pool"), "{url}: {stderr}");
        for part in expected {
            assert!(stderr.contains(&part), "{part} for {url}: {stderr}");
        }
    }
}
