//! `delivery: broker` from end to end.

use serde_json::{Value, json};

use super::host::{self, Files, Host, VALUE};
use crate::api::world::expect;
use crate::support::{Server, beside};
use crate::workspaces::{Home, can_run};

/// The relay outlives servers, and is ended here by asking it.
struct RelayEnd<'a>(&'a Server);

impl Drop for RelayEnd<'_> {
    fn drop(&mut self) {
        beside::retire_relay(self.0.path());
    }
}

#[allow(clippy::print_stderr, reason = "nothing is skipped silently")]
fn not_run(what: &str) {
    eprintln!("NOT RUN: {what}");
}

/// A server whose relay believes the host, and the host.
fn world() -> Option<(Server, Host, tempfile::TempDir)> {
    let Some((name, address)) = host::own_name() else {
        not_run("this machine has no name of its own that leads to loopback");
        return None;
    };
    let scratch = tempfile::tempdir().unwrap();
    let roots = scratch.path().join("roots.pem");
    let server = Server::builder().with(&["--egress-allow", &name, "--egress-roots", &roots.display().to_string()]).start();
    if !can_run(&server) {
        return None;
    }
    let files = |port: u16| {
        let mut files = Files::new();
        files.extend(host::repository(scratch.path()));
        files.extend(host::wheel(scratch.path()));
        files.extend(host::package(scratch.path(), &format!("https://{name}:{port}")));
        files
    };
    let host = Host::start(&name, address, &roots, files);
    set(&server, VALUE);
    Some((server, host, scratch))
}

fn set(server: &Server, value: &str) {
    let reply = super::set(&server.http(), "API_TOKEN", value);
    assert!(matches!(reply.status, 200 | 201), "{}", reply.status);
}

fn spec(host: &Host, access: &str) -> Value {
    json!({
        "sandbox": {"network_access": access},
        "secret_bindings": [{"name": "API_TOKEN", "delivery": "broker", "hosts": [format!("{}:{}", host.name, host.port)]}],
    })
}

