//! Where a token of one's own at GitHub comes from.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TokenSource {
    /// GH_TOKEN or GITHUB_TOKEN
    #[value(name = "env")]
    Environment,
    /// What `gh auth token` prints
    Gh,
}
