//! A vault that stands for HashiCorp's and OpenBao's: it answers the calls of KV version 2, of AppRole and of tokens as theirs do, which their
//! own client for Python, hvac, is asked to confirm.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::api::world::{at, create, expect, refused};
use crate::support::{Http, Reply, Server};

const ROOT: &str = "hvs.root-token-of-the-test";
const VALUE: &str = "vaulted-horse-battery";

#[derive(Default)]
struct State {
    secrets: BTreeMap<String, Vec<Option<Value>>>,
    /// Tokens, and how many calls each is still good for.
    tokens: HashMap<String, u32>,
    logins: u32,
    sealed: bool,
    redirect: Option<String>,
    seen: Vec<String>,
    uses: u32,
}

struct StandIn {
    address: String,
    state: Arc<Mutex<State>>,
}

impl StandIn {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { uses: 1000, ..State::default() }));
        state.lock().unwrap().tokens.insert(ROOT.to_owned(), u32::MAX);
        let kept = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&kept);
                std::thread::spawn(move || serve(&stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn put(&self, path: &str, data: Value) {
        self.state().secrets.entry(path.to_owned()).or_default().push(Some(data));
    }
}

/// Any number of requests of one connection.
fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut input = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let (mut headers, mut length, mut close) = (HashMap::new(), 0, false);
        loop {
            let mut header = String::new();
            input.read_line(&mut header).unwrap();
            let Some((name, value)) = header.trim_end().split_once(": ") else { break };
            let name = name.to_lowercase();
            length = if name == "content-length" { value.parse().unwrap() } else { length };
            close |= name == "connection" && value.eq_ignore_ascii_case("close");
            headers.insert(name, value.to_owned());
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).unwrap();
        let (status, location, reply) = answer(&mut state.lock().unwrap(), &method, &path, &headers, &body);
        let text = if reply.is_null() { String::new() } else { reply.to_string() };
        let location = location.map(|to| format!("Location: {to}\r\n")).unwrap_or_default();
        let head = format!("HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\n{location}Content-Length: {}\r\n\r\n", text.len());
        let mut output = stream;
        if output.write_all(format!("{head}{text}").as_bytes()).is_err() || close {
            return;
        }
    }
}

type Answer = (u16, Option<String>, Value);

fn answer(state: &mut State, method: &str, path: &str, headers: &HashMap<String, String>, body: &[u8]) -> Answer {
    let plain = |status: u16, body: Value| (status, None, body);
    let errors = |status: u16, text: &[&str]| (status, None, json!({ "errors": text }));
    state.seen.push(format!("{method} {path} {}", headers.get("x-vault-namespace").map_or("", String::as_str)));
    if path == "/v1/sys/seal-status" {
        return plain(
            200,
            json!({ "type": "shamir", "initialized": true, "sealed": state.sealed, "t": 1, "n": 1, "progress": 0, "version": "1.20.0" }),
        );
    }
    if path == "/v1/sys/init" {
        return plain(200, json!({ "initialized": true }));
    }
    if let Some(to) = &state.redirect {
        return (307, Some(format!("{to}{path}")), Value::Null);
    }
    if state.sealed {
        return errors(503, &["Vault is sealed"]);
    }
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    if path == "/v1/auth/approle/login" {
        if body["role_id"] != "role-of-stead" || body["secret_id"] != "secret-id-of-stead" {
            return errors(400, &["invalid role or secret ID"]);
        }
        state.logins += 1;
        let token = format!("hvs.had-for-a-role-{}", state.logins);
        let uses = state.uses;
        state.tokens.insert(token.clone(), uses);
        let auth = json!({ "client_token": token, "accessor": "a", "policies": ["default"], "token_policies": ["default"], "lease_duration": 3600, "renewable": true, "token_type": "service" });
        return plain(
            200,
            json!({ "request_id": "r", "lease_id": "", "renewable": false, "lease_duration": 0, "data": null, "wrap_info": null, "warnings": null, "auth": auth }),
        );
    }
    let token = headers.get("x-vault-token").cloned().unwrap_or_default();
    match state.tokens.get_mut(&token) {
        Some(left) if *left > 0 => *left -= 1,
        _ => return errors(403, &["permission denied"]),
    }
    if path == "/v1/auth/token/lookup-self" {
        return plain(200, json!({ "data": { "id": token, "ttl": 3600, "policies": ["root"] } }));
    }
    let Some(name) = path.strip_prefix("/v1/secret/data/") else { return errors(404, &["no handler for route"]) };
    if name.starts_with("forbidden/") {
        return errors(403, &["1 error occurred:\n\t* permission denied\n\n"]);
    }
    let versions = state.secrets.entry(name.to_owned()).or_default();
    let meta = |version: usize, gone: bool| json!({ "created_time": "2026-01-01T00:00:00Z", "custom_metadata": null, "deletion_time": if gone { "2026-01-02T00:00:00Z" } else { "" }, "destroyed": false, "version": version });
    match method {
        "GET" => match versions.last() {
            None => errors(404, &[]),
            Some(None) => plain(404, json!({ "data": { "data": null, "metadata": meta(versions.len(), true) } })),
            Some(Some(data)) => plain(
                200,
                json!({ "request_id": "r", "data": { "data": data, "metadata": meta(versions.len(), false) }, "warnings": null }),
            ),
        },
        "POST" | "PUT" => {
            versions.push(Some(body["data"].clone()));
            plain(200, json!({ "data": meta(versions.len(), false) }))
        }
        "DELETE" => {
            versions.push(None);
            plain(204, Value::Null)
        }
        _ => errors(405, &["unsupported operation"]),
    }
}

