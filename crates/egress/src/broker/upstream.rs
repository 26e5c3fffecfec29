//! The HTTP connection to the host: one for each connection of the place, as if nobody stood between.

use std::pin::Pin;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::body::{AnyBody, Failure};
use super::limits;
use crate::reason::Reason;
use crate::relay::stream::Stream;

/// Tasks of one connection. They end with it.
#[derive(Clone)]
pub struct Tasks {
    pub tracker: TaskTracker,
    pub stop: CancellationToken,
}

impl<F> Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, work: F) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move { stop.run_until_cancelled(work).await.is_some() });
    }
}

/// Where requests go.
pub enum Sender {
    One(Mutex<http1::SendRequest<AnyBody>>),
    Two(http2::SendRequest<AnyBody>),
    /// There is no connection, and every request is told why.
    Refused(Reason),
}

/// Has to be polled for requests to get anywhere; ends with the connection.
pub type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Sender {
    pub async fn connect(stream: impl Stream + 'static, version: Version, tasks: Tasks) -> Result<(Self, Driver), Reason> {
        let io = TokioIo::new(stream);
        if version == Version::HTTP_2 {
            let mut builder = http2::Builder::new(tasks);
            builder.timer(TokioTimer::new()).max_header_list_size(limits::HEAD as u32).max_send_buf_size(limits::BUFFER);
            builder.initial_stream_window_size(limits::STREAM_WINDOW).initial_connection_window_size(limits::CONNECTION_WINDOW);
            let (sender, connection) = builder.handshake(io).await.map_err(|_| Reason::UpstreamBroken)?;
            return Ok((Self::Two(sender), Box::pin(async { drop(connection.await) })));
        }
        let mut builder = http1::Builder::new();
        builder.preserve_header_case(true).max_headers(limits::FIELDS).max_buf_size(limits::BUFFER);
        let (sender, connection) = builder.handshake(io).await.map_err(|_| Reason::UpstreamBroken)?;
        Ok((Self::One(Mutex::new(sender)), Box::pin(async { drop(connection.with_upgrades().await) })))
    }

    pub fn version(&self) -> Version {
        if matches!(self, Self::Two(_)) { Version::HTTP_2 } else { Version::HTTP_11 }
    }

    pub async fn send(&self, request: Request<AnyBody>) -> Result<Response<Incoming>, Failure> {
        match self {
            Self::One(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                // The lock is held until the head of the reply is there: what comes next waits for its end by itself.
                Ok(sender.send_request(request).await?)
            }
            Self::Two(sender) => {
                let mut sender = sender.clone();
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Self::Refused(reason) => Err((*reason).into()),
        }
    }
}
