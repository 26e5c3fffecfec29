//! The page that says what became of every hostile case, beside bubblewrap: written from results, and compared with them.

mod elsewhere;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use self::page::Page;

/// What became of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt failed.
    Refused,
    /// Nothing refused the attempt, and it reached nothing that is not the place's own.
    Contained,
    /// It got what it wanted.
    Possible,
    NotRun(String),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused => formatter.write_str("refused"),
            Self::Contained => formatter.write_str("contained"),
            Self::Possible => formatter.write_str("**possible**"),
            Self::NotRun(why) => write!(formatter, "not run: {why}"),
        }
    }
}

/// The columns, in their order.
pub const COLUMNS: [&str; 4] = ["Stead, by root", "Stead, by a user", "bubblewrap, by root", "bubblewrap, by a user"];

/// Which column is written by whoever runs the tests.
pub fn column(bubblewrap: bool) -> usize {
    usize::from(!rustix::process::geteuid().is_root()) + if bubblewrap { 2 } else { 0 }
}

/// By id and words, what each column says.
pub type Results = BTreeMap<(String, String), [Option<String>; 4]>;

/// Where who runs as an ordinary user after root leaves results for the one who started it.
fn file(directory: &Path) -> PathBuf {
    if std::env::var_os("AFTER_ROOT").is_some() { std::env::temp_dir().join("results") } else { directory.join("results") }
}

pub fn keep(directory: &Path, column: usize, id: &str, what: &str, verdict: &Verdict) {
    let mut file = fs::File::options().create(true).append(true).open(file(directory)).unwrap();
    writeln!(file, "{column}\t{id}\t{what}\t{verdict}").unwrap();
}

fn kept(directory: &Path) -> Results {
    let mut results = Results::new();
    for file in [directory.join("results"), directory.join("own/results")] {
        for line in fs::read_to_string(file).unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [column, id, what, verdict] = fields[..] else { panic!("{line}") };
            let row = results.entry((id.to_owned(), what.to_owned())).or_default();
            row[column.parse::<usize>().unwrap()] = Some(verdict.to_owned());
        }
    }
    results
}

/// Whether the page is to be written, and bubblewrap is asked too.
pub fn updating() -> bool {
    std::env::var_os("STEAD_UPDATE_DOCS").is_some()
}

/// Compares the page with what was found, or writes it. What was not run now stays as it was found elsewhere.
pub fn settle(directory: &Path, bubblewrap: Option<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hostile-cases.md");
    let before = Page::read(&fs::read_to_string(&path).unwrap_or_default());
    let found = kept(directory);
    let mut next = Page { rows: Results::new(), bubblewrap: bubblewrap.or_else(|| before.bubblewrap.clone()) };
    let mut stale = Vec::new();
    for (case, now) in &found {
        let old = before.rows.get(case).cloned().unwrap_or_default();
        for column in 0..2 {
            // Hosts differ in what can be tried there, and never in what comes of it.
            let contradicted = now[column].is_some() && now[column] != old[column] && !not_run(&now[column]) && !not_run(&old[column]);
            if contradicted {
                stale.push(format!("{} {}, {}: {:?} instead of {:?}", case.0, case.1, COLUMNS[column], now[column], old[column]));
            }
        }
        let cell = |column: usize| match (&now[column], &old[column]) {
            (Some(now), Some(old)) if now.starts_with("not run") || (old.starts_with("not run") && !updating()) => Some(old.clone()),
            (now, old) => now.clone().or_else(|| old.clone()),
        };
        next.rows.insert(case.clone(), std::array::from_fn(cell));
    }
    stale.extend(before.rows.keys().filter(|case| !found.contains_key(*case)).map(|case| format!("{} {}: is no probe", case.0, case.1)));
    elsewhere::check();
    if updating() {
        fs::write(&path, next.text()).unwrap();
    } else {
        assert!(stale.is_empty(), "docs/hostile-cases.md is not current, run `make generate`:\n{}", stale.join("\n"));
        assert_eq!(fs::read_to_string(&path).unwrap(), next.text(), "docs/hostile-cases.md is not current, run `make generate`");
    }
}

fn not_run(cell: &Option<String>) -> bool {
    cell.as_ref().is_some_and(|cell| cell.starts_with("not run"))
}
