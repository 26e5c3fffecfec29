//! What callers say of processes, and what of it is taken.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::duration::Duration;
use crate::error::{Error, Result};
use crate::process::{OutputStream, Overflow, ProcessExit, ProcessLimits, StdinMode, TerminalSize};
use crate::signal::Signal;

const MOST_ARGUMENTS: usize = 4096;
/// Arguments together, and names and values of variables together, each with the NUL that ends it.
const MOST_BYTES: usize = 128 << 10;
const LONGEST_PATH: usize = 4095;
const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);
const LARGEST_TERMINAL: u16 = 1000;

/// A process to be started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewProcess {
    /// The program and its arguments. No shell looks at them.
    #[schema(min_items = 1, max_items = 4096)]
    pub argv: Vec<String>,
    /// Inside; a relative one starts at the workspace, and so does none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// On top of the definition's variables. Values are neither stored nor logged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// `closed` when it is left out; `open` lets `/stdin` write to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<StdinMode>,
    /// Gives it a terminal of this size, whose stdin is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// How long it may run, up to 168h; as long as it likes when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ProcessLimits>,
    /// `drop` when it is left out. With `hold` nothing is given up that somebody who follows with `hold=true` has not taken yet: the
    /// process waits for the slowest of them. When nobody has followed for half a minute it goes on as with `drop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overflow: Option<Overflow>,
}

/// The body of a setup.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupRequest {
    /// Also when it has run to its end for this version of the definition.
    #[serde(default)]
    pub again: bool,
}

/// A command to be run to its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// The program and its arguments. No shell looks at them.
    #[schema(min_items = 1, max_items = 4096)]
    pub command: Vec<String>,
    /// The workspace when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Each `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Written to its stdin, which is then closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
}

/// What a command printed and how it ended, as a shell would say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecResult {
    pub stdout: String,
    pub stderr: String,
    /// 128 and the signal's number for one that a signal ended, 124 for one that ran out of time.
    pub exit_code: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    pub signal: Signal,
}

/// How far stdin has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StdinWritten {
    pub offset: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SleepRequest {
    /// End what runs inside, too.
    #[serde(default)]
    pub force: bool,
}

text_enum! {
    /// How bytes are written as text.
    pub enum Encoding {
        Utf8 = "utf-8",
        Base64 = "base64",
    }
}

/// A piece of one stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutputFrame {
    pub stream: OutputStream,
    /// Where it begins in the stored output, which both streams share.
    pub offset: u64,
    pub data: String,
    pub encoding: Encoding,
}

/// What event streams and WebSockets carry. A WebSocket's text message is one of these; an event stream has the name as `event` and what is
/// behind it as `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputEvent {
    /// These bytes are no longer kept.
    Gap { from: u64, to: u64 },
    /// It is over, and all output up to then was sent.
    Exit(ProcessExit),
    /// There was never a program.
    Failed { error: String },
    /// Over a WebSocket: something that the client sent could not be done.
    Refused { code: String, message: String },
    /// Over a WebSocket: how far stdin has been written.
    Stdin { offset: u64 },
    #[serde(untagged)]
    Output(OutputFrame),
}

/// What a client sends over a WebSocket.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum InputEvent {
    Stdin {
        offset: u64,
        #[serde(default)]
        data: String,
        encoding: Encoding,
        #[serde(default)]
        end: bool,
    },
    Signal(Signal),
    Resize(TerminalSize),
}

