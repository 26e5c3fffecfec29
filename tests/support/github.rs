//! A GitHub of the test's own: it believes only what the app's key has signed, gives out tokens for what was asked and no more, and takes
//! them back. Beside its API stands a git server that lets in whoever brings a live token for the repository and for what is done there.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stead_domain::Timestamp;
use tempfile::TempDir;

pub const APP_ID: &str = "4711";
pub const CLIENT_ID: &str = "Iv1.test";
pub const CLIENT_SECRET: &str = "client-secret-of-the-test";
/// What the API says where an installation has not what is asked for.
pub const NOT_THERE: &str = "There is at least one repository that does not exist or is not accessible to the parent installation.";

/// A key of the app's, as GitHub hands it out and as other tools write it.
pub struct AppKey {
    pub older: String,
    pub newer: String,
    public: Vec<u8>,
}

impl AppKey {
    pub fn make() -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let pem = |label: &str, der: &[u8]| {
            let text = STANDARD.encode(der);
            let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
        };
        // The older form is inside the newer one, after a head of fixed length for keys of this size.
        let older = pem("RSA PRIVATE KEY", &der.as_ref()[26..]);
        Self { older, newer: pem("PRIVATE KEY", der.as_ref()), public: pair.public_key().as_ref().to_vec() }
    }
}

#[derive(Clone, Debug)]
pub struct Token {
    pub repositories: Vec<String>,
    pub permissions: BTreeMap<String, String>,
    ends: Instant,
    pub revoked: bool,
}

impl Token {
    fn is_live(&self) -> bool {
        !self.revoked && self.ends > Instant::now()
    }
}

/// How the next calls for a token are answered.
#[derive(Clone, Debug)]
pub struct Fault {
    pub status: u16,
    pub message: &'static str,
    pub headers: Vec<(&'static str, String)>,
    /// How often.
    pub times: u32,
}

/// What a user sees: installations, and repositories with whether they may push.
type Seen = (Vec<u64>, Vec<(String, bool)>);

#[derive(Default)]
pub struct State {
    public: Vec<u8>,
    /// By id: the account, and its repositories.
    installations: BTreeMap<u64, (String, Vec<String>)>,
    /// By token: the installations that a user sees, and the repositories with whether they may push.
    users: HashMap<String, Seen>,
    pub tokens: HashMap<String, Token>,
    /// The bodies that tokens were asked for with, and their installations.
    pub minted: Vec<(u64, Value)>,
    pub revoked: usize,
    pub signed_out: Vec<String>,
    pub life: Duration,
    pub fault: Option<Fault>,
    /// How far ahead its clock is.
    pub ahead: i64,
    /// Calls that were refused because of their signature.
    pub unbelieved: usize,
    codes: HashMap<String, (String, String)>,
    /// What it found wrong with what was asked.
    pub complaints: Vec<String>,
}

pub struct FakeGithub {
    pub address: String,
    pub key: AppKey,
    state: Arc<Mutex<State>>,
    repositories: Arc<TempDir>,
}

impl FakeGithub {
    /// One with installation 7 of `acme`, which has `web` and `lib`, and 8 of `other`; `ghu_alice` sees 7, `ghu_bob` sees 8.
    pub fn start() -> Self {
        let key = AppKey::make();
        let mut state = State { public: key.public.clone(), life: Duration::from_secs(3600), ..State::default() };
        state.installations.insert(7, ("acme".to_owned(), vec!["web".to_owned(), "lib".to_owned()]));
        state.installations.insert(8, ("other".to_owned(), vec!["web".to_owned()]));
        let alice = vec![("acme/web".to_owned(), true), ("acme/lib".to_owned(), false)];
        state.users.insert("ghu_alice".to_owned(), (vec![7], alice));
        state.users.insert("ghu_owner".to_owned(), (vec![7], vec![("acme/web".to_owned(), true), ("acme/lib".to_owned(), true)]));
        state.users.insert("ghu_bob".to_owned(), (vec![8], vec![("other/web".to_owned(), true)]));
        let (state, repositories) = (Arc::new(Mutex::new(state)), Arc::new(TempDir::new().unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (shared, files) = (Arc::clone(&state), Arc::clone(&repositories));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, files) = (Arc::clone(&shared), Arc::clone(&files));
                std::thread::spawn(move || answer(stream, &state, files.path()));
            }
        });
        Self { address, key, state, repositories }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The app has another key from now on.
    pub fn trust(&self, key: &AppKey) {
        self.state().public = key.public.clone();
    }

