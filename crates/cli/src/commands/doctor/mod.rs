//! `stead doctor`: numbered checks, each with a next step. It looks, and changes nothing without `--fix` and a yes.

mod check;
mod configuration;
mod database;
mod directory;
mod machine;
mod private_files;
mod reach;
mod repair;

use serde_json::json;

use self::check::{Check, Status};
use crate::arguments::system::Doctor;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, Result};
use crate::invocation::Invocation;
use crate::printer::{GREEN, Printer, RED, YELLOW, escape};
use crate::prompt;
use crate::settings::{Settings, Target};

pub async fn run(invocation: &Invocation<'_>, arguments: &Doctor) -> Result<()> {
    let (settings, broken) = configuration::settings(invocation);
    let mut checks = examine(invocation, settings.as_ref(), &broken).await;
    let printer = invocation.printer;
    if arguments.fix && checks.iter().any(|check| check.repair.is_some()) {
        let repairs: Vec<_> = checks.iter().filter_map(|check| check.repair.as_ref()).collect();
        for repair in &repairs {
            printer.note(&repair.to_string());
        }
        prompt::confirm(printer, "Do this?", arguments.yes)?;
        for repair in repairs {
            repair.carry_out()?;
        }
        checks = examine(invocation, settings.as_ref(), &broken).await;
    }
    show(printer, &checks)?;
    if checks.iter().any(|check| check.status == Status::Fail) { Err(Failure::Told(ExitStatus::Failed)) } else { Ok(()) }
}

async fn examine(invocation: &Invocation<'_>, settings: Option<&Settings>, broken: &[Failure]) -> Vec<Check> {
    let mut checks = configuration::examine(broken);
    if let Some(Settings { target: Target::Local { data_dir, .. }, .. }) = settings {
        checks.extend(directory::examine(&data_dir.value));
        checks.extend(private_files::of_server(&data_dir.value));
    }
    checks.extend(private_files::of_user(&invocation.surroundings));
    if let Some(settings) = settings {
        checks.extend(reach::examine(settings, &invocation.context).await);
    }
    checks.extend(machine::examine(&invocation.surroundings));
    checks.extend(database::examine(&invocation.surroundings));
    checks.sort_by_key(|check| check.code);
    checks
}

fn show(printer: &Printer, checks: &[Check]) -> Result<()> {
    if printer.is_json() {
        return printer.json(&json!({ "items": checks }));
    }
    for check in checks {
        let word = format!("{:4}", check.status.as_str());
        let style = match check.status {
            Status::Ok => GREEN,
            Status::Warn => YELLOW,
            Status::Fail => RED,
        };
        let text = escape::line(&check.message);
        printer.styled(&format!("{}  {}  {:16}  {text}", check.code, printer.paint(style, &word), check.name))?;
        if let Some(next) = &check.next {
            printer.styled(&format!("            next: {}", escape::line(next)))?;
        }
    }
    if checks.iter().any(|check| check.repair.is_some()) {
        printer.hint("`stead doctor --fix` mends what can be mended");
    }
    Ok(())
}
