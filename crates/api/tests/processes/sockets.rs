//! One WebSocket is enough for an interactive shell.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::principal::Role;
use stead_domain::process::{OutputStream, TerminalSize};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::house::{House, command};

type Socket = WebSocketStream<UnixStream>;

async fn connect(house: &House, environment: EnvironmentId, id: ProcessId, key: Option<&str>) -> Socket {
    let url = format!("ws://localhost/v1/projects/default/environments/{environment}/processes/{id}/logs");
    let mut request = url.into_client_request().unwrap();
    if let Some(key) = key {
        request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    }
    client_async(request, UnixStream::connect(house.socket()).await.unwrap()).await.unwrap().0
}

async fn say(socket: &mut Socket, message: Value) {
    socket.send(Message::Text(message.to_string().into())).await.unwrap();
}

/// The next text message; none when the server closes.
async fn hear(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(Duration::from_secs(20), socket.next()).await.unwrap() {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_))) | None => return None,
            Some(Ok(_)) => {}
            Some(Err(error)) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_needs_one_connection() {
    let mut house = House::open().await;
    let environment = house.environment().await;
    let mut new = command(&["cat"]);
    new.terminal = Some(TerminalSize { rows: 24, cols: 80 });
    let key = house.key(Role::Member).await;
    // Whoever started it holds the environment for as long as it runs: nobody else types into it.
    let id = house.client_as(Some(&key)).start_process(environment, &new).await.unwrap().id;
    let mut stranger = connect(&house, environment, id, None).await;
    say(&mut stranger, json!({ "stdin": { "offset": 0, "data": "x", "encoding": "utf-8" } })).await;
    assert_eq!(hear(&mut stranger).await.unwrap()["refused"]["code"], "lease_held");
    let mut socket = connect(&house, environment, id, Some(&key)).await;
    say(&mut socket, json!({ "stdin": { "offset": 0, "data": "aGkK", "encoding": "base64" } })).await;
    let mut heard = [hear(&mut socket).await.unwrap(), hear(&mut socket).await.unwrap()];
    heard.sort_by_key(|message| message.get("stdin").is_none());
    assert_eq!(heard[0], json!({ "stdin": { "offset": 3 } }));
    assert_eq!(heard[1], json!({ "stream": "stdout", "offset": 0, "data": "hi\n", "encoding": "utf-8" }));
    say(&mut socket, json!({ "resize": { "rows": 50, "cols": 100 } })).await;
    say(&mut socket, json!({ "stdin": { "offset": 9, "data": "x", "encoding": "utf-8" } })).await;
    assert_eq!(hear(&mut socket).await.unwrap()["refused"]["code"], "conflict");
    assert_eq!(house.place().size_of(id), Some(TerminalSize { rows: 50, cols: 100 }));
    say(&mut socket, json!({ "dance": true })).await;
    assert_eq!(hear(&mut socket).await.unwrap()["refused"]["code"], "invalid_field");
    say(&mut socket, json!({ "signal": "INT" })).await;
    assert_eq!(hear(&mut socket).await.unwrap()["exit"]["signal"], 2);
    assert_eq!(hear(&mut socket).await, None, "and then it is closed");
    house.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_reads_and_does_nothing_else() {
    let mut house = House::open().await;
    let environment = house.environment().await;
    let id = house.run(environment, &["sleep"]).await;
    let key = house.key(Role::Viewer).await;
    let mut socket = connect(&house, environment, id, Some(&key)).await;
    house.place().print(id, OutputStream::Stdout, b"seen");
    assert_eq!(hear(&mut socket).await.unwrap()["data"], "seen");
    for message in [json!({ "signal": 9 }), json!({ "stdin": { "offset": 0, "data": "x", "encoding": "utf-8" } })] {
        say(&mut socket, message).await;
        assert_eq!(hear(&mut socket).await.unwrap()["refused"]["code"], "forbidden");
    }
    assert!(house.place().exit_of(id).is_none());
    // The server ends, and the conversation with it.
    let stopping = tokio::time::timeout(Duration::from_secs(5), house.stop());
    let (ended, last) = tokio::join!(stopping, hear(&mut socket));
    assert!(ended.is_ok() && last.is_none());
}
