//! What is around the API: health, metrics, the document, the reference, and the manners of every reply.

use serde_json::{Value, json};

use super::world::{ENVIRONMENTS, at, create, expect, head, refused, text, walk};
use crate::support::{Reply, Server};

#[test]
fn every_reply_has_an_id_and_every_error_a_body() {
    let server = Server::start();
    let (http, nobody) = (server.http(), server.http_as(None));
    let mut ids = Vec::new();
    let mut note = |reply: &Reply| {
        let id = reply.header("x-request-id").unwrap_or_else(|| panic!("no id on a {}", reply.status)).to_owned();
        assert!(id.starts_with("req_") && id.len() == 36, "{id}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        ids.push(id);
    };
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs/", "/v1/identity", "/v1/projects", ENVIRONMENTS] {
        let reply = http.get(path);
        assert_eq!(reply.status, 200, "{path}");
        note(&reply);
    }
    for (method, path, status, code) in [
        ("GET", "/", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v2/projects", 404, "not_found"),
        ("GET", "/v1/projects/", 404, "not_found"),
        ("GET", "/v1/projects/default/environments/", 404, "not_found"),
        ("GET", "//v1/projects", 404, "not_found"),
        ("GET", "/v1/../v1/projects", 404, "not_found"),
        ("GET", "/docs/nothing", 404, "not_found"),
        ("PUT", ENVIRONMENTS, 405, "method_not_allowed"),
        ("DELETE", ENVIRONMENTS, 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/projects", 405, "method_not_allowed"),
        ("BREW", "/v1/projects", 405, "method_not_allowed"),
        ("POST", "/docs/", 405, "method_not_allowed"),
    ] {
        for caller in [&http, &nobody] {
            let reply = caller.send(method, path, &[], None);
            note(&reply);
            assert_eq!(reply.header("content-type"), Some("application/json"), "{method} {path}");
            refused(&reply, status, code);
            if status == 405 {
                assert!(reply.header("allow").is_some_and(|allow| !allow.is_empty()), "{method} {path}");
            }
        }
    }
    assert_eq!(http.send("PUT", ENVIRONMENTS, &[], None).header("allow"), Some("GET, POST"));
    note(&nobody.get("/v1/projects"));
    note(&http.post(ENVIRONMENTS, json!({ "name": 1 })));
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "each is another one");
    let log = server.log();
    assert!(ids.iter().all(|id| log.contains(id.as_str())), "the log has a line for each");
}

#[test]
fn nothing_internal_and_nothing_endless_is_echoed() {
    let server = Server::start();
    let long = "x".repeat(10_000);
    let reply = server.http().get(&format!("/nothing/{long}"));
    assert_eq!((reply.status, reply.body.len() < 1000), (404, true));
    let reply = server.http().send("GET", &format!("/v1/projects/default/environments/{}", "%3Cscript%3E"), &[], None);
    assert_eq!((reply.status, reply.header("content-type")), (404, Some("application/json")));
}

#[test]
fn no_page_of_another_origin_is_let_in() {
    let server = Server::start();
    for path in ["/v1/projects", "/healthz", "/openapi.json", "/nothing"] {
        for method in ["GET", "OPTIONS"] {
            let origin = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
            let reply = server.http().send(method, path, &origin, None);
            let allowed = reply.headers.iter().find(|(name, _)| name.to_lowercase().starts_with("access-control-"));
            assert_eq!(allowed, None, "{method} {path}");
        }
    }
}

#[test]
fn health_readiness_and_metrics_are_there_without_a_key() {
    let server = Server::start();
    let nobody = server.http_as(None);
    assert_eq!(nobody.get("/healthz").body, b"ok");
    assert_eq!(expect(&nobody.get("/readyz"), 200), json!({ "status": "ready", "version": env!("CARGO_PKG_VERSION") }));
    create(&server.http(), json!({}));
    let metrics = nobody.get("/metrics");
    assert_eq!(metrics.status, 200);
    let body = String::from_utf8(metrics.body).unwrap();
    assert!(
        body.contains("stead_http_requests_total{method=\"POST\",route=\"/v1/projects/{project}/environments\",status=\"201\"} 1"),
        "{body}"
    );
    for line in body.lines().filter(|line| !line.is_empty()) {
        let well_formed = line.starts_with("# HELP ")
            || line.starts_with("# TYPE ")
            || line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok());
        assert!(well_formed, "{line}");
    }
    // Labels are routes, never what somebody asked for.
    nobody.get("/a-path-of-my-own");
    nobody.send("BREW", "/healthz", &[], None);
    let body = String::from_utf8(nobody.get("/metrics").body).unwrap();
    assert!(!body.contains("a-path-of-my-own") && !body.contains("BREW"), "{body}");
}

#[test]
fn a_head_is_a_get_without_its_body() {
    let server = Server::start();
    let http = server.http();
    let environment = create(&http, json!({}));
    let key = server.owner_key();
    for path in [
        "/healthz",
        "/openapi.json",
        "/docs/",
        "/v1/projects",
        ENVIRONMENTS,
        &at(&environment),
        "/v1/projects/default/audit",
        "/v1/identity",
    ] {
        let (got, headed) = (http.get(path), head(&server, path, Some(&key)));
        assert_eq!((headed.status, headed.body.len()), (200, 0), "{path}");
        for name in ["content-type", "content-length", "etag"] {
            // The record of a request is itself part of the metrics and of nothing else here.
            assert_eq!(headed.header(name), got.header(name), "{path} {name}");
        }
    }
    assert_eq!(head(&server, &format!("{ENVIRONMENTS}/env_nope"), Some(&key)).status, 404);
    assert_eq!(head(&server, "/nothing", None).status, 404);
}