/// hvac is what the makers' own users speak to a vault with: what it takes for one is one.
#[test]
fn the_stand_in_is_a_vault_to_its_official_client() {
    let library = tempfile::TempDir::new().unwrap();
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(library.path()).arg("hvac>=2.3,<3");
    let installed = install.output();
    if !installed.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("not run: hvac cannot be installed here");
        return;
    }
    let vault = StandIn::start();
    let script = format!(
        r#"
import hvac, hvac.exceptions
client = hvac.Client(url="{address}", token="{ROOT}")
assert client.is_authenticated() and client.sys.is_initialized() and not client.sys.is_sealed()
kv = client.secrets.kv.v2
assert kv.create_or_update_secret(path="default/V_KEY", secret={{"value": "{VALUE}"}})["data"]["version"] == 1
read = kv.read_secret_version(path="default/V_KEY", raise_on_deleted_version=True)
assert read["data"]["data"]["value"] == "{VALUE}" and read["data"]["metadata"]["version"] == 1
for path, error in [("default/NONE", hvac.exceptions.InvalidPath), ("forbidden/X", hvac.exceptions.Forbidden)]:
    try:
        kv.read_secret_version(path=path, raise_on_deleted_version=True)
        raise SystemExit("no error for " + path)
    except error:
        pass
role = hvac.Client(url="{address}")
assert role.auth.approle.login(role_id="role-of-stead", secret_id="secret-id-of-stead")["auth"]["lease_duration"] == 3600
assert role.secrets.kv.v2.read_secret_version(path="default/V_KEY", raise_on_deleted_version=True)["data"]["data"]["value"] == "{VALUE}"
try:
    role.auth.approle.login(role_id="role-of-stead", secret_id="wrong")
    raise SystemExit("a wrong secret id is taken")
except hvac.exceptions.InvalidRequest:
    pass
kv.delete_latest_version_of_secret(path="default/V_KEY")
try:
    kv.read_secret_version(path="default/V_KEY", raise_on_deleted_version=True)
    raise SystemExit("a deleted version is read")
except hvac.exceptions.InvalidPath:
    pass
print("fine")
"#,
        address = vault.address
    );
    let output = Command::new("python3").args(["-c", &script]).env("PYTHONPATH", library.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "fine", "{}", String::from_utf8_lossy(&output.stderr));
}

struct House {
    vault: StandIn,
    _files: tempfile::TempDir,
    server: Server,
    environment: Value,
}

impl House {
    /// A server whose secrets of the prefix `V_` are in the vault.
    fn new(rule: &str) -> Self {
        let vault = StandIn::start();
        let files = tempfile::TempDir::new().unwrap();
        let at = |name: &str| files.path().join(name);
        std::fs::write(at("token"), format!("{ROOT}\n")).unwrap();
        std::fs::write(at("secret-id"), "secret-id-of-stead\n").unwrap();
        let rule = rule.replace("FILES", files.path().to_str().unwrap());
        let config = format!("[[secret_sources]]\nkind = 'vault'\nprefix = 'V_'\naddress = '{}'\n{rule}\n", vault.address);
        std::fs::write(at("stead.toml"), config).unwrap();
        let server = Server::builder().with(&["--config", at("stead.toml").to_str().unwrap()]).start();
        let spec = json!({ "secret_bindings": [{ "name": "V_KEY" }, { "name": "V_NICE", "required": false }] });
        let environment = create(&server.http(), json!({ "name": "web", "spec": spec }));
        Self { vault, _files: files, server, environment }
    }

    fn http(&self) -> Http {
        self.server.http()
    }

    fn start(&self, argv: &[&str]) -> Reply {
        self.http().post(&format!("{}/processes", at(&self.environment)), json!({ "argv": argv }))
    }

