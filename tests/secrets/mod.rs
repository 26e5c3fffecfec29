//! Secrets with the real server and real programs in real places.

mod broker;
mod host;
