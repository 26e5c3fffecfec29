//! Where a token of one's own at GitHub comes from.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TokenSource {
    #[value(name = "env")]
    Environment,
    Gh,
}
