//! `stead env egress`.

use clap::Args;

use super::environment::Reference;

#[derive(Args, Debug)]
pub struct Egress {
    #[command(flatten)]
    pub reference: Reference,
    /// How many of the latest, 1 to 200
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub tail: u32,
    /// Everything that is kept
    #[arg(long, conflicts_with = "tail")]
    pub all: bool,
    /// Go on with what comes, one entry a line
    #[arg(short, long)]
    pub follow: bool,
}
