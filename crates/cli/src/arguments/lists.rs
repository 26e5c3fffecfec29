//! What every list takes.

use clap::Args;
use stead_client::ListOptions;

#[derive(Args, Clone, Debug)]
pub struct ListArguments {
    /// How many at most, 1 to 200
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
    /// Where to go on, as the page before said
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Every page
    #[arg(long, conflicts_with = "cursor")]
    pub all: bool,
}

impl ListArguments {
    pub fn options(&self) -> ListOptions {
        let limit = if self.all { 200 } else { self.limit };
        ListOptions { limit: Some(limit), cursor: self.cursor.clone() }
    }
}
