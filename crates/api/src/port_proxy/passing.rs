//! The body of a response while it passes. Its connection goes back to those that wait when it is over, and ends with it when it is not.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use stead_domain::port_origin::PortName;

use super::pool::{Pool, Sender};

pub struct Passing {
    body: Incoming,
    back: Option<Back>,
}

pub struct Back {
    pub sender: Sender,
    pub name: PortName,
    pub pool: Arc<Pool>,
}

impl Passing {
    pub fn new(body: Incoming, back: Back) -> Self {
        let mut passing = Self { body, back: Some(back) };
        if passing.body.is_end_stream() {
            passing.give_back();
        }
        passing
    }

    fn give_back(&mut self) {
        if let Some(Back { sender, name, pool }) = self.back.take() {
            pool.give(name, sender);
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => self.give_back(),
            // Of a known length, the last piece is the end: nobody may ask for another.
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.give_back(),
            Poll::Ready(Some(Err(_))) => self.back = None,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
