//! Master keys that a command prints, which may have asked a key management service for them.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::master_key::Keyring;
use crate::source::KeyError;

/// A service that has not answered by then does not answer.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const LONGEST: u64 = 64 << 10;

/// What it prints is never told, also when it is no key: it may be one that is written in another way.
pub fn run(command: &str) -> Result<Keyring, KeyError> {
    let failed = |why: String| KeyError::Command { command: command.to_owned(), why };
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let output = child.stdout.take();
    let (sender, read) = channel();
    std::thread::spawn(move || {
        let mut text = zeroize::Zeroizing::new(String::new());
        output.map(|output| output.take(LONGEST).read_to_string(&mut text));
        let _ = sender.send(text);
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < PATIENCE => sleep(BETWEEN_LOOKS),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it did not end within {} seconds", PATIENCE.as_secs())));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
    };
    if !status.success() {
        return Err(failed(format!("it ended with {status}")));
    }
    // Something that it left behind may hold on to its output.
    let text = read.recv_timeout(PATIENCE.saturating_sub(begun.elapsed()).max(BETWEEN_LOOKS));
    let text = text.map_err(|_| failed("its output does not end: something that it started holds on to it".to_owned()))?;
    Keyring::parse(&text).ok_or_else(|| failed("it did not print 64 hexadecimal digits".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_prints_is_a_key_or_an_error_without_it() {
        let digits = "ab".repeat(32);
        assert_eq!(run(&format!("echo {digits}")).unwrap().to_text(), format!("{digits}\n"));
        for bad in ["echo half-of-a-key", "exit 3", "/nowhere/at/all", "true"] {
            let error = run(bad).unwrap_err().to_string();
            assert!(error.contains("key_command"), "{error}");
        }
        let error = run("echo not-$((40 + 2))-a-key").unwrap_err().to_string();
        assert!(!error.contains("not-42"), "{error}");
    }
}
