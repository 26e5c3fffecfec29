//! What a command shows: data on stdout, everything else on stderr.

pub mod escape;
pub mod given;
pub mod human;
mod sheet;
mod table;

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use stead_domain::Code;
use stead_domain::error::ErrorContent;

use self::given::Given;
pub use self::sheet::Sheet;
use crate::arguments::GlobalArguments;
use crate::failure::{Failure, Result, suggestion};
use crate::settings::{Source, lease};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Tables and sentences.
    Human,
    /// The API's own shape.
    Json,
    /// Ids and nothing else.
    Quiet,
}

pub struct Printer {
    format: Format,
    stdout_is_terminal: bool,
    coloured: bool,
    width: Option<u16>,
    given: Given,
    /// Where the lease that commands present comes from, if there is one.
    lease: Option<Source>,
}

pub const RED: Style = AnsiColor::Red.on_default().bold();
pub const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
pub const GREEN: Style = AnsiColor::Green.on_default().bold();
pub const CYAN: Style = AnsiColor::Cyan.on_default().bold();

impl Printer {
    pub fn new(format: Format, no_color: bool) -> Self {
        let stdout = io::stdout();
        let stdout_is_terminal = stdout.is_terminal();
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let coloured = stdout_is_terminal && io::stderr().is_terminal() && !no_color && !set("NO_COLOR") && !dumb;
        let width = stdout_is_terminal.then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
        let width = width.map(|size| size.ws_col).filter(|columns| *columns > 0);
        Self { format, stdout_is_terminal, coloured, width, given: Given::default(), lease: None }
    }

    /// The printer of a command that was given these flags: commands in hints repeat them.
    pub fn of(global: &GlobalArguments) -> Self {
        let variable = std::env::var_os("STEAD_LEASE").is_some_and(|value| !value.is_empty());
        let lease = match &global.lease_token_file {
            Some(_) => Some(Source::Flag("--lease-token-file")),
            None => variable.then_some(Source::Variable("STEAD_LEASE")),
        };
        Self { given: Given::new(global), lease, ..Self::new(global.format(), global.no_color) }
    }

