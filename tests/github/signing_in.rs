//! The way to GitHub and back, in one browser, once.

use serde_json::json;

use super::{repos, with_app};
use crate::api::world::{ENVIRONMENTS, expect};
use crate::support::github::FakeGithub;
use crate::support::{Http, Reply};

const LOGIN: &str = "/api/auth/github/login";

/// What a browser would send back of what it was told to keep.
fn kept(reply: &Reply, name: &str) -> Option<String> {
    let all = reply.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case("set-cookie"));
    let pair = all.map(|(_, value)| value.split(';').next().unwrap()).find(|pair| pair.starts_with(&format!("{name}=")))?;
    (!pair.ends_with('=')).then(|| pair.to_owned())
}

fn with_cookie(http: &Http, path: &str, cookie: &str) -> Reply {
    http.send("GET", path, &[("Cookie", cookie)], None)
}

/// Begins in a browser of its own; gives the address at GitHub and what the browser keeps.
fn begin(http: &Http, path: &str) -> (String, String) {
    let reply = http.get(path);
    assert_eq!(reply.status, 302, "{}", String::from_utf8_lossy(&reply.body));
    (reply.header("location").unwrap().to_owned(), kept(&reply, "stead_github_login").unwrap())
}

#[test]
fn somebody_signs_in_and_shows_what_they_see_and_signs_out() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let browser = server.http_as(None);
    let (address, cookie) = begin(&browser, &format!("{LOGIN}?return_to=/docs/"));
    let first = browser.get(LOGIN);
    let flags = first.header("set-cookie").unwrap();
    assert!(flags.contains("HttpOnly") && flags.contains("SameSite=Lax") && !flags.contains("Secure"), "{flags}");
    let behind = browser.send("GET", LOGIN, &[("X-Forwarded-Proto", "https")], None);
    assert!(behind.header("set-cookie").unwrap().contains("; Secure"));

    let (code, state) = github.sign_in(&address, "ghu_alice");
    let back = with_cookie(&browser, &format!("/api/auth/github/callback?code={code}&state={state}"), &cookie);
    assert_eq!((back.status, back.header("location")), (303, Some("/docs/")), "{}", String::from_utf8_lossy(&back.body));
    assert!(kept(&back, "stead_github_login").is_none(), "it is used up");
    let session = kept(&back, "stead_github").unwrap();
    assert!(!session.contains("ghu_alice"));
    expect(&with_cookie(&browser, "/api/github/installations", &session), 200);

    // With an API key beside it, it shows what may be named.
    let body = json!({ "name": "web", "spec": { "repos": repos(&["acme/web"]) } }).to_string();
    expect(&server.http().send("POST", ENVIRONMENTS, &[("Cookie", &session)], Some(body.as_bytes())), 201);
    // By itself it is no key of this server's.
    assert_eq!(with_cookie(&browser, "/v1/projects", &session).status, 401);
    // One that somebody else made, or changed, is nobody's.
    let mut forged = session.clone();
    forged.replace_range(forged.len() - 2.., "AA");
    assert_eq!(with_cookie(&browser, "/api/github/installations", &forged).status, 403);
    assert_eq!(with_cookie(&browser, "/api/github/installations", &cookie.replace("stead_github_login", "stead_github")).status, 403);

    let out = browser.send("POST", "/api/auth/github/logout", &[("Cookie", &session)], None);
    assert_eq!((out.status, kept(&out, "stead_github")), (204, None));
    assert_eq!(github.state().signed_out, ["ghu_alice"]);
    assert_eq!(with_cookie(&browser, "/api/github/installations", &session).status, 403, "a copy of it is worth nothing");
}

#[test]
fn whoever_did_not_begin_it_or_comes_twice_is_refused() {
    let github = FakeGithub::start();
    let server = with_app(&github, &github.key).start();
    let browser = server.http_as(None);
    let refused = |query: &str, cookie: Option<&str>| {
        let headers: Vec<(&str, &str)> = cookie.map(|cookie| ("Cookie", cookie)).into_iter().collect();
        let reply = browser.send("GET", &format!("/api/auth/github/callback?{query}"), &headers, None);
        assert_eq!((reply.status, &*reply.code()), (400, "github_login_failed"), "{query}");
        assert!(kept(&reply, "stead_github").is_none());
    };
    let (address, cookie) = begin(&browser, LOGIN);
    let (code, state) = github.sign_in(&address, "ghu_alice");
    refused(&format!("code={code}&state={state}"), None);
    refused(&format!("code={code}&state=forged"), Some(&cookie));
    refused(&format!("code={code}"), Some(&cookie));
    refused(&format!("state={state}"), Some(&cookie));
    refused("error=access_denied&state=x", Some(&cookie));
    // Another browser began its own way, and is sent this one's.
    let (_, others) = begin(&browser, LOGIN);
    refused(&format!("code={code}&state={state}"), Some(&others));
    // A code that belongs to another way is of no use: its verifier is another.
    let (address, third) = begin(&browser, LOGIN);
    let (_, third_state) = github.sign_in(&address, "ghu_alice");
    refused(&format!("code={code}&state={third_state}"), Some(&third));
    let (code, state) = github.sign_in(&begin_again(&browser, &mut String::new()), "ghu_alice");
    refused(&format!("code={code}&state={state}"), Some(&cookie));

    let mut own = String::new();
    let (code, state) = github.sign_in(&begin_again(&browser, &mut own), "ghu_alice");
    let query = format!("code={code}&state={state}");
    assert_eq!(with_cookie(&browser, &format!("/api/auth/github/callback?{query}"), &own).status, 200);
    refused(&query, Some(&own));

    for path in ["//evil.example", "https://evil.example/", "/\\evil.example", "%2F%2Fevil.example", "/a%0d%0aSet-Cookie:x=y"] {
        assert_eq!(browser.get(&format!("{LOGIN}?return_to={path}")).status, 400, "{path}");
    }
}

fn begin_again(browser: &Http, cookie: &mut String) -> String {
    let (address, kept) = begin(browser, LOGIN);
    *cookie = kept;
    address
}