    /// Somebody signs in at the address that the server sent a browser to; gives the code that it goes back with.
    pub fn sign_in(&self, address: &str, user: &str) -> (String, String) {
        let query = address.split_once('?').unwrap().1;
        let value = |name: &str| {
            let pair =
                query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).unwrap_or_else(|| panic!("no {name} in {query}"));
            pair.to_owned()
        };
        assert!(address.starts_with(&format!("{}/login/oauth/authorize?", self.url())), "{address}");
        assert_eq!((value("client_id").as_str(), value("code_challenge_method").as_str()), (CLIENT_ID, "S256"));
        let code = format!("code-{}", self.state().codes.len());
        self.state().codes.insert(code.clone(), (value("code_challenge"), user.to_owned()));
        (code, value("state"))
    }

    /// A bare repository with one commit.
    pub fn make_repository(&self, full_name: &str) -> PathBuf {
        let bare = self.repositories.path().join(format!("{full_name}.git"));
        let work = TempDir::new().unwrap();
        git(work.path(), &["init", "-q", "-b", "main"]);
        std::fs::write(work.path().join("README"), "first\n").unwrap();
        git(work.path(), &["add", "README"]);
        git(work.path(), &["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "first"]);
        git(work.path(), &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
        git(&bare, &["config", "http.receivepack", "true"]);
        bare
    }

    /// Where git finds a repository, with a token in the address.
    pub fn address_with(&self, token: &str, full_name: &str) -> String {
        format!("http://x-access-token:{token}@{}/{full_name}.git", self.address)
    }

    /// Everything that was ever a token here.
    pub fn all_tokens(&self) -> Vec<String> {
        self.state().tokens.keys().cloned().collect()
    }
}

/// Runs git on the host, with nothing of the caller's settings.
pub fn try_git(directory: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new("git");
    command.current_dir(directory).args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    command.env("HOME", directory).env_remove("GIT_DIR").stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
pub fn git(directory: &Path, arguments: &[&str]) {
    let output = try_git(directory, arguments);
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn bearer(&self) -> &str {
        self.header("authorization").strip_prefix("Bearer ").unwrap_or_default()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 || line == "\r\n" {
            break;
        }
        let (name, value) = line.trim_end().split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.get("expect").is_some_and(|expected| expected == "100-continue") {
        let mut stream = stream;
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let mut body = Vec::new();
    if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        loop {
            let mut size = String::new();
            input.read_line(&mut size).ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            input.read_exact(&mut chunk).ok()?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else {
        body = vec![0; headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
        input.read_exact(&mut body).ok()?;
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(Request { method, path: path.to_owned(), query: query.to_owned(), headers, body })
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn answer(mut stream: TcpStream, state: &Mutex<State>, files: &Path) {
    let Some(request) = read_request(&stream) else { return };
    if request.path.contains(".git/") {
        let reply = serve_git(&request, state, files);
        let _ = stream.write_all(&reply);
        return;
    }
    let (status, headers, body) = answer_api(&request, &mut state.lock().unwrap());
    let date = Timestamp::from_microseconds((now() + state.lock().unwrap().ahead) * 1_000_000);
    let mut head = format!("HTTP/1.1 {status} X\r\nDate: {}\r\nContent-Type: application/json\r\n", http_date(date));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let text = if body.is_null() { String::new() } else { body.to_string() };
    head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len()));
    let _ = stream.write_all(head.as_bytes());
}

/// Days are counted, so that no name of a weekday can be wrong.
fn http_date(time: Timestamp) -> String {
    let text = time.to_string();
    let (date, clock) = text.split_once('T').unwrap();
    let parts: Vec<&str> = date.split('-').collect();
    let month =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][parts[1].parse::<usize>().unwrap() - 1];
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from((time.microseconds() / 86_400_000_000) % 7).unwrap()];
    format!("{weekday}, {} {month} {} {} GMT", parts[2], parts[0], &clock[..8])
}

type Answer = (u16, Vec<(&'static str, String)>, Value);

fn plain(status: u16, message: &str) -> Answer {
    (status, Vec::new(), json!({ "message": message, "documentation_url": "https://docs.example" }))
}

fn answer_api(request: &Request, state: &mut State) -> Answer {
    if !request.path.starts_with("/login/") && request.header("x-github-api-version") != "2022-11-28" {
        state.complaints.push(format!("no version of the API: {}", request.path));
    }
    if request.header("user-agent").is_empty() || request.header("accept") != "application/vnd.github+json" {
        state.complaints.push(format!("no user agent or another type: {}", request.path));
    }
    let parts: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("POST", ["app", "installations", id, "access_tokens"]) => mint(request, state, id.parse().unwrap()),
        ("GET", ["app", "installations", id]) => match believed(request, state) {
            Err(refusal) => refusal,
            Ok(()) => match state.installations.get(&id.parse().unwrap()) {
                Some((account, _)) => (
                    200,
                    Vec::new(),
                    json!({ "id": id.parse::<u64>().unwrap(), "app_id": 4711, "account": { "login": account, "type": "Organization" } }),
                ),
                None => plain(404, "Not Found"),
            },
        },
        ("DELETE", ["installation", "token"]) => match state.tokens.get_mut(request.bearer()).filter(|token| token.is_live()) {
            Some(token) => {
                token.revoked = true;
                state.revoked += 1;
                (204, Vec::new(), Value::Null)
            }
            None => plain(401, "Bad credentials"),
        },
        ("GET", ["user", "installations"]) => match state.users.get(request.bearer()) {
            None => plain(401, "Bad credentials"),
            Some((seen, _)) => {
                let one = |id: &u64| json!({ "id": id, "app_id": 4711, "account": { "login": state.installations[id].0, "type": "Organization" }, "repository_selection": "selected" });
                // One of another app's, which is none of ours.
                let mut all: Vec<Value> = seen.iter().map(one).collect();
                all.push(json!({ "id": 99, "app_id": 1, "account": { "login": "elsewhere", "type": "User" } }));
                (200, Vec::new(), json!({ "total_count": all.len(), "installations": all }))
            }
        },
        ("GET", ["user", "installations", id, "repositories"]) => match state.users.get(request.bearer()) {
            None => plain(401, "Bad credentials"),
            Some((seen, _)) if !seen.contains(&id.parse().unwrap()) => plain(404, "Not Found"),
            Some((_, repositories)) => {
                let all: Vec<Value> = repositories
                    .iter()
                    .enumerate()
                    .map(|(number, (name, push))| json!({ "id": number + 1, "name": name.split('/').nth(1).unwrap(), "full_name": name, "private": true, "permissions": { "push": push, "pull": true } }))
                    .collect();
                (200, Vec::new(), json!({ "total_count": all.len(), "repositories": all }))
            }
        },
        ("POST", ["login", "oauth", "access_token"]) => exchange(request, state),
        ("DELETE", ["applications", CLIENT_ID, "token"]) => {
            let pair = STANDARD.encode(format!("{CLIENT_ID}:{CLIENT_SECRET}"));
            if request.header("authorization") != format!("Basic {pair}") {
                return plain(401, "Bad credentials");
            }
            let token = request.json()["access_token"].as_str().unwrap_or_default().to_owned();
            state.users.remove(&token);
            state.signed_out.push(token);
            (204, Vec::new(), Value::Null)
        }
        _ => plain(404, "Not Found"),
    }
}

/// Whether the app itself asks, now.
fn believed(request: &Request, state: &mut State) -> Result<(), Answer> {
    let now = now() + state.ahead;
    let check = || -> Result<(), String> {
        let (content, signature) = request.bearer().rsplit_once('.').ok_or("no token")?;
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|error| error.to_string());
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &state.public)
            .verify(content.as_bytes(), &decoded(signature)?)
            .map_err(|_| "A JSON web token could not be decoded")?;
        let (head, claims) = content.split_once('.').ok_or("no claims")?;
        let head: Value = serde_json::from_slice(&decoded(head)?).map_err(|error| error.to_string())?;
        let claims: Value = serde_json::from_slice(&decoded(claims)?).map_err(|error| error.to_string())?;
        let (issued, ends) = (claims["iat"].as_i64().ok_or("no iat")?, claims["exp"].as_i64().ok_or("no exp")?);
        if head["alg"] != "RS256" || claims["iss"] != APP_ID {
            return Err("another algorithm or issuer".to_owned());
        }
        if issued > now {
            return Err("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued".to_owned());
        }
        if ends > now + 600 {
            return Err("'Expiration time' claim ('exp') is too far in the future".to_owned());
        }
        if ends <= now {
            return Err("'Expiration time' claim ('exp') must be a numeric value in the future".to_owned());
        }
        Ok(())
    };
    check().map_err(|why| {
        state.unbelieved += 1;
        plain(401, &why)
    })
}

fn mint(request: &Request, state: &mut State, id: u64) -> Answer {
    if let Err(refusal) = believed(request, state) {
        return refusal;
    }
    if let Some(fault) = state.fault.as_mut().filter(|fault| fault.times > 0) {
        fault.times -= 1;
        let fault = fault.clone();
        return (fault.status, fault.headers, json!({ "message": fault.message }));
    }
    let Some((account, repositories)) = state.installations.get(&id).cloned() else { return plain(404, "Not Found") };
    let body = request.json();
    state.minted.push((id, body.clone()));
    let asked: Vec<String> = body["repositories"]
        .as_array()
        .map(|names| names.iter().map(|name| name.as_str().unwrap().to_owned()).collect())
        .unwrap_or_default();
    if asked.is_empty() {
        // GitHub would give one for everything: nobody here may ever ask for that.
        state.complaints.push(format!("a token for every repository was asked for: {body}"));
    }
    if asked.iter().any(|name| name.contains('/')) || asked.iter().any(|name| !repositories.contains(name)) {
        return plain(422, NOT_THERE);
    }
    let permissions: BTreeMap<String, String> = serde_json::from_value(body["permissions"].clone()).unwrap_or_default();
    if permissions.contains_key("administration") {
        return plain(422, "The permissions requested are not granted to this installation.");
    }
    let token = format!("ghs_{APP_ID}_{}{}", state.minted.len(), "abcdefghijklmnopqrstuvwxyz0123456789".repeat(3));
    let full: Vec<String> = asked.iter().map(|name| format!("{account}/{name}")).collect();
    let expires_at = Timestamp::from_microseconds((now() + i64::try_from(state.life.as_secs()).unwrap()) * 1_000_000);
    let given = Token { repositories: full.clone(), permissions: permissions.clone(), ends: Instant::now() + state.life, revoked: false };
    state.tokens.insert(token.clone(), given);
    let listed: Vec<Value> = full.iter().map(|name| json!({ "id": 1, "full_name": name })).collect();
    (
        201,
        Vec::new(),
        json!({ "token": token, "expires_at": expires_at.to_the_second(), "permissions": permissions, "repository_selection": "selected", "repositories": listed }),
    )
}

fn exchange(request: &Request, state: &mut State) -> Answer {
    let body = request.json();
    let of = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    if (of("client_id").as_str(), of("client_secret").as_str()) != (CLIENT_ID, CLIENT_SECRET) {
        return (200, Vec::new(), json!({ "error": "incorrect_client_credentials" }));
    }
    let bad = json!({ "error": "bad_verification_code", "error_description": "The code passed is incorrect or expired." });
    match state.codes.remove(&of("code")) {
        Some((challenge, user)) if challenge == URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier"))) => {
            (200, Vec::new(), json!({ "access_token": user, "expires_in": 28800, "token_type": "bearer" }))
        }
        _ => (200, Vec::new(), bad),
    }
}

/// Git over HTTP, by git's own program, for whoever brings a live token.
fn serve_git(request: &Request, state: &Mutex<State>, files: &Path) -> Vec<u8> {
    let refuse = |status: &str| {
        format!("HTTP/1.1 {status}\r\nWWW-Authenticate: Basic realm=\"git\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
    };
    let pair = request.header("authorization").strip_prefix("Basic ").and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    let pair = String::from_utf8(pair).unwrap_or_default();
    let Some(token) = pair.strip_prefix("x-access-token:") else { return refuse("401 Unauthorized") };
    let found = state.lock().unwrap().tokens.get(token).cloned();
    let Some(token) = found.filter(Token::is_live) else { return refuse("401 Unauthorized") };
    let name = request.path.trim_start_matches('/').split(".git/").next().unwrap_or_default().to_owned();
    if !token.repositories.contains(&name) {
        return refuse("404 Not Found");
    }
    let writes = request.path.ends_with("git-receive-pack") || request.query.contains("git-receive-pack");
    let contents = token.permissions.get("contents").map(String::as_str);
    if contents.is_none() || (writes && contents != Some("write")) {
        return refuse("403 Forbidden");
    }
    let mut command = Command::new("git");
    command.arg("http-backend").env("GIT_PROJECT_ROOT", files).env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", "token");
    command.env("PATH_INFO", &request.path).env("QUERY_STRING", &request.query).env("REQUEST_METHOD", &request.method);
    command.env("CONTENT_TYPE", request.header("content-type")).env("CONTENT_LENGTH", request.body.len().to_string());
    command.env("HTTP_CONTENT_ENCODING", request.header("content-encoding")).env("GIT_PROTOCOL", request.header("git-protocol"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut input, body) = (child.stdin.take().unwrap(), request.body.clone());
    let feeding = std::thread::spawn(move || drop(input.write_all(&body)));
    let output = child.wait_with_output().unwrap().stdout;
    feeding.join().unwrap();
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    let (head, body) = (String::from_utf8_lossy(&output[..end]).into_owned(), &output[(end + 4).min(output.len())..]);
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let others: Vec<&str> = head.lines().filter(|line| !line.starts_with("Status:")).collect();
    let mut reply =
        format!("HTTP/1.1 {status}\r\n{}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", others.join("\r\n"), body.len()).into_bytes();
    reply.extend_from_slice(body);
    reply
}
