use clap_complete::env::Shells;
use stead_domain::{Code, Error};

use crate::arguments::local::Completion;
use crate::completion::VARIABLE;
use crate::failure::Result;
use crate::invocation::Invocation;

/// Prints the script that asks this program for candidates, so that names are always those of the moment.
pub fn run(invocation: &Invocation<'_>, arguments: &Completion) -> Result<()> {
    let shells = Shells::builtins();
    let completer = shells
        .completer(&arguments.shell)
        .ok_or_else(|| Error::new(Code::Usage, format!("there is no completion for `{}`", arguments.shell)))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "stead", "stead", "stead", &mut script)?;
    invocation.printer.raw(&script)
}
