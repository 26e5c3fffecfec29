use std::io::{self, IsTerminal, Write};

use stead_client::Heard;

use super::find;
use crate::arguments::process::Logs;
use crate::failure::Result;
use crate::invocation::Invocation;
use crate::printer::escape;

pub async fn run(invocation: &Invocation<'_>, arguments: &Logs) -> Result<()> {
    let client = invocation.client().await?;
    let process = find::process(&client, &arguments.reference.process).await?;
    let mut sheet = Sheet { escaped: io::stdout().is_terminal() && !arguments.raw, rest: Vec::new() };
    if arguments.follow {
        let mut follow = client.follow_logs(process.environment_id, process.id, arguments.since, arguments.stream);
        while let Some(heard) = follow.next().await? {
            match heard {
                Heard::Output { bytes, .. } => sheet.write(&bytes)?,
                Heard::Gap { from, to } => missing(invocation, &format!("{from}-{to}")),
                Heard::Exit(_) | Heard::Failed { .. } => break,
            }
        }
        return sheet.end();
    }
    let mut offset = arguments.since;
    loop {
        let logs = client.read_logs(process.environment_id, process.id, offset, arguments.stream).await?;
        if let Some(gap) = &logs.gap {
            missing(invocation, gap);
        }
        sheet.write(&logs.bytes)?;
        // Bytes of the other stream are passed over without an answer that holds any.
        if logs.next <= offset {
            return sheet.end();
        }
        offset = logs.next;
    }
}

fn missing(invocation: &Invocation<'_>, gap: &str) {
    invocation.printer.warn(&format!("bytes {gap} are no longer kept"));
}

/// Where output goes: as it is, or as text that cannot do anything to a terminal.
struct Sheet {
    escaped: bool,
    /// The beginning of a character whose end has not come yet.
    rest: Vec<u8>,
}

impl Sheet {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.escaped {
            return put(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let bytes: Vec<u8> = self.rest.drain(..whole).collect();
        put(shown(&bytes).as_bytes())
    }

    fn end(self) -> Result<()> {
        put(shown(&self.rest).as_bytes())
    }
}

/// A line that ends as terminals end them is one all the same.
fn shown(bytes: &[u8]) -> String {
    escape::block(&String::from_utf8_lossy(bytes).replace("\r\n", "\n")).into_owned()
}

fn put(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}
