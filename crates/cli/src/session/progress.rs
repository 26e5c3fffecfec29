//! A line that says what is waited for, where somebody sees it and only when it takes long.

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::printer::escape;

const UNNOTICED: Duration = Duration::from_millis(400);
const STEP: Duration = Duration::from_millis(150);
const SIGNS: [&str; 4] = ["|", "/", "-", "\\"];

pub struct Progress {
    shown: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    pub async fn during<T>(&self, text: &str, work: impl Future<Output = T>) -> T {
        if !self.shown {
            return work.await;
        }
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(UNNOTICED, &mut work).await {
            return done;
        }
        let line = Line;
        for sign in SIGNS.iter().cycle() {
            say(&format!("\r{sign} {}\u{1b}[K", escape::line(text)));
            if let Ok(done) = tokio::time::timeout(STEP, &mut work).await {
                return done;
            }
        }
        drop(line);
        work.await
    }
}

/// Wiped when the wait is over, however it ended.
struct Line;

impl Drop for Line {
    fn drop(&mut self) {
        say("\r\u{1b}[K");
    }
}

fn say(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
