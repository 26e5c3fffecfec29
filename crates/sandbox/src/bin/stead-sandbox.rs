//! Runs one command in a new place and exits as it did: the library from a shell, for tests and for trying things out.
//!
//! `stead-sandbox SKELETON [--bind SOURCE:TARGET[:rw]]... [--host-network] [--directory DIR] -- COMMAND...`

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use stead_sandbox::{Access, Bind, Command, Event, Network, Place, Plan, Skeleton, Streams};

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
    let mut plan =
        Plan { skeleton, hostname: "place".to_owned(), binds: Vec::new(), network: Network::None, directory: PathBuf::from("/") };
    let mut argv: Vec<OsString> = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| "a value is missing".to_owned());
        match argument.to_str() {
            Some("--bind") => {
                let text = value()?.into_string().map_err(|_| "not UTF-8")?;
                let mut parts = text.split(':');
                let (source, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let access = if parts.next() == Some("rw") { Access::ReadWrite } else { Access::ReadOnly };
                plan.binds.push(Bind { source: source.into(), target: target.into(), access });
            }
            Some("--host-network") => plan.network = Network::Host,
            Some("--directory") => plan.directory = value()?.into(),
            Some("--") => argv.extend(arguments.by_ref()),
            _ => return Err(format!("unknown argument {}", argument.display())),
        }
    }
    let env = [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/home/stead"), ("LANG", "C.UTF-8")];
    let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
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
