//! What whoever waits is told: one line that changes on a terminal, and elsewhere a line whenever something other than time has.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use stead_domain::environment::Environment;
use stead_domain::lease::TicketView;

use super::words;
use crate::invocation::Invocation;
use crate::printer::escape;

/// How often a line that somebody sees is made anew. A lease that is granted is told of at once either way.
const SEEN: Duration = Duration::from_secs(1);
const UNSEEN: Duration = Duration::from_secs(5);

pub struct Queue<'run> {
    invocation: &'run Invocation<'run>,
    name: String,
    live: bool,
    said: String,
    drawn: bool,
}

impl<'run> Queue<'run> {
    pub fn new(invocation: &'run Invocation<'run>, environment: &Environment) -> Self {
        let live = invocation.printer.is_human() && io::stderr().is_terminal();
        Self { invocation, name: environment.name.clone(), live, said: String::new(), drawn: false }
    }

    /// How long one question waits for news.
    pub fn interval(&self) -> Duration {
        if self.live { SEEN } else { UNSEEN }
    }

    pub fn waits(&mut self, ticket: &TicketView) {
        let place = match ticket.position {
            0 => "next in line".to_owned(),
            before => {
                let ahead: Vec<String> = ticket.ahead.iter().map(|waiter| waiter.holder.clone()).collect();
                let ahead = if ahead.is_empty() { String::new() } else { format!(": {}", ahead.join(", ")) };
                format!("{before} before you{ahead}")
            }
        };
        let held = ticket.held_by.as_ref();
        let by = held.map(|held| format!("; held by {}", words::named(&held.holder, held.note.as_deref()))).unwrap_or_default();
        let time = held.map(|held| format!(", {}", words::left(held))).unwrap_or_default();
        let until = format!("; giving up in {}", words::time(ticket.deadline_in_ms));
        let lasting = format!("waiting for {}, {place}{by}", self.name);
        self.say(&lasting, &format!("{lasting}{time}{until}"));
    }

    /// It is ours, once what was before it is gone.
    pub fn fencing(&mut self) {
        let text = format!("waiting for what the last holder of {} left to be stopped", self.name);
        self.say(&text, &text);
    }

    fn say(&mut self, lasting: &str, now: &str) {
        if self.live {
            self.drawn = true;
            let width = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
            let line: String = escape::line(now).chars().take(if width > 1 { width - 1 } else { 79 }).collect();
            put(&format!("\r{line}\u{1b}[K"));
        } else if self.said != lasting {
            self.invocation.printer.note(lasting);
            lasting.clone_into(&mut self.said);
        }
    }

    /// Wipes the line.
    pub fn over(&mut self) {
        if std::mem::take(&mut self.drawn) {
            put("\r\u{1b}[K");
        }
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.over();
    }
}

fn put(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
