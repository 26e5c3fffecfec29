//! Bodies of requests, for bindings that say so: the placeholder gives way wherever it stands, across any pieces.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::secrets::Secret;
use super::text::Value;

/// What hyper makes of a failed body.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
pub type AnyBody = UnsyncBoxBody<Bytes, Failure>;

/// Placeholders and what they stand for.
#[derive(Default)]
pub struct Replacer {
    pairs: Vec<(Vec<u8>, Value)>,
    /// The beginning of a placeholder, perhaps.
    held: Vec<u8>,
}

impl Replacer {
    pub fn new<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Option<Self> {
        let bodies = secrets.filter(|secret| secret.body);
        let pairs: Vec<_> = bodies.map(|secret| (secret.placeholder.clone().into_bytes(), secret.value.clone())).collect();
        (!pairs.is_empty()).then(|| Self { pairs, held: Vec::new() })
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.held.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.held.len() {
            let rest = &self.held[at..];
            if let Some((placeholder, value)) = self.pairs.iter().find(|(placeholder, _)| rest.starts_with(placeholder)) {
                out.extend_from_slice(value.bytes());
                at += placeholder.len();
            } else if self.pairs.iter().any(|(placeholder, _)| placeholder.starts_with(rest)) {
                break;
            } else {
                out.push(rest[0]);
                at += 1;
            }
        }
        self.held.drain(..at);
    }

    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }
}

/// A request's body with values in it. How long it is nobody knows before its end.
pub struct Replaced {
    pub inner: Incoming,
    pub replacer: Replacer,
    pub ready: VecDeque<Frame<Bytes>>,
    pub ended: bool,
}

impl Replaced {
    pub fn new(inner: Incoming, replacer: Replacer) -> Self {
        Self { inner, replacer, ready: VecDeque::new(), ended: false }
    }
}

impl Body for Replaced {
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
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(context)).transpose()?;
            let mut out = Vec::new();
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    self.replacer.push(&data, &mut out);
                    self.push(out);
                }
                Some(Err(trailers)) => {
                    self.replacer.finish(&mut out);
                    self.push(out);
                    self.ready.push_back(trailers);
                }
                None => {
                    self.replacer.finish(&mut out);
                    self.push(out);
                    self.ended = true;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

impl Replaced {
    fn push(&mut self, out: Vec<u8>) {
        if !out.is_empty() {
            self.ready.push_back(Frame::data(out.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::secrets::tests::{broker, text};
    use super::super::text::BrokeredText;
    use super::*;
    use crate::host::Host;

    #[test]
    fn placeholders_are_found_across_pieces_at_every_offset() {
        let with_body = |name, value| BrokeredText { body: true, ..text(name, value, &["api.example"]) };
        let broker = broker(vec![with_body("ONE", "correct-horse"), with_body("TWO", "battery"), text("SIX", "other", &["api.example"])]);
        let (broker, host) = (broker.unwrap(), Host::parse("api.example").unwrap());
        let input = b"stp_stp_oneoneoneone,stp_twotwotwotwostp_oneoneone stp_sixsixsixsix stp_";
        let output = b"stp_correct-horse,batterystp_oneoneone stp_sixsixsixsix stp_";
        for cut in 0..=input.len() {
            let (mut replacer, mut out) = (Replacer::new(broker.secrets(&host, 443, false)).unwrap(), Vec::new());
            replacer.push(&input[..cut], &mut out);
            replacer.push(&input[cut..], &mut out);
            replacer.finish(&mut out);
            assert_eq!(out, output, "cut at {cut}");
        }
    }
}
