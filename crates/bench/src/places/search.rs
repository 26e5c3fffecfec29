//! A search by content, beside ripgrep on the same tree.

use std::io::{Error, Result};
use std::time::{Duration, Instant};

use super::contest::{Contest, Results};
use super::helper::{Output, run_here};
use super::stead::Stead;
use super::{stream, tree};
use crate::load::ENVIRONMENTS;

pub const FEW: &str = "a search with few matches in 100 MB";
pub const MANY: &str = "a search with many matches in 100 MB";
pub const STEAD: &str = "stead";
const RG: &str = "rg";
/// What says as much as we do.
const RG_JSON: &str = "rg --json";

pub async fn race(stead: &Stead, quick: bool, results: &mut Results) {
    let (id, workspace) = stead.caller().await.create().await;
    tree::plant(&workspace, if quick { 100 } else { 2000 }, 50_000).unwrap();
    // A new connection: the server does not wait long for one that is idle.
    stead.caller().await.tell(&id, "wake").await;
    for (what, word) in [(FEW, tree::RARE), (MANY, tree::COMMON)] {
        let mut contest = Contest::new(what, &[RG, RG_JSON, STEAD]);
        let place = workspace.display().to_string();
        let mut lines = None;
        for _ in 0..if quick { 2 } else { 15 } {
            let (took, found) = ripgrep(&["rg", "--no-config", "-n", word, &place]);
            contest.add(RG, took);
            contest.add(RG_JSON, ripgrep(&["rg", "--no-config", "--json", word, &place]).0);
            let mut said = Vec::new();
            let started = Instant::now();
            let path = format!("{ENVIRONMENTS}/{id}/files/grep?pattern={word}&limit=10000000");
            let outcome = stream::download(stead, &path, &mut said).map(|_| started.elapsed());
            contest.add(STEAD, outcome);
            // All found the same, or it is no race. The last line says how many there were.
            let ours = said.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
            assert!(found.is_none_or(|found| found == ours), "rg found {found:?} lines, and we {ours}");
            assert!(*lines.get_or_insert(ours) == ours, "the same search found another number of lines");
            tokio::task::yield_now().await;
        }
        contest.end(results);
    }
    stead.caller().await.delete(&id).await;
}

/// How long it took, and how many lines it said.
fn ripgrep(argv: &[&str]) -> (Result<Duration>, Option<usize>) {
    match run_here(&argv.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), Output::Read) {
        Ok((took, said)) => (Ok(took), Some(said.lines().count())),
        Err(error) => (Err(Error::new(error.kind(), error.to_string())), None),
    }
}