impl NewProcess {
    pub fn check(&self) -> Result<()> {
        check_arguments("argv", &self.argv)?;
        check_directory("cwd", self.cwd.as_deref())?;
        check_variables("env", self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
        if let Some(terminal) = self.terminal {
            check_terminal("terminal.", terminal)?;
            if self.stdin == Some(StdinMode::Closed) {
                return Err(Error::field("stdin", "a terminal has an open stdin").suggestion("leave `stdin` out, or `terminal`"));
            }
        }
        match self.timeout {
            Some(timeout) if timeout.as_millis() == 0 || timeout > LONGEST_TIMEOUT => {
                Err(Error::field("timeout", "must be between 1ms and 168h").suggestion("leave it out for none"))
            }
            _ => Ok(()),
        }
    }

    pub fn stdin_mode(&self) -> StdinMode {
        self.stdin.unwrap_or(if self.terminal.is_some() { StdinMode::Open } else { StdinMode::Closed })
    }
}

impl ExecRequest {
    /// The same as a process, and what to write to its stdin.
    pub fn into_process(self) -> Result<(NewProcess, Option<String>)> {
        check_arguments("command", &self.command)?;
        check_directory("dir", self.dir.as_deref())?;
        let mut env = BTreeMap::new();
        for entry in &self.env {
            let (name, value) = entry.split_once('=').ok_or_else(|| Error::field("env", "each entry is `KEY=VALUE`"))?;
            env.insert(name.to_owned(), value.to_owned());
        }
        let stdin = Some(if self.stdin.is_some() { StdinMode::Open } else { StdinMode::Closed });
        let process = NewProcess { argv: self.command, cwd: self.dir, env, stdin, ..NewProcess::default() };
        process.check()?;
        Ok((process, self.stdin))
    }
}

fn check_arguments(field: &str, argv: &[String]) -> Result<()> {
    if argv.is_empty() || argv.len() > MOST_ARGUMENTS {
        return Err(Error::field(field, format!("must hold 1 to {MOST_ARGUMENTS} items, the program first")));
    }
    if argv[0].is_empty() {
        return Err(Error::field(format!("{field}[0]"), "is empty, and names the program"));
    }
    if let Some(at) = argv.iter().position(|argument| argument.contains('\0')) {
        return Err(Error::field(format!("{field}[{at}]"), "holds a NUL"));
    }
    if argv.iter().map(|argument| argument.len() + 1).sum::<usize>() >= MOST_BYTES {
        return Err(Error::field(field, format!("is longer than {MOST_BYTES} bytes altogether"))
            .suggestion("put long input into a file, or write it to stdin"));
    }
    Ok(())
}

fn check_directory(field: &str, directory: Option<&str>) -> Result<()> {
    match directory {
        Some("") => Err(Error::field(field, "is empty").suggestion("leave it out for the workspace")),
        Some(directory) if directory.contains('\0') => Err(Error::field(field, "holds a NUL")),
        Some(directory) if directory.len() > LONGEST_PATH => Err(Error::field(field, format!("is longer than {LONGEST_PATH} bytes"))),
        _ => Ok(()),
    }
}

/// The name is shown when it is wrong, the value never.
fn check_variables<'v>(field: &str, variables: impl Iterator<Item = (&'v str, &'v str)>) -> Result<()> {
    let mut bytes = 0;
    for (name, value) in variables {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.is_empty() || !letters || name.as_bytes()[0].is_ascii_digit() {
            let shown: String = name.chars().take(64).collect();
            return Err(Error::field(field, format!("`{shown}` is no name of a variable"))
                .detail("pattern", "^[A-Za-z_][A-Za-z0-9_]*$")
                .suggestion("use letters, digits and underscores, and no digit first"));
        }
        if value.contains('\0') {
            return Err(Error::field(format!("{field}.{name}"), "holds a NUL"));
        }
        bytes += name.len() + value.len() + 2;
    }
    if bytes >= MOST_BYTES {
        return Err(Error::field(field, format!("is longer than {MOST_BYTES} bytes altogether")));
    }
    Ok(())
}

