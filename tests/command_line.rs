//! Written in its own turn.
