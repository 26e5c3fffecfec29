//! Who calls: projects, members, keys, and the ways in.

mod api_keys;
mod first_start;
mod late_requests;
mod limits;
mod members;
mod projects;
mod sockets;
mod tls;
