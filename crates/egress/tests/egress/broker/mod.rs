//! Secrets that are put into requests on their way out, against real TLS servers on loopback.

mod around;
mod hostile;
mod hosts;
mod life;
mod programs;
mod replies;
mod requests;