#[test]
fn the_document_is_openapi_and_says_the_same_twice() {
    let server = Server::start();
    let http = server.http_as(None);
    let first = http.get("/openapi.json");
    assert_eq!(first.header("content-type"), Some("application/json"));
    assert_eq!(first.body, http.get("/openapi.json").body);
    let document = first.json();
    assert!(text(&document, "openapi").starts_with("3.1."), "{}", document["openapi"]);
    assert!(!text(&document["info"], "title").is_empty() && !text(&document["info"], "version").is_empty());
    let tags: Vec<String> = document["tags"].as_array().unwrap().iter().map(|tag| text(tag, "name")).collect();
    for tag in ["environments", "providers", "leases", "workers", "logs", "sandboxes", "projects", "members", "api-keys", "audit"] {
        assert!(tags.iter().any(|known| known == tag), "{tag} is not among {tags:?}");
    }
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");

    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let what = format!("{method} {path}");
            operations.push(text(operation, "operationId"));
            assert!(operation["summary"].is_string() || operation["description"].is_string(), "{what} says nothing of itself");
            assert!(operation["tags"].as_array().unwrap().iter().all(|tag| tags.contains(&tag.as_str().unwrap().to_owned())), "{what}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with(['2', '3']) || status == "101"), "{what}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                assert!(
                    parameters.iter().any(|parameter| parameter["name"] == name && parameter["in"] == "path"),
                    "{what} does not tell {name}"
                );
            }
        }
    }
    let count = operations.len();
    operations.sort();
    operations.dedup();
    assert_eq!(operations.len(), count, "each operation has a name of its own");
    // Every reference leads somewhere.
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

/// The addresses that a page loads or leads to.
fn addresses(page: &str) -> Vec<&str> {
    let after = |attribute: &'static str| page.split(attribute).skip(1).filter_map(|rest| rest.split(['"', '\'', ')']).next());
    [" src=\"", " href=\"", " src='", " href='", "url(\"", "url('", "@import \""].into_iter().flat_map(after).collect()
}

#[test]
fn the_reference_is_served_whole_and_names_no_outside_address() {
    let server = Server::start();
    let http = server.http_as(None);
    let redirect = http.get("/docs");
    assert!((300..400).contains(&redirect.status), "{}", redirect.status);
    assert_eq!(redirect.header("location"), Some("/docs/"));
    // Whoever takes no encoding gets none.
    let page = http.send("GET", "/docs/", &[("Accept-Encoding", "identity")], None);
    assert_eq!((page.status, page.header("content-encoding")), (200, None));
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.header("content-security-policy").unwrap().contains("default-src 'self'"), "nor would a browser load one");
    let text = String::from_utf8(page.body).unwrap();
    let assets = addresses(&text);
    assert!(assets.len() >= 4, "{assets:?}");
    for asset in assets {
        assert!(!asset.contains("//"), "{asset} is an outside address");
        let reply = http.get(&format!("/docs/{}", asset.trim_start_matches("./")));
        assert_eq!(reply.status, 200, "{asset}");
        if asset.ends_with(".css") {
            let style = String::from_utf8(reply.body).unwrap();
            assert!(addresses(&style).iter().all(|address| address.starts_with("data:") || !address.contains("//")), "{asset}");
        }
    }
    let start = http.get("/docs/swagger-initializer.js");
    let start = String::from_utf8(start.body).unwrap();
    assert!(start.contains("/openapi.json") && !start.contains("http://") && !start.contains("https://"), "{start}");
}

#[test]
fn the_log_is_structured_when_it_is_asked_to_be() {
    let mut server = Server::builder().with(&["--log-format", "json"]).start();
    let reply = server.http().post(ENVIRONMENTS, json!({ "name": "web" }));
    let id = reply.header("x-request-id").unwrap().to_owned();
    let key = server.owner_key();
    assert_eq!(server.terminate(), Some(0));
    let log = server.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect();
    let line = lines.iter().find(|line| line["fields"]["request_id"] == *id).expect("a line for the request");
    let fields = &line["fields"];
    assert_eq!((&fields["method"], &fields["status"]), (&json!("POST"), &json!(201)));
    assert_eq!(fields["route"], "/v1/projects/{project}/environments");
    assert!(!log.contains(&key), "no key is ever in the log");
}

#[test]
fn the_operator_sees_the_server_and_what_it_holds() {
    let server = Server::start();
    let http = server.http();
    create(&http, json!({}));
    let system = expect(&http.get("/v1/system"), 200);
    assert_eq!((text(&system, "address"), text(&system, "store")), (server.address.clone(), "sqlite".to_owned()));
    assert_eq!(text(&system, "data_dir"), server.path().display().to_string());
    assert!(!text(&system, "version").is_empty());
    let usage = expect(&http.get("/v1/system/usage"), 200);
    let environments = usage["items"].as_array().unwrap().iter().find(|item| item["what"] == "environments").unwrap().clone();
    assert_eq!(environments["count"], 2, "{usage}");
    let pruned = expect(&http.post("/v1/system/prune", json!({ "dry_run": true })), 200);
    assert!(pruned["dry_run"] == true && pruned["items"].is_array(), "{pruned}");
    assert_eq!(refused(&http.post("/v1/system/prune", json!({ "all": true })), 400, "invalid_field")["field"], "all");
    assert_eq!(walk(&http, ENVIRONMENTS, 10).len(), 2);
}