    pub fn is_human(&self) -> bool {
        self.format == Format::Human
    }

    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// A value in the API's shape.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value).map_err(|error| Failure::from(io::Error::other(error)))?;
        self.write(&format!("{}\n", escape::json(&text)))
    }

    /// A value in the API's shape on one line, for what comes one after the other.
    pub fn json_line(&self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|error| Failure::from(io::Error::other(error)))?;
        self.write(&format!("{}\n", escape::json(&text)))
    }

    /// One record: JSON, its id, or what `show` makes of it.
    pub fn record<T: Serialize>(&self, value: &T, id: &str, show: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        match self.format {
            Format::Json => self.json(value),
            Format::Quiet => self.line(id),
            Format::Human => show(self),
        }
    }

    /// The same of several: ids line by line.
    pub fn records<T: Serialize>(&self, value: &T, ids: &[String], show: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        match self.format {
            Format::Quiet => ids.iter().try_for_each(|id| self.line(id)),
            _ => self.record(value, "", show),
        }
    }

    /// A list: JSON, ids line by line, or a table. `empty` is said to people when there is nothing.
    pub fn list<T: Serialize>(&self, value: &T, ids: &[String], headers: &[&str], rows: &[Vec<String>], empty: &str) -> Result<()> {
        match self.format {
            Format::Json => self.json(value),
            Format::Quiet => ids.iter().try_for_each(|id| self.line(id)),
            Format::Human if rows.is_empty() => {
                self.note(&self.given.complete(empty));
                Ok(())
            }
            Format::Human => self.table(headers, rows),
        }
    }

    pub fn table(&self, headers: &[&str], rows: &[Vec<String>]) -> Result<()> {
        self.write(&table::render(headers, rows, self.width))
    }

    /// The text of a table, for a screen that is put together from several.
    pub fn rendered(&self, headers: &[&str], rows: &[Vec<String>]) -> String {
        table::render(headers, rows, self.width)
    }

    /// A text that is put together already; whoever made it has escaped what came from elsewhere.
    pub fn screen(&self, text: &str) -> Result<()> {
        self.write(text)
    }

    /// Names and values under each other; what has no value is left out.
    pub fn fields(&self, fields: &[(&str, Option<String>)]) -> Result<()> {
        let width = fields.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
        let mut text = String::new();
        for (name, value) in fields {
            if let Some(value) = value {
                text.push_str(&format!("{name:width$}{}\n", escape::line(value)));
            }
        }
        self.write(&text)
    }

    /// One line of data, made harmless.
    pub fn line(&self, text: &str) -> Result<()> {
        self.write(&format!("{}\n", escape::line(text)))
    }

    /// One line of data that may hold colour; whoever made it has escaped what came from elsewhere.
    pub fn styled(&self, text: &str) -> Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// A name from inside on a line of its own, byte for byte; on a terminal as text that is harmless.
    pub fn name(&self, name: &[u8]) -> Result<()> {
        if self.stdout_is_terminal {
            return self.line(&String::from_utf8_lossy(name));
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(name)?;
        stdout.write_all(b"\n")?;
        Ok(stdout.flush()?)
    }

    /// Several lines as they are, made harmless only where a person would see them.
    pub fn block(&self, text: &str) -> Result<()> {
        if self.stdout_is_terminal { self.write(&escape::block(text)) } else { self.write(text) }
    }

    /// Bytes as they came; on a terminal as text that is harmless.
    pub fn raw(&self, bytes: &[u8]) -> Result<()> {
        if self.stdout_is_terminal {
            let text = String::from_utf8_lossy(bytes);
            let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            return self.write(&format!("{}{end}", escape::block(&text)));
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    fn write(&self, text: &str) -> Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// A sentence for people, beside the data. Programs that asked for JSON find nothing on stderr but an error.
    pub fn note(&self, text: &str) {
        if self.format == Format::Human {
            say(&escape::block(text));
        }
    }

    /// The next thing to try.
    pub fn hint(&self, text: &str) {
        if self.format == Format::Human {
            say(&format!("{} {}", self.paint(CYAN, "hint:"), escape::line(&self.given.complete(text))));
        }
    }

    pub fn warn(&self, text: &str) {
        say(&format!("{} {}", self.paint(YELLOW, "warning:"), escape::line(text)));
    }

    /// The end of a command that failed. With `--json`, the API's own error on one line.
    pub fn failure(&self, failure: &Failure) {
        let Some(body) = failure.body() else { return };
        if self.is_json() {
            let text = serde_json::to_string(&body).unwrap_or_default();
            say(&escape::json(&text));
            return;
        }
        let mut lines = body.error.message.lines();
        let first = lines.next().unwrap_or_default();
        say(&format!("{} {} ({})", self.paint(RED, "error:"), escape::line(first), escape::line(&body.error.code)));
        for line in lines {
            say(&format!("  {}", escape::line(line)));
        }
        if let Some(suggestion) = self.next_step(&body.error) {
            say(&format!("{} {}", self.paint(CYAN, "hint:"), escape::line(&self.given.complete(&suggestion))));
        }
    }

    /// The error's own, but where the server knows of a header only and the user has set a variable or named a file.
    fn next_step(&self, error: &ErrorContent) -> Option<String> {
        match &self.lease {
            Some(source) if error.code == Code::FenceStale.as_str() => {
                Some(format!("acquire the environment anew, or go on without that lease: {}", lease::without(source)))
            }
            _ => suggestion(error).map(str::to_owned),
        }
    }

    /// A word in colour, where there is colour. The word says it by itself.
    pub fn paint(&self, style: Style, word: &str) -> String {
        if self.coloured { format!("{style}{word}{style:#}") } else { word.to_owned() }
    }
}

/// Nobody is told when stderr itself cannot be written.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
