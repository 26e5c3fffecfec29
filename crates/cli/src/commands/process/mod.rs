//! Commands in environments.

mod attach;
pub mod begin;
mod directory;
mod exec;
pub mod find;
mod kill;
mod logs;
mod missing;
mod own;
mod ps;
mod run;
mod screen;
mod shell;
pub mod toolchains;
mod top;

use crate::arguments::process::{Exec, Run, Shell};
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;

pub use attach::run as attach;
pub use kill::run as kill;
pub use logs::run as logs;
pub use ps::{command, run as ps};
pub use screen::Screen;
pub use top::run as top;

/// A failure of Stead itself.
pub const OURS: u8 = 125;

pub async fn run(invocation: &Invocation<'_>, arguments: &Run) -> Result<()> {
    as_ours(invocation, run::run(invocation, arguments).await)
}

pub async fn exec(invocation: &Invocation<'_>, arguments: &Exec) -> Result<()> {
    as_ours(invocation, exec::run(invocation, arguments).await)
}

pub async fn shell(invocation: &Invocation<'_>, arguments: &Shell) -> Result<()> {
    as_ours(invocation, shell::run(invocation, arguments).await)
}

/// The exit codes of a command inside are its own, so what goes wrong here gets one of those that no program uses.
pub fn as_ours(invocation: &Invocation<'_>, outcome: Result<()>) -> Result<()> {
    outcome.map_err(|failure| {
        if matches!(failure, Failure::Told(_) | Failure::OutputClosed) {
            return failure;
        }
        invocation.printer.failure(&failure);
        let code = failure.exit_status().code();
        Failure::Told(ExitStatus::Command(if matches!(code, 126 | 127) { code } else { OURS }))
    })
}