/// `prefix` is where the size stood, with a dot at its end, or empty.
pub fn check_terminal(prefix: &str, size: TerminalSize) -> Result<()> {
    for (name, value) in [("rows", size.rows), ("cols", size.cols)] {
        if !(1..=LARGEST_TERMINAL).contains(&value) {
            return Err(Error::field(format!("{prefix}{name}"), format!("must be 1 to {LARGEST_TERMINAL}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(argv: &[&str]) -> NewProcess {
        NewProcess { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ..NewProcess::default() }
    }

    #[track_caller]
    fn refused(process: NewProcess, field: &str) {
        let error = process.check().unwrap_err();
        assert_eq!(error.details()["field"], field, "{error}");
    }

    #[test]
    fn what_no_kernel_would_take_is_refused_by_field() {
        process(&["true"]).check().unwrap();
        process(&["sh", ""]).check().unwrap();
        refused(process(&[]), "argv");
        refused(process(&[""]), "argv[0]");
        refused(process(&["sh", "a\0b"]), "argv[1]");
        refused(process(&vec!["x"; 4097]), "argv");
        refused(process(&["x", &"y".repeat(128 << 10)]), "argv");
        let mut with = process(&["x"]);
        with.cwd = Some(String::new());
        refused(with.clone(), "cwd");
        with.cwd = Some("/a\0".to_owned());
        refused(with, "cwd");
        for name in ["", "1A", "A-B", "A=B", "Ä", "A B"] {
            let mut with = process(&["x"]);
            with.env.insert(name.to_owned(), "secret-value".to_owned());
            let error = with.check().unwrap_err();
            assert!(!error.message().contains("secret-value"), "{error}");
            refused(with, "env");
        }
        let mut with = process(&["x"]);
        with.env.insert("_A1".to_owned(), "fine".to_owned());
        with.check().unwrap();
        with.env.insert("B".to_owned(), "a\0b".to_owned());
        refused(with, "env.B");
        for (rows, cols, field) in [(0, 80, "terminal.rows"), (24, 1001, "terminal.cols")] {
            refused(NewProcess { terminal: Some(TerminalSize { rows, cols }), ..process(&["x"]) }, field);
        }
        for timeout in ["0s", "169h"] {
            refused(NewProcess { timeout: Some(timeout.parse().unwrap()), ..process(&["x"]) }, "timeout");
        }
        let terminal = Some(TerminalSize { rows: 24, cols: 80 });
        refused(NewProcess { terminal, stdin: Some(StdinMode::Closed), ..process(&["x"]) }, "stdin");
        assert_eq!(NewProcess { terminal, ..process(&["x"]) }.stdin_mode(), StdinMode::Open);
    }

    #[test]
    fn a_command_is_a_process_with_other_words() {
        let request = ExecRequest {
            command: vec!["cat".to_owned()],
            dir: Some("src".to_owned()),
            env: vec!["A=b=c".to_owned()],
            stdin: Some("hello".to_owned()),
        };
        let (process, stdin) = request.clone().into_process().unwrap();
        assert_eq!((process.env["A"].as_str(), process.cwd.as_deref(), stdin.as_deref()), ("b=c", Some("src"), Some("hello")));
        assert_eq!(process.stdin_mode(), StdinMode::Open);
        for wrong in ["A", "=b"] {
            assert!(ExecRequest { env: vec![wrong.to_owned()], ..request.clone() }.into_process().is_err(), "{wrong}");
        }
        assert_eq!(ExecRequest { command: Vec::new(), ..request }.into_process().unwrap_err().details()["field"], "command");
    }

    #[test]
    fn events_can_be_told_apart() {
        let frame = OutputFrame { stream: OutputStream::Stdout, offset: 3, data: "a".to_owned(), encoding: Encoding::Utf8 };
        for (event, expected) in [
            (OutputEvent::Output(frame), r#"{"stream":"stdout","offset":3,"data":"a","encoding":"utf-8"}"#),
            (OutputEvent::Gap { from: 1, to: 2 }, r#"{"gap":{"from":1,"to":2}}"#),
        ] {
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(text, expected);
            assert_eq!(serde_json::from_str::<OutputEvent>(&text).unwrap(), event);
        }
        let input: InputEvent = serde_json::from_str(r#"{"signal": "INT"}"#).unwrap();
        assert!(matches!(input, InputEvent::Signal(signal) if signal.number() == 2));
    }
}
