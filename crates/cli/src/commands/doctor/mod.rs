//! `stead doctor`: numbered checks, each with a next step. It looks, and changes nothing without `--fix` and a yes.

mod abilities;
mod beside;
mod check;
mod configuration;
mod database;
mod directory;
mod logout;
mod machine;
mod private_files;
mod reach;
mod remedies;
mod repair;

use std::path::Path;

use serde_json::json;

use self::check::{Check, Status};
use self::remedies::Machine;
use self::repair::Repair;
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
        let is_root = rustix::process::geteuid().is_root();
        let (ours, of_root): (Vec<_>, Vec<_>) = repairs(&checks).into_iter().partition(|repair| is_root || !repair.needs_root());
        if !of_root.is_empty() {
            printer.note("this needs root; type it in a shell:");
        }
        for repair in of_root {
            printer.note(&repair.by_sudo());
        }
        if !ours.is_empty() {
            for repair in &ours {
                printer.note(&repair.to_string());
            }
            prompt::confirm(printer, "Do this?", arguments.yes)?;
            for repair in ours {
                repair.carry_out()?;
            }
            checks = examine(invocation, settings.as_ref(), &broken).await;
        }
    }
    show(printer, &checks)?;
    if checks.iter().any(|check| check.status == Status::Fail) { Err(Failure::Told(ExitStatus::Failed)) } else { Ok(()) }
}

/// One repair may mend more than one thing.
fn repairs(checks: &[Check]) -> Vec<Repair> {
    let mut repairs: Vec<Repair> = Vec::new();
    for repair in checks.iter().filter_map(|check| check.repair.as_ref()) {
        if !repairs.contains(repair) {
            repairs.push(repair.clone());
        }
    }
    repairs
}

async fn examine(invocation: &Invocation<'_>, settings: Option<&Settings>, broken: &[Failure]) -> Vec<Check> {
    let mut checks = configuration::examine(broken);
    if let Some(Settings { target: Target::Local { data_dir, .. }, .. }) = settings {
        checks.extend(directory::examine(&data_dir.value));
        checks.extend(private_files::of_server(&data_dir.value));
        checks.extend(abilities::examine(&data_dir.value, &Machine::this()));
        let server = beside::server(&data_dir.value);
        checks.push(logout::examine(Path::new("/"), server));
        checks.extend(beside::examine(&data_dir.value, server).await);
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
