//! `stead cp`: in, out and between.

mod across;
pub mod bar;
pub mod channel;
mod down;
mod here;
mod side;
mod up;

use serde::Serialize;

use crate::arguments::copy::Cp;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::human;

use self::side::Side;

/// How often a tree, which cannot be taken up in the middle, is begun again.
const BEGINNINGS: usize = 5;

/// What was copied.
#[derive(Debug, Serialize)]
struct Copied {
    to: String,
    /// Bytes of files.
    size: u64,
    /// Of a directory, how many things are in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip)]
    name: Vec<u8>,
}

pub async fn run(invocation: &Invocation<'_>, arguments: &Cp) -> Result<()> {
    let client = invocation.client().await?;
    let from = Side::find(&client, &arguments.from).await?;
    let to = Side::find(&client, &arguments.to).await?;
    let copied = match (&from, &to) {
        (Side::Here(source), Side::There(target)) => up::copy(invocation, &client, source, target).await?,
        (Side::There(source), Side::Here(target)) => down::copy(invocation, &client, source, target).await?,
        (Side::There(source), Side::There(target)) => across::copy(invocation, &client, source, target).await?,
        (Side::Here(_), Side::Here(_)) => {
            return Err(Failure::usage("neither of the two is in an environment; write one as ENVIRONMENT:PATH"));
        }
    };
    if !invocation.printer.is_json() && !invocation.printer.is_human() {
        return invocation.printer.name(&copied.name);
    }
    invocation.printer.record(&copied, "", |printer| {
        let what = match copied.entries {
            Some(1) => "1 entry, ".to_owned(),
            Some(entries) => format!("{entries} entries, "),
            None => String::new(),
        };
        printer.note(&format!("copied to {} ({what}{})", copied.to, human::bytes(copied.size)));
        Ok(())
    })
}
