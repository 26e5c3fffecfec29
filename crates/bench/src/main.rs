//! Measures a release build: the server over loopback HTTP, places beside what else runs commands on this machine, leases beside the locks
//! of others, and redaction beside a plain copy. Results are JSON on stdout or in a file, a table on stderr, and a picture; a goal that is missed is reported and is no
//! failure of the run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement that cannot be taken must fail loudly")]

mod client;
mod disk;
mod fill;
mod leases;
mod load;
mod places;
mod redaction;
mod report;
mod server;
mod suite;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(about = "Measure the server", long_about = None)]
struct Arguments {
    /// A tenth of the time, and a tenth of the rows: to see that it works, not what it measures
    #[arg(long)]
    quick: bool,
    /// Write the results there instead of to stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The server to measure [default: `stead` beside this program]
    #[arg(long, env = "STEAD_BINARY", value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// Where the stores are made; on the disk that is to be measured [default: the directory for temporary files, or this program's if that
    /// is in memory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Only the durable creates on SQLite, for so many seconds: to look at the server meanwhile with a profiler
    #[arg(long, value_name = "SECONDS")]
    creates: Option<u64>,
    /// Leave PostgreSQL out
    #[arg(long)]
    sqlite_only: bool,
    /// Only the server's own speed
    #[arg(long)]
    server: bool,
    /// Only places: commands in environments, beside native ones and containers
    #[arg(long)]
    places: bool,
    /// Only leases: acquired and released, handed over and waited for, beside the locks of Redis, etcd and PostgreSQL
    #[arg(long)]
    leases: bool,
    /// Only redaction: secrets taken out of streams, beside a plain copy
    #[arg(long)]
    redaction: bool,
    /// Only this group of what is measured of places; may be repeated
    #[arg(long, value_name = "GROUP", value_parser = clap::builder::PossibleValuesParser::new(places::GROUPS))]
    only: Vec<String>,
    /// Draw the places' results there, as SVG [default: beside the file of --out]
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// What was measured: all of it, or what was asked for.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    server: Option<report::Results>,
    #[serde(skip_serializing_if = "Option::is_none")]
    places: Option<places::Places>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leases: Option<leases::Leases>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redaction: Option<redaction::Redaction>,
}

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == places::helper::HELPER) {
        return places::helper::serve().unwrap();
    }
    if let [_, word, port] = std::env::args().collect::<Vec<_>>().as_slice()
        && word == places::ports::SOURCE
    {
        return places::ports::serve(port.parse().unwrap()).unwrap();
    }
    let arguments = Arguments::parse();
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let binary = arguments.binary.clone().unwrap_or_else(|| beside.join("stead"));
    let needs_none = arguments.redaction && !(arguments.server || arguments.places || arguments.leases) && arguments.only.is_empty();
    assert!(needs_none || binary.is_file(), "{} is not there: build it first (`cargo build --release -p stead`)", binary.display());
    let root = arguments.dir.clone().unwrap_or_else(|| disk::usual_place(beside));
    // One thread asks; the other cores are the server's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt()).unwrap(), signal(SignalKind::terminate()).unwrap());
        // What is dropped here in the middle clears up after itself.
        tokio::select! {
            report = measure(&arguments, binary, root) => Ok(report),
            _ = interrupt.recv() => Err(130),
            _ = terminate.recv() => Err(143),
        }
    });
    match outcome {
        Ok(Some(report)) => write(&arguments, &report),
        Ok(None) => {}
        Err(code) => std::process::exit(code),
    }
}

async fn measure(arguments: &Arguments, binary: PathBuf, root: PathBuf) -> Option<Report> {
    let wants_places = arguments.places || !arguments.only.is_empty();
    let all = !(arguments.server || wants_places || arguments.leases || arguments.redaction);
    let suite = suite::Suite { binary: binary.clone(), root: root.clone(), quick: arguments.quick, postgres: !arguments.sqlite_only };
    if let Some(seconds) = arguments.creates {
        suite.creates(std::time::Duration::from_secs(seconds)).await;
        return None;
    }
    let leases = leases::Suite { binary: binary.clone(), root: root.clone(), quick: arguments.quick, postgres: !arguments.sqlite_only };
    let places = places::Suite { binary, root, quick: arguments.quick, only: arguments.only.clone() };
    // Places first: a file system that has just lost many directories is slow to make others.
    let places = if all || wants_places { Some(places.run().await) } else { None };
    let leases = if all || arguments.leases { Some(leases.run().await) } else { None };
    let server = if all || arguments.server { Some(suite.run().await) } else { None };
    let redaction = (all || arguments.redaction).then(|| redaction::Redaction::measure(arguments.quick));
    Some(Report { server, places, leases, redaction })
}

fn write(arguments: &Arguments, report: &Report) {
    let text = serde_json::to_string_pretty(report).unwrap();
    let put = |path: &Path, text: String| {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).unwrap();
        }
        std::fs::write(path, text).unwrap();
    };
    match &arguments.out {
        Some(path) => put(path, text + "\n"),
        None => std::io::stdout().write_all((text + "\n").as_bytes()).unwrap(),
    }
    if let Some(results) = &report.server {
        report::table(results);
    }
    if let Some(leases) = &report.leases {
        leases.table();
    }
    if let Some(redaction) = &report.redaction {
        redaction.table();
    }
    if let Some(places) = &report.places {
        places.table();
        if let Some(path) = arguments.picture.clone().or_else(|| Some(arguments.out.as_ref()?.with_extension("svg"))) {
            put(&path, places::picture::draw(places));
        }
    }
}
