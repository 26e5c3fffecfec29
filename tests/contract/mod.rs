//! Replies against the shapes that the published clients were made for, written out by hand.

mod replies;
mod requests;
mod shapes;
