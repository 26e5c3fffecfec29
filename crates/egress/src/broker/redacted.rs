//! Bodies of replies: values become placeholders again, and nothing waits longer than it must.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use stead_redaction::Redactor;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::body::{AnyBody, Failure};
use super::message::redact_headers;
use super::secrets::Broker;

/// How long the end of what came is held back, when it may be the beginning of a value and nothing more comes.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// How much of a value may be shown by that.
pub const SHOWN: usize = 3;

pub struct Redacted {
    inner: Incoming,
    redactor: Redactor,
    broker: Arc<Broker>,
    ready: VecDeque<Frame<Bytes>>,
    ended: bool,
    idle: Option<Pin<Box<Sleep>>>,
}

impl Redacted {
    pub fn new(inner: Incoming, broker: Arc<Broker>) -> Self {
        let redactor = Redactor::new(broker.known.clone());
        Self { inner, redactor, broker, ready: VecDeque::new(), ended: false, idle: None }
    }

    /// A short body that comes at once is told with its length; any other goes on as it comes.
    pub async fn at_once(mut self, patience: Duration) -> Result<AnyBody, Failure> {
        let mut frames = VecDeque::new();
        let deadline = Instant::now() + patience;
        loop {
            match timeout_at(deadline, self.frame()).await {
                Ok(Some(frame)) => frames.push_back(frame?),
                Ok(None) if frames.iter().all(Frame::is_data) => {
                    let data = frames.into_iter().filter_map(|frame| frame.into_data().ok());
                    let whole: Vec<u8> = data.flatten().collect();
                    return Ok(Full::new(Bytes::from(whole)).map_err(|never| match never {}).boxed_unsync());
                }
                Ok(None) | Err(_) => break,
            }
        }
        frames.append(&mut self.ready);
        self.ready = frames;
        Ok(self.boxed_unsync())
    }

    fn push(&mut self, out: Vec<u8>) {
        if !out.is_empty() {
            self.ready.push_back(Frame::data(out.into()));
        }
    }

    /// What is held back goes out when its time has come.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.redactor.held() == 0 {
            self.idle = None;
            return Poll::Pending;
        }
        let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        if idle.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let mut out = Vec::new();
        self.redactor.release(SHOWN, &mut out);
        // What must not be shown by itself waits for what comes next.
        if out.is_empty() {
            if let Some(idle) = &mut self.idle {
                idle.as_mut().reset(Instant::now() + Duration::from_secs(86_400));
            }
            return Poll::Pending;
        }
        self.idle = None;
        self.push(out);
        Poll::Ready(())
    }
}

impl Body for Redacted {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Ready(frame) => frame.transpose()?,
                Poll::Pending => match self.wait(context) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                },
            };
            self.idle = None;
            let mut out = Vec::new();
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    let clean = self.redactor.pass(&data, &mut out);
                    // The usual case: nothing was found, and nothing is copied.
                    let rest = data.slice_ref(clean);
                    self.push(out);
                    if !rest.is_empty() {
                        self.ready.push_back(Frame::data(rest));
                    }
                }
                Some(Err(trailers)) => {
                    self.redactor.finish(&mut out);
                    self.push(out);
                    if let Ok(mut trailers) = trailers.into_trailers() {
                        redact_headers(&mut trailers, &self.broker);
                        self.ready.push_back(Frame::trailers(trailers));
                    }
                }
                None => {
                    self.redactor.finish(&mut out);
                    self.push(out);
                    self.ended = true;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && (self.ended || (self.inner.is_end_stream() && self.redactor.held() == 0))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
