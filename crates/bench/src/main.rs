//! Measures a release build of the server over loopback HTTP. Results are JSON on stdout or in a file, and a table on stderr; a goal that is
//! missed is reported and is no failure of the run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement that cannot be taken must fail loudly")]

mod client;
mod disk;
mod fill;
mod load;
mod report;
mod server;
mod suite;

use std::io::Write;
use std::path::PathBuf;

use clap::Parser;

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
}

fn main() {
    let arguments = Arguments::parse();
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let binary = arguments.binary.unwrap_or_else(|| beside.join("stead"));
    assert!(binary.is_file(), "{} is not there: build it first (`cargo build --release -p stead`)", binary.display());
    let root = arguments.dir.unwrap_or_else(|| disk::usual_place(beside));
    let suite = suite::Suite { binary, root, quick: arguments.quick, postgres: !arguments.sqlite_only };
    // One thread asks; the other cores are the server's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Some(seconds) = arguments.creates {
        return runtime.block_on(suite.creates(std::time::Duration::from_secs(seconds)));
    }
    let results = runtime.block_on(suite.run());
    let text = serde_json::to_string_pretty(&results).unwrap();
    match arguments.out {
        Some(path) => {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory).unwrap();
            }
            std::fs::write(path, text + "\n").unwrap();
        }
        None => std::io::stdout().write_all((text + "\n").as_bytes()).unwrap(),
    }
    report::table(&results);
}
