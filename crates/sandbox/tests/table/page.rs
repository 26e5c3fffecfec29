//! The page itself: to text and back.

use super::elsewhere::ELSEWHERE;
use super::{COLUMNS, Results};
use crate::bubblewrap;
use crate::probes::GROUPS;

pub struct Page {
    pub rows: Results,
    /// The version that the last two columns are about, and the kernel.
    pub bubblewrap: Option<String>,
}

const VERSION: &str = "The last two columns were found with ";

impl Page {
    pub fn read(text: &str) -> Self {
        let mut rows = Results::new();
        for line in text.lines().filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            if let [id, what, results @ ..] = &cells[..]
                && results.len() == COLUMNS.len()
                && id.len() == 3
            {
                let cell = |column: usize| Some(results[column].to_owned()).filter(|cell| !cell.is_empty());
                rows.insert(((*id).to_owned(), (*what).to_owned()), std::array::from_fn(cell));
            }
        }
        let version = text.lines().find_map(|line| line.strip_prefix(VERSION)).map(|rest| rest.trim_end_matches('.').to_owned());
        Self { rows, bubblewrap: version }
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "# Hostile cases

Generated from the results of `crates/sandbox/tests` by `make generate`. Each case is a program that runs inside and tries to get what it must not have; the same program runs in a place of Stead's and under bubblewrap, started by root and by an ordinary user. What `make test` finds of Stead must be what stands here.

- `refused`: the attempt failed.
- `contained`: nothing refused the attempt, and it reached nothing that is not the place's own, or no more than it may use.
- `possible`: it got what it wanted. That is not yet a way out, but something that one can begin with.
- `not run`: this could not be tried where the page was made, and why.

The place is one with the default posture, without a network and with a workspace; for the group R it may have 64 processes and 64 MiB. bubblewrap is run as its manual and its own example advise, with everything unshared and a session of its own; what it can do beyond that with options (a filter of one's own, `--disable-userns`, a group around it) is its caller's to add:

```
{}
```

{VERSION}{}.
",
            bubblewrap::shown(),
            self.bubblewrap.as_deref().unwrap_or("nothing: it was not there")
        );
        for (letter, title) in GROUPS {
            text.push_str(&format!(
                "\n## {title}\n\n| id | a program inside tries to | {} |\n|---|---|---|---|---|---|\n",
                COLUMNS.join(" | ")
            ));
            for ((id, what), cells) in self.rows.iter().filter(|((id, _), _)| id.starts_with(*letter)) {
                let cells = cells.iter().map(|cell| cell.as_deref().unwrap_or("not run: not tried yet")).collect::<Vec<_>>();
                text.push_str(&format!("| {id} | {what} | {} |\n", cells.join(" | ")));
            }
        }
        text.push_str(
            "\n## Cases that need more than a place\n\nA keeper, a log, a relay, a server, or a second place. bubblewrap has no such parts. Each is a test that fails if the case succeeds.\n\n| id | case | test |\n|---|---|---|\n",
        );
        for (id, case, file, test) in ELSEWHERE {
            text.push_str(&format!("| {id} | {case} | `{file}`: {} |\n", test.replace('_', " ")));
        }
        text
    }
}
