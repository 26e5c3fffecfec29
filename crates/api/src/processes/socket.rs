//! A WebSocket on the output of a process: one connection is enough for an interactive shell.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use stead_app::processes::OutputReader;
use stead_app::{App, Entered};
use stead_domain::error::parse_json;
use stead_domain::ids::{EnvironmentId, ProcessId};
use stead_domain::principal::{Caller, Role};
use stead_domain::process_request::{InputEvent, OutputEvent};
use stead_domain::{Code, Error, Result};
use tokio_util::sync::CancellationToken;

use super::frames::{bytes_of, events_of};
use super::logs::{PIECE, SIGN_OF_LIFE};
use crate::listen::Seat;
use crate::{State, body};

/// `seat` is what the connection takes up, until it ends.
pub fn open(
    upgrade: WebSocketUpgrade,
    state: State,
    entered: Entered,
    reader: OutputReader,
    of: (EnvironmentId, ProcessId),
    seat: Option<Arc<Seat>>,
) -> Response {
    let conversation = Conversation { app: state.app, entered, of };
    let stopping = state.stopping;
    // Base64 makes a third more of what it holds.
    upgrade.max_message_size(body::LARGEST * 2).on_upgrade(move |socket| async move {
        conversation.hold(socket, reader, stopping).await;
        drop(seat);
    })
}

struct Conversation {
    app: App,
    entered: Entered,
    of: (EnvironmentId, ProcessId),
}

impl Conversation {
    async fn hold(self, mut socket: WebSocket, mut reader: OutputReader, stopping: CancellationToken) {
        let mut alive = tokio::time::interval(SIGN_OF_LIFE);
        alive.tick().await;
        let reason = loop {
            let sent = tokio::select! {
                () = stopping.cancelled() => break (close_code::AWAY, "the server ends".to_owned()),
                piece = reader.next(PIECE) => match piece {
                    Ok(None) => break (close_code::NORMAL, String::new()),
                    Ok(Some(piece)) => send(&mut socket, events_of(piece, reader.offset()).into_iter().map(|(_, event)| event)).await,
                    Err(error) => break (close_code::ERROR, error.message().to_owned()),
                },
                message = socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => send(&mut socket, self.hear(text.as_bytes()).await).await,
                    Some(Ok(Message::Binary(bytes))) => send(&mut socket, self.hear(&bytes).await).await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                },
                _ = alive.tick() => match self.app.may_still(&self.entered, Role::Viewer).await {
                    Ok(()) => socket.send(Message::Ping(Vec::new().into())).await,
                    Err(error) => break (close_code::POLICY, error.message().to_owned()),
                },
            };
            if sent.is_err() {
                return;
            }
        };
        let (code, text) = reason;
        // A close frame has room for little more than a hundred bytes.
        let reason: String = text.chars().take(30).collect();
        let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    }

    /// Does what a message asks for; an answer when there is one.
    async fn hear(&self, message: &[u8]) -> Option<OutputEvent> {
        match self.obey(message).await {
            Ok(answer) => answer,
            Err(error) => Some(OutputEvent::Refused { code: error.code().to_string(), message: error.message().to_owned() }),
        }
    }

    async fn obey(&self, message: &[u8]) -> Result<Option<OutputEvent>> {
        let event: InputEvent = parse_json(message)?;
        let (environment, id) = self.of;
        // The door let a reader in. Whoever writes needs more, and needs it still.
        if !self.entered.role.covers(Role::Member) {
            return Err(Error::new(Code::Forbidden, "this needs the role `member`; as a viewer you can only read"));
        }
        self.app.may_still(&self.entered, Role::Member).await?;
        match event {
            InputEvent::Stdin { offset, data, encoding, end } => {
                let bytes = bytes_of(&data, encoding)?;
                let written = self.app.write_stdin(&self.entered, environment, id, offset, &bytes, end).await?;
                return Ok(Some(OutputEvent::Stdin { offset: written.offset }));
            }
            InputEvent::Signal(signal) => {
                let caller = Caller { let_into: Some((self.entered.project, Role::Member)), ..self.entered.caller.clone() };
                let entered = Entered { caller, ..self.entered.clone() };
                self.app.send_signal(&entered, environment, id, signal).await?;
            }
            InputEvent::Resize(size) => drop(self.app.resize_process(&self.entered, environment, id, size).await?),
        }
        Ok(None)
    }
}

async fn send(socket: &mut WebSocket, events: impl IntoIterator<Item = OutputEvent>) -> Result<(), axum::Error> {
    for event in events {
        let text = serde_json::to_string(&event).map_err(axum::Error::new)?;
        socket.send(Message::Text(text.into())).await?;
    }
    Ok(())
}
