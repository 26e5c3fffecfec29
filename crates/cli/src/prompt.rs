//! Asking before something is lost.

use std::io::{self, IsTerminal};

use stead_domain::{Code, Error};

use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::printer::{Printer, escape};

/// Goes on only with a yes. Without a terminal there is nobody to ask, and `--yes` must have been said.
pub fn confirm(printer: &Printer, question: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::new(Code::Usage, format!("this needs a yes, and there is no terminal to ask on: {question}"))
            .suggestion("say --yes to go ahead")
            .into());
    }
    let answer = dialoguer::Confirm::new().with_prompt(escape::line(question)).default(false).interact_opt();
    match answer {
        Ok(Some(true)) => Ok(()),
        Ok(_) => {
            printer.note("nothing was changed");
            Err(Failure::Told(ExitStatus::Failed))
        }
        Err(error) => {
            Err(Error::new(Code::Usage, format!("the answer could not be read: {error}")).suggestion("say --yes to go ahead").into())
        }
    }
}
