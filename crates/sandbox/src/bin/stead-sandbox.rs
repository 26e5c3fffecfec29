//! Runs one command in a new place and exits as it did: the library from a shell, for tests and for trying things out.
//!
//! `stead-sandbox SKELETON [--bind SOURCE:TARGET[:rw]]... [--host-network] [--directory DIR] -- COMMAND...`
//!
//! With `--bench ROUNDS` instead of a command: what a native spawn, a command in a new place and one in a warm place cost, in turns.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use stead_sandbox::{Bind, Command, Event, Network, Place, Plan, Skeleton, Streams};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("stead-sandbox: {message}\n").as_bytes());
            ExitCode::from(125)
        }
    }
}

fn run() -> Result<u8, String> {
    let mut arguments = std::env::args_os().skip(1);
    let skeleton = PathBuf::from(arguments.next().ok_or("the first argument is the directory of the skeleton")?);
    let skeleton = match Skeleton::open(&skeleton) {
        Some(skeleton) => skeleton,
        None => Skeleton::build(&skeleton).map_err(|error| error.to_string())?,
    };
    let mut plan = Plan::new(skeleton);
    let mut argv: Vec<OsString> = Vec::new();
    let mut bench: Option<u32> = None;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| "a value is missing".to_owned());
        match argument.to_str() {
            Some("--bind") => {
                let text = value()?.into_string().map_err(|_| "not UTF-8")?;
                let mut parts = text.split(':');
                let (source, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let writable = parts.next() == Some("rw");
                plan.binds.push(if writable { Bind::read_write(source, target) } else { Bind::read_only(source, target) });
            }
            Some("--bench") => {
                let rounds = value()?.to_str().and_then(|rounds| rounds.parse().ok());
                bench = Some(rounds.ok_or("--bench needs a number of rounds")?);
            }
            Some("--host-network") => plan.network = Network::Host,
            Some("--protect") => plan.protected.push(value()?.into()),
            Some("--hide") => plan.hidden.push(value()?.into()),
            Some("--directory") => plan.directory = value()?.into(),
            Some("--") => argv.extend(arguments.by_ref()),
            _ => return Err(format!("unknown argument {}", argument.display())),
        }
    }
    let env = [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/home/stead"), ("LANG", "C.UTF-8")];
    let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    if let Some(rounds) = bench {
        return measure(&plan, env, rounds).map(|()| 0);
    }
    let mut place = Place::start(&plan).map_err(|error| error.to_string())?;
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let program = argv.first().cloned().unwrap_or_default();
    let command = Command { argv, env, directory: None, limits: Vec::new() };
    place.request(0, &command, Streams::Pipes([stdin.as_fd(), stdout.as_fd(), stderr.as_fd()])).map_err(|error| error.to_string())?;
    loop {
        match next(&mut place)? {
            Event::Started { .. } => {}
            Event::NotStarted { failure, .. } => {
                let code = if failure.cause.raw_os_error() == Some(libc::ENOENT) { 127 } else { 126 };
                let message = format!("stead-sandbox: {}: {failure}\n", program.display());
                let _ = std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes());
                return Ok(code);
            }
            Event::Ended(exit) => {
                place.end();
                let code = exit.code.or(exit.signal.map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255));
            }
        }
    }
}

/// Waits for what init says next.
fn next(place: &mut Place) -> Result<Event, String> {
    loop {
        if let Some(event) = place.receive().map_err(|error| error.to_string())? {
            return Ok(event);
        }
        let mut watched = [PollFd::from_borrowed_fd(place.socket(), PollFlags::IN)];
        poll(&mut watched, None).map_err(|error| error.to_string())?;
    }
}

/// Measures in turns, so that what else the machine does falls on all alike.
fn measure(plan: &Plan, env: Vec<(OsString, OsString)>, rounds: u32) -> Result<(), String> {
    let text = |error: stead_sandbox::Error| error.to_string();
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(|error| error.to_string())?;
    let streams = Streams::Pipes([null.as_fd(); 3]);
    let command = Command { argv: vec!["/bin/true".into()], env, directory: None, limits: Vec::new() };
    let finish = |place: &mut Place| -> Result<(), String> {
        place.request(0, &command, streams).map_err(text)?;
        loop {
            match next(place)? {
                Event::Started { .. } => {}
                Event::Ended(exit) if exit.code == Some(0) => return Ok(()),
                other => return Err(format!("{other:?}")),
            }
        }
    };
    let mut warm = Place::start(plan).map_err(text)?;
    let (mut native, mut cold, mut ready, mut again, mut ended) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds + 3 {
        // The first ones only warm up.
        let lap = |times: &mut Vec<Duration>, began: Instant| {
            if round >= 3 {
                times.push(began.elapsed());
            }
        };
        let began = Instant::now();
        std::process::Command::new("/bin/true").env_clear().status().map_err(|error| error.to_string())?;
        lap(&mut native, began);
        let began = Instant::now();
        let mut place = Place::start(plan).map_err(text)?;
        lap(&mut ready, began);
        finish(&mut place)?;
        lap(&mut cold, began);
        let began = Instant::now();
        place.end();
        lap(&mut ended, began);
        let began = Instant::now();
        finish(&mut warm)?;
        lap(&mut again, began);
    }
    let mut report = String::new();
    native.sort();
    let base = native[native.len() / 2];
    for (name, mut times) in [
        ("native spawn", native),
        ("place ready", ready),
        ("place and first command", cold),
        ("command in a warm place", again),
        ("end", ended),
    ] {
        times.sort();
        let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
        let (half, most) = (at(50), at(99));
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        report += &format!(
            "{name:24} p50 {:7.3} ms  p99 {:7.3} ms  {:5.2} x native\n",
            milliseconds(half),
            milliseconds(most),
            half.as_secs_f64() / base.as_secs_f64()
        );
    }
    std::io::Write::write_all(&mut std::io::stdout(), report.as_bytes()).map_err(|error| error.to_string())
}
