//! One call each.

use std::time::Duration;

use serde_json::{Value, json};
use stead_client::{Client, ClientError, ListOptions, ProcessFilter, Request};
use stead_domain::ids::EnvironmentId;
use stead_domain::process::{OutputStream, ProcessStatus, StdinMode, TerminalSize};
use stead_domain::process_request::ExecRequest;
use stead_domain::signal::Signal;

use crate::house::{House, command};

fn code_of<T: std::fmt::Debug>(outcome: Result<T, ClientError>) -> (u16, String) {
    match outcome.unwrap_err() {
        ClientError::Reply { status, body } => {
            let details = body.error.details.unwrap_or_default();
            assert!(details.contains_key("suggestion") || details.contains_key("field"), "no next step: {}", body.error.message);
            (status, body.error.code)
        }
        other => panic!("{other}"),
    }
}

async fn post(client: &Client, environment: EnvironmentId, rest: &str, body: Value) -> Result<Value, ClientError> {
    let path = client.project_path(&format!("/environments/{environment}{rest}"));
    client.json(Request::post(path).json(&body).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_started_read_waited_for_and_removed() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let mut new = command(&["sleep"]);
    new.stdin = Some(StdinMode::Open);
    new.timeout = Some("1h".parse().unwrap());
    let process = client.start_process(environment, &new).await.unwrap();
    assert_eq!((process.status, process.argv.as_slice(), process.fence), (ProcessStatus::Running, &["sleep".to_owned()][..], 1));
    assert_eq!(client.get_process(environment, process.id).await.unwrap(), process);
    let still = client.wait_for_process(environment, process.id, Duration::from_millis(50)).await.unwrap();
    assert_eq!(still.status, ProcessStatus::Running);

    let waiting = client.wait_for_process(environment, process.id, Duration::from_secs(20));
    let signalling = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        house.client().signal_process(environment, process.id, Signal::TERM).await.unwrap()
    };
    let (over, _) = tokio::join!(waiting, signalling);
    let over = over.unwrap();
    assert_eq!((over.status, over.exit.as_ref().unwrap().signal), (ProcessStatus::Exited, Some(15)));
    assert_eq!(client.get_process(environment, process.id).await.unwrap(), over, "what was said is not taken back");

    let second = house.run(environment, &["sleep"]).await;
    let filter = ProcessFilter { unfinished: true, ..ProcessFilter::default() };
    let listed = client.list_processes(environment, filter, &ListOptions::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|process| process.id).collect::<Vec<_>>(), [second]);
    let options = ListOptions { limit: Some(1), cursor: None };
    let page = client.list_processes(environment, ProcessFilter::default(), &options).await.unwrap();
    assert_eq!((page.items.len(), page.has_more), (1, true));
    assert_eq!(client.delete_process(environment, second).await.unwrap().exit.unwrap().signal, Some(9));
    assert_eq!(code_of(client.get_process(environment, second).await), (404, "not_found".to_owned()));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_by_field() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    for (body, field) in [
        (json!({ "argv": [] }), "argv"),
        (json!({ "argv": "ls" }), "argv"),
        (json!({}), "argv"),
        (json!({ "argv": ["a\u{0}"] }), "argv[0]"),
        (json!({ "argv": ["x"], "env": ["A=b"] }), "env"),
        (json!({ "argv": ["x"], "env": { "1A": "b" } }), "env"),
        (json!({ "argv": ["x"], "timeout": "8d" }), "timeout"),
        (json!({ "argv": ["x"], "timeout": "200h" }), "timeout"),
        (json!({ "argv": ["x"], "terminal": { "rows": 0, "cols": 80 } }), "terminal.rows"),
        (json!({ "argv": ["x"], "terminal": { "rows": 70000, "cols": 80 } }), "terminal.rows"),
        (json!({ "argv": ["x"], "shell": true }), "shell"),
        (json!({ "argv": ["x"], "stdin": "half" }), "stdin"),
    ] {
        match post(&client, environment, "/processes", body.clone()).await.unwrap_err() {
            ClientError::Reply { status, body: error } => {
                assert_eq!((status, error.error.details.unwrap()["field"].as_str()), (400, Some(field)), "{body}");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(code_of(client.start_process(environment, &command(&["missing"])).await), (409, "program_not_found".to_owned()));
    let id = house.run(environment, &["sleep"]).await;
    let path = format!("/processes/{id}");
    for body in [json!({ "signal": 0 }), json!({ "signal": "NOPE" }), json!({})] {
        assert_eq!(code_of(post(&client, environment, &format!("{path}/signals"), body).await).0, 400);
    }
    assert_eq!(code_of(client.resize_process(environment, id, TerminalSize { rows: 1, cols: 1 }).await), (409, "conflict".to_owned()));
    assert_eq!(code_of(client.write_stdin(environment, id, 0, "x", false).await), (409, "conflict".to_owned()));
    for query in ["/logs?limit=0", "/logs?stream=both", "/logs?offset=-1", "/wait?timeout=1", "/wait?timeout=6m", "/logs?from=1"] {
        let request = Request::get(client.project_path(&format!("/environments/{environment}{path}{query}")));
        assert_eq!(code_of(client.request(request).await).0, 400, "{query}");
    }
    let request = Request::post(client.project_path(&format!("/environments/{environment}{path}/stdin")));
    assert_eq!(code_of(client.request(request.body("x")).await).0, 400, "an offset must be given");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_answered_in_the_published_shape() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let exec = |body: Value| post(&client, environment, "/exec", body);
    let reply = exec(json!({ "command": ["complain", "no"], "dir": "src", "env": ["A=b"] })).await.unwrap();
    assert_eq!(reply, json!({ "stdout": "out", "stderr": "no", "exit_code": 3 }));
    let request = ExecRequest { command: vec!["cat".to_owned()], stdin: Some("hello".to_owned()), ..ExecRequest::default() };
    assert_eq!(client.exec(environment, &request).await.unwrap().stdout, "hello");
    let path = client.project_path(&format!("/environments/{environment}/exec"));
    let flood = Request::post(&path).json(&json!({ "command": ["flood", "9"] })).unwrap().header("idempotency-key", "flood").unwrap();
    let reply = client.request(flood.clone()).await.unwrap();
    assert_eq!(reply.header("stead-truncated"), Some("stdout"));
    assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap()["stdout"].as_str().unwrap().len(), 8 << 20);
    let again = client.request(flood).await.unwrap();
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &reply.body));
    for (body, field) in [(json!({ "command": [] }), "command"), (json!({ "command": ["x"], "env": ["A"] }), "env")] {
        assert_eq!(code_of(exec(body).await), (400, "invalid_field".to_owned()), "{field}");
    }
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_read_from_any_offset_and_stdin_is_written_once() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    let mut new = command(&["cat"]);
    new.stdin = Some(StdinMode::Open);
    let id = client.start_process(environment, &new).await.unwrap().id;
    assert_eq!(client.write_stdin(environment, id, 0, "one ", false).await.unwrap(), 4);
    assert_eq!(client.write_stdin(environment, id, 0, "one ", false).await.unwrap(), 4);
    house.place().print(id, OutputStream::Stderr, &[0xff, 0xfe]);
    house.place().leave_gap(id, 100);
    assert_eq!(code_of(client.write_stdin(environment, id, 10, "x", false).await), (409, "conflict".to_owned()));
    assert_eq!(client.write_stdin(environment, id, 4, "two", true).await.unwrap(), 7);

    let all = client.read_logs(environment, id, 0, None).await.unwrap();
    assert_eq!((&all.bytes[..], all.next, all.gap.as_deref()), (&b"one \xff\xfetwo"[..], 109, Some("6-106")));
    let errors = client.read_logs(environment, id, 0, Some(OutputStream::Stderr)).await.unwrap();
    assert_eq!((&errors.bytes[..], errors.next), (&[0xff, 0xfe][..], 109));
    let rest = client.read_logs(environment, id, 106, None).await.unwrap();
    assert_eq!((&rest.bytes[..], rest.gap), (&b"two"[..], None));
    let path = client.project_path(&format!("/environments/{environment}/processes/{id}/logs?limit=3"));
    let few = client.request(Request::get(path)).await.unwrap();
    assert_eq!((&few.body[..], few.header("stead-next-offset")), (&b"one"[..], Some("3")));
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn environments_wake_sleep_and_show_their_posture() {
    let mut house = House::open().await;
    let (client, environment) = (house.client(), house.environment().await);
    client.wake_environment(environment).await.unwrap();
    house.run(environment, &["sleep"]).await;
    assert_eq!(code_of(client.sleep_environment(environment, false).await), (409, "conflict".to_owned()));
    client.sleep_environment(environment, true).await.unwrap();
    client.stop_environment(environment).await.unwrap();
    assert_eq!(house.place().slept(), [environment, environment]);
    let posture = client.get_posture(environment).await.unwrap();
    assert!(posture.fields.iter().any(|field| field.field == "sandbox.network_access"), "{posture:?}");
    client.delete_environment(environment).await.unwrap();
    assert_eq!(code_of(client.wake_environment(environment).await), (409, "environment_destroyed".to_owned()));
    house.stop().await;
}
