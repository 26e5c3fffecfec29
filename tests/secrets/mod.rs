//! Secrets of a project on their way into environments, and where they must not be seen.

mod sinks;
