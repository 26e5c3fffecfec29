use std::os::fd::AsFd;

use stead_domain::file_watch::{FileEvent, FileNamed};

use super::inside;
use crate::arguments::files::Watch;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::{Printer, escape};
use crate::references;

pub async fn run(invocation: &Invocation<'_>, arguments: &Watch) -> Result<()> {
    let client = invocation.client_without_lease().await?;
    let environment = references::environment(&client, &arguments.reference.environment).await?;
    let path = inside(&arguments.path)?;
    let mut watch = client.watch_files(environment.id, &path, !arguments.shallow).await?;
    invocation.printer.note(&format!("watching `{path}` in {}; Ctrl-C ends it", environment.name));
    loop {
        let event = tokio::select! {
            event = watch.next() => event?,
            () = reader_gone() => return Ok(()),
        };
        let Some(event) = event else {
            invocation.printer.note(&format!("`{path}` is gone"));
            return Ok(());
        };
        show(invocation.printer, &event)?;
    }
}

/// Whoever reads our output may go away while nothing happens.
async fn reader_gone() {
    let Ok(stdout) = std::io::stdout().as_fd().try_clone_to_owned() else { return std::future::pending().await };
    loop {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().contains(PollFlags::ERR) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

fn show(printer: &Printer, event: &FileEvent) -> Result<()> {
    if printer.is_json() {
        return printer.json_line(event);
    }
    let changed = match event {
        FileEvent::Created(named) | FileEvent::Modified(named) | FileEvent::Removed(named) => Some(named),
        FileEvent::Moved { to, .. } => Some(to),
        FileEvent::Overflow => None,
    };
    if !printer.is_human() {
        return changed.map_or(Ok(()), |named| printer.name(&named.exact_path()));
    }
    let shown = |named: &FileNamed| format!("{}{}", escape::line(&named.path), if named.directory { "/" } else { "" });
    let rest = match event {
        FileEvent::Moved { from, to } => format!("{} -> {}", shown(from), shown(to)),
        FileEvent::Overflow => "something was missed: look for yourself".to_owned(),
        _ => changed.map(shown).unwrap_or_default(),
    };
    printer.styled(&format!("{:9} {rest}", event.name()))
}
