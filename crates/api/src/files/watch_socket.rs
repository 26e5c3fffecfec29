//! What changes, over a WebSocket.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use stead_app::Entered;
use stead_app::files::FileWatch;
use stead_domain::file_watch::FileEvent;
use stead_domain::principal::Role;

use super::watch::SIGN_OF_LIFE;
use crate::State;
use crate::listen::Seat;

/// `seat` is what the connection takes up, until it ends.
pub fn open(upgrade: WebSocketUpgrade, state: State, entered: Entered, watch: FileWatch, seat: Option<Arc<Seat>>) -> Response {
    upgrade.on_upgrade(move |socket| async move {
        hold(socket, watch, &state, &entered).await;
        drop(seat);
    })
}

async fn hold(mut socket: WebSocket, mut watch: FileWatch, state: &State, entered: &Entered) {
    let mut alive = tokio::time::interval(SIGN_OF_LIFE);
    alive.tick().await;
    let (code, text) = loop {
        let sent = tokio::select! {
            () = state.stopping.cancelled() => break (close_code::AWAY, "the server ends".to_owned()),
            told = watch.next() => match told {
                Ok(None) => break (close_code::NORMAL, String::new()),
                Ok(Some(events)) => send(&mut socket, &events).await,
                Err(error) => break (close_code::ERROR, error.message().to_owned()),
            },
            message = socket.recv() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                // Nothing is asked here.
                Some(Ok(_)) => Ok(()),
            },
            _ = alive.tick() => match state.app.may_still(entered, Role::Member).await {
                Ok(()) => socket.send(Message::Ping(Vec::new().into())).await,
                Err(error) => break (close_code::POLICY, error.message().to_owned()),
            },
        };
        if sent.is_err() {
            return;
        }
    };
    // A close frame has room for little more than a hundred bytes.
    let reason: String = text.chars().take(30).collect();
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}

async fn send(socket: &mut WebSocket, events: &[FileEvent]) -> Result<(), axum::Error> {
    for event in events {
        let text = serde_json::to_string(event).map_err(axum::Error::new)?;
        socket.send(Message::Text(text.into())).await?;
    }
    Ok(())
}