    /// What a process has got, moved on by one letter so that nobody takes it for the value.
    fn shifted(&self) -> String {
        let command = json!({ "command": ["sh", "-c", "printf %s \"$V_KEY\" | tr a-y b-z"] });
        let reply = expect(&self.http().post(&format!("{}/exec", at(&self.environment)), command), 200);
        reply["stdout"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
    }

    /// How a start fails that needs the vault; never with a token or a value.
    fn failure(&self) -> String {
        let reply = self.start(&["true"]);
        refused(&reply, 502, "secret_unavailable");
        let told = format!("{} {}", String::from_utf8_lossy(&reply.body), self.server.log());
        assert!(!told.contains("hvs.") && !told.contains(VALUE) && !told.contains("secret-id-of"), "{told}");
        reply.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

fn shifted(text: &str) -> String {
    text.chars().map(|letter| if ('a'..='y').contains(&letter) { char::from(letter as u8 + 1) } else { letter }).collect()
}

#[test]
fn a_process_gets_what_the_vault_holds_now() {
    let house = House::new("namespace = 'team-a'\ntoken_file = 'FILES/token'");
    let missing = refused(&house.start(&["true"]), 409, "secret_missing");
    let place = missing["source"].as_str().unwrap();
    assert!(place.starts_with("`secret/data/default/V_KEY`, field `value`, of the vault http://127.0.0.1:"), "{place}");
    house.vault.put("default/V_KEY", json!({ "value": VALUE }));
    assert_eq!(house.shifted(), shifted(VALUE));
    house.vault.put("default/V_KEY", json!({ "value": "rotated-horse-battery" }));
    assert_eq!(house.shifted(), shifted("rotated-horse-battery"), "the next process gets the next value");
    let begun = expect(&house.start(&["true"]), 201);
    let warning = begun["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("the optional secret V_NICE is not there: `secret/data/default/V_NICE`"), "{warning}");
    assert!(house.vault.state().seen.iter().any(|seen| seen == "GET /v1/secret/data/default/V_KEY team-a"));
    assert_eq!(expect(&house.http().get(&at(&house.environment)), 200)["contains_secrets"], true);
    assert!(!house.server.log().contains("battery"));
}

#[test]
fn what_is_wrong_with_a_vault_is_told_apart() {
    let house = House::new("token_file = 'FILES/token'");
    house.vault.put("default/V_KEY", json!({ "value": 7, "other": VALUE }));
    assert!(house.failure().ends_with("is no text"));
    house.vault.put("default/V_KEY", json!({ "other": VALUE }));
    assert!(house.failure().ends_with("`secret/data/default/V_KEY` has no field `value`"));
    house.vault.put("default/V_KEY", json!({ "value": "x".repeat(65_537) }));
    assert!(house.failure().ends_with("is longer than 65536 bytes"));
    house.vault.put("default/V_KEY", json!({ "value": "x".repeat(2 << 20) }));
    assert!(house.failure().contains("answered with more than 1048576 bytes"));
    house.vault.state().sealed = true;
    assert!(house.failure().ends_with("it is sealed"));
    house.vault.state().sealed = false;
    house.vault.state().tokens.clear();
    assert!(house.failure().ends_with("it does not let us read `secret/data/default/V_KEY`"));
    // A standby sends us elsewhere: the token does not go there.
    let elsewhere = StandIn::start();
    house.vault.state().redirect = Some(elsewhere.address.clone());
    assert!(house.failure().contains("stands by and sends us to http://127.0.0.1:"));
    assert!(elsewhere.state().seen.is_empty(), "the token went to another host");
    let other = House::new("token_file = 'FILES/token'\nmount = 'nowhere'");
    assert!(other.failure().contains("nothing that keeps secrets is mounted"));
    let unread = House::new("token_file = '/nowhere/token'");
    assert!(unread.failure().contains("the token in /nowhere/token cannot be read"));
}

#[test]
fn a_role_logs_in_once_and_again_when_its_token_has_ended() {
    let house = House::new("role_id = 'role-of-stead'\nsecret_id_file = 'FILES/secret-id'\npath = 'all/{project}'\nfield = '{name}'");
    house.vault.put("all/default", json!({ "V_KEY": VALUE, "V_NICE": "nice-to-have" }));
    for _ in 0..3 {
        assert_eq!(house.shifted(), shifted(VALUE));
    }
    assert_eq!(house.vault.state().logins, 1);
    // Revoked behind our back.
    house.vault.state().tokens.retain(|token, _| token == ROOT);
    assert_eq!(house.shifted(), shifted(VALUE));
    assert_eq!(house.vault.state().logins, 2);
    let refused_role = House::new("role_id = 'another-role'\nsecret_id_file = 'FILES/secret-id'");
    assert!(refused_role.failure().ends_with("it does not take the role id and the secret id"));
}

#[test]
fn a_standby_is_followed_to_where_the_rule_says() {
    let active = StandIn::start();
    active.put("default/V_KEY", json!({ "value": VALUE }));
    let house = House::new(&format!("token_file = 'FILES/token'\nstandby_addresses = ['{}']", active.address));
    house.vault.state().redirect = Some(active.address);
    assert_eq!(house.shifted(), shifted(VALUE));
}