#[test]
fn programs_reach_the_host_with_what_they_do_not_have() {
    let Some((server, host, _scratch)) = world() else { return };
    let _relay = RelayEnd(&server);
    let (at, name) = (format!("{}:{}", host.name, host.port), &host.name);
    for access in ["allowlist", "enabled"] {
        let home = Home::new(&server, access, spec(&host, access));
        let has = |program: &str| {
            let found = home.shell(&format!("command -v {program}"))["exit_code"] == 0;
            if !found {
                not_run(&format!("{program} is not on this machine"));
            }
            found
        };
        let placeholder = home.works("printf %s \"$API_TOKEN\"");
        assert!(placeholder.starts_with("stp_") && !placeholder.contains(VALUE), "{placeholder}");
        let came = |what: &str| {
            let seen = std::mem::take(&mut *host.seen.lock().unwrap());
            assert!(!seen.is_empty(), "{access}: {what} did not show the value");
        };

        let echoed = home.works(&format!("curl -sSf -H \"Authorization: Bearer $API_TOKEN\" https://{at}/echo"));
        assert_eq!(echoed.trim_end(), format!("Authorization: Bearer {placeholder}"), "{access}");
        came("curl");
        home.works(&format!(
            "git clone -q https://x:$API_TOKEN@{at}/repository.git checkout-{access} && grep hello checkout-{access}/file"
        ));
        came("git");
        home.works(&format!(
            "python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request(\"https://{at}/echo\", headers={{\"Authorization\": \"Bearer \" + os.environ[\"API_TOKEN\"]}})).read())'"
        ));
        came("python");
        if has("pip3") {
            home.works(&format!(
                "pip3 download -q --disable-pip-version-check --no-deps -d wheels-{access} --index-url https://x:$API_TOKEN@{at}/simple/ stead-probe && ls wheels-{access}/*.whl"
            ));
            came("pip");
        }
        if has("node") {
            home.works(&format!(
                "node -e 'require(\"https\").get(\"https://{at}/echo\", {{headers: {{Authorization: \"Bearer \" + process.env.API_TOKEN}}}}, r => process.exit(r.statusCode == 200 ? 0 : 1))'"
            ));
            came("node");
        }
        if has("npm") {
            home.works(&format!(
                "mkdir -p npm-{access} && cd npm-{access} && echo '//{at}/npm/:_authToken=${{API_TOKEN}}' >.npmrc && \
                 npm install --silent --no-audit --no-fund --cache /tmp/npm --registry https://{at}/npm/ stead-probe && grep hello node_modules/stead-probe/m.js"
            ));
            came("npm");
        }
        if has("wget") {
            home.works(&format!("wget -q -O- --header \"Authorization: Bearer $API_TOKEN\" https://{at}/echo"));
            came("wget");
        }
        if has("java") {
            let program = format!(
                "public class Main {{ public static void main(String[] a) throws Exception {{ \
                 var c = (java.net.HttpURLConnection) new java.net.URL(\"https://{at}/echo\").openConnection(); \
                 c.setRequestProperty(\"Authorization\", \"Bearer \" + System.getenv(\"API_TOKEN\")); \
                 System.out.println(new String(c.getInputStream().readAllBytes())); }} }}"
            );
            home.works(&format!("cat >Main.java <<'EOF'\n{program}\nEOF\njava Main.java"));
            came("java");
        }
        if has("go") {
            let program = format!(
                "package main\nimport (\"net/http\"; \"os\")\nfunc main() {{ q, _ := http.NewRequest(\"GET\", \"https://{at}/echo\", nil); \
                 q.Header.Set(\"Authorization\", \"Bearer \" + os.Getenv(\"API_TOKEN\")); \
                 r, e := http.DefaultClient.Do(q); if e != nil {{ panic(e) }}; if r.StatusCode != 200 {{ os.Exit(1) }} }}"
            );
            home.works(&format!("cat >main.go <<'EOF'\n{program}\nEOF\nGOCACHE=/tmp/go go run main.go"));
            came("go");
        }
        // Nowhere else than where it is bound.
        let refused =
            home.works(&format!("curl -sS -o /dev/null -w '%{{http_code}}' -H \"X-Other: $API_TOKEN\" \"https://{at}/echo?x=$API_TOKEN\""));
        assert_eq!(refused, "401");
        assert!(host.refused.lock().unwrap().iter().all(|head| !head.contains(VALUE)), "nor did anything else show it");

        let egress = expect(&home.http.get(&home.path("/egress?limit=200")), 200);
        let brokered = egress["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|entry| entry["decision"] == "brokered" && entry["host"] == *name && entry["secrets"] == json!(["API_TOKEN"]));
        assert!(brokered && !egress.to_string().contains(VALUE), "{egress}");
    }
}

/// Looks through the memory of everything inside that lets itself be read, and through what the kernel says of it. The value comes to it
/// from the end to the front, so that it is not itself what it finds.
const SEARCH: &str = r#"
import glob, os, re, subprocess, sys
value = sys.argv[1][::-1].encode()
helper = subprocess.Popen(["sleep", "600"])
found = []
for path in glob.glob("/proc/[0-9]*"):
    for name in ["environ", "cmdline"]:
        try:
            if value in open(f"{path}/{name}", "rb").read(): found.append(f"{path}/{name}")
        except OSError: pass
    try:
        for line in open(f"{path}/maps"):
            start, end, rights = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
            if "r" not in rights or path == f"/proc/{os.getpid()}": continue
            memory = open(f"{path}/mem", "rb", 0)
            memory.seek(int(start, 16))
            if value in memory.read(int(end, 16) - int(start, 16)): found.append(f"{path}/mem")
    except (OSError, ValueError, OverflowError): pass
helper.kill()
for top in ["/tmp", "/run", "/workspace", "/home", "/runtime"]:
    for directory, _, names in os.walk(top):
        for name in names:
            try:
                if value in open(os.path.join(directory, name), "rb").read(): found.append(os.path.join(directory, name))
            except OSError: pass
print(found)
"#;

#[test]
fn the_value_is_nowhere_in_the_place() {
    let Some((server, host, _scratch)) = world() else { return };
    let _relay = RelayEnd(&server);
    let at = format!("{}:{}", host.name, host.port);
    let mut definition = spec(&host, "allowlist");
    definition["sandbox"]["allow_ptrace"] = json!(true);
    let home = Home::new(&server, "web", definition);
    home.works(&format!(
        "curl -sSf -v -H \"Authorization: Bearer $API_TOKEN\" https://{at}/echo >said 2>&1; env >variables; set >>variables"
    ));
    // A process with everything that it was told still in its memory, which ends with a core.
    let keeps = format!(
        "import os, urllib.request as u; r = u.urlopen(u.Request(\"https://{at}/echo\", headers={{\"Authorization\": \"Bearer \" + os.environ[\"API_TOKEN\"]}})); kept = r.read(); print(kept, flush=True); import time; time.sleep(600)"
    );
    let started = expect(&home.http.post(&home.path("/processes"), json!({"argv": ["python3", "-c", keeps]})), 201);
    let id = started["id"].as_str().unwrap().to_owned();
    let logs = || String::from_utf8_lossy(&home.http.get(&home.path(&format!("/processes/{id}/logs"))).body).into_owned();
    let begun = std::time::Instant::now();
    while !logs().contains("stp_") {
        assert!(begun.elapsed().as_secs() < 30, "{}", logs());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let reversed: String = VALUE.chars().rev().collect();
    let searched = expect(&home.http.post(&home.path("/exec"), json!({"command": ["python3", "-c", SEARCH, reversed]})), 200);
    assert_eq!(searched["stdout"], "[]\n", "{searched}");
    assert_eq!(searched["exit_code"], 0, "{searched}");
    // The search finds what is there: the placeholder.
    let placeholder = home.works("printf %s \"$API_TOKEN\"");
    let reversed: String = placeholder.chars().rev().collect();
    let searched = expect(&home.http.post(&home.path("/exec"), json!({"command": ["python3", "-c", SEARCH, reversed]})), 200);
    let found = searched["stdout"].as_str().unwrap();
    assert!(found.contains("/environ") && found.contains("/mem") && found.contains("/workspace/said"), "{searched}");
    let dumped =
        home.shell("ulimit -c unlimited; cd /tmp; sh -c 'kill -SEGV $$'; ls core* 2>/dev/null && grep -l battery-staple core* ; true");
    assert!(!dumped["stdout"].as_str().unwrap().contains(VALUE), "{dumped}");
}

#[test]
fn what_changes_holds_for_the_next_request() {
    let Some((server, host, _scratch)) = world() else { return };
    let _relay = RelayEnd(&server);
    let at = format!("{}:{}", host.name, host.port);
    let home = Home::new(&server, "web", spec(&host, "allowlist"));
    let ask =
        || home.works(&format!("curl -sS -o /dev/null -w '%{{http_code}}' -H \"Authorization: Bearer $API_TOKEN\" https://{at}/echo"));
    assert_eq!(ask(), "200");
    set(&server, "something-else-entirely");
    assert_eq!(ask(), "401", "another value");
    set(&server, VALUE);
    assert_eq!(ask(), "200");
    // The caller's own variables win, and the system's bundle is believed without any.
    let bare =
        home.works(&format!("env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sSf -H \"Authorization: Bearer $API_TOKEN\" https://{at}/echo"));
    assert!(bare.contains("stp_"), "{bare}");
    let own = json!({"command": ["sh", "-c", "echo $CURL_CA_BUNDLE $SSL_CERT_FILE"], "env": ["CURL_CA_BUNDLE=/mine"]});
    let said = expect(&home.http.post(&home.path("/exec"), own), 200);
    assert_eq!(said["stdout"], "/mine /run/stead-trust/ca-certificates.crt\n");
    // Without the binding nothing is intercepted, and the host's own certificate is nobody's that the place knows.
    expect(&home.http.patch(&home.path(""), json!({"spec": {"secret_bindings": [], "sandbox": {"allowed_hosts": [at]}}})), 200);
    let left = home.shell(&format!("curl -sS https://{at}/echo; test ! -e /run/stead-trust && echo gone"));
    let (said, trouble) = (left["stdout"].as_str().unwrap(), left["stderr"].as_str().unwrap());
    assert!(said.ends_with("gone\n") && trouble.contains("certificate"), "{left}");
}

/// A system of its own replaces its bundle when packages do, and its programs are told by variables where the other one is.
#[test]
fn a_system_of_its_own_believes_by_its_variables() {
    let Some((server, host, _scratch)) = world() else { return };
    let _relay = RelayEnd(&server);
    let at = format!("{}:{}", host.name, host.port);
    let mut definition = spec(&host, "allowlist");
    definition["sandbox"]["package_policy"] = json!("system");
    let made = server.http().post(crate::api::world::ENVIRONMENTS, json!({"name": "probe-system", "spec": definition}));
    if made.status == 409 {
        return not_run(&format!("no system of its own can be made here: {}", made.json()));
    }
    let home = Home::new(&server, "system", definition);
    let bundle = "/etc/ssl/certs/ca-certificates.crt";
    let echoed = home.works(&format!(
        "cp {bundle} {bundle}.new && mv {bundle}.new {bundle} && curl -sSf -H \"Authorization: Bearer $API_TOKEN\" https://{at}/echo"
    ));
    assert!(echoed.contains("stp_") && !echoed.contains(VALUE), "{echoed}");
}
