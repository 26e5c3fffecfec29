//! Every state that the rules, a store, a server, a steward and a few clients can come to within small bounds: messages are lost, doubled and
//! overtake each other, everybody is killed, the clock goes on or begins anew, an older state comes back. Of the time only what is left
//! counts, so it has no bound.
//!
//! A search of our own rather than a library's: it asks of every state whether everything can still come to its end, which those do not.

mod cast;
mod faults;
mod forget;
mod quiet;
mod rules;
mod search;
mod server;
mod state;
mod steps;
mod steward;

use cast::{
    Budget, CALM, Client, Model, STEP, ann, ann_enters, ann_reads, ann_waits, ben, ben_enters, ben_follows, ben_hurries, ben_preempts,
};
use cast::{ben_reads, ben_waits};
use search::search;

const SERVER: Budget = Budget { server_crashes: 1, ..CALM };
const STEWARD: Budget = Budget { steward_crashes: 1, ..CALM };
const ERA: Budget = Budget { eras: 1, ..CALM };
const RESTORE: Budget = Budget { restores: 1, ..CALM };

fn model(clients: &[Client], budget: Budget) -> Model {
    Model { clients: clients.to_vec(), budget, local: false, lock_delay: STEP, fault: None }
}

/// Searches all of them, and says how many states there were.
fn holds(models: impl IntoIterator<Item = Model>) {
    let mut states = 0;
    for model in models {
        match search(&model) {
            Ok(found) => states += found,
            Err(found) => {
                let path: Vec<String> = found.path.iter().map(|step| format!("{step:?}")).collect();
                unreachable!("{:?} breaks {:?} by\n{}", model, found.broken, path.join("\n"));
            }
        }
    }
    std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{states} states\n")).ok();
}

#[test]
fn nothing_is_broken_whoever_is_killed() {
    holds([
        model(&[ann_waits(), ben_waits()], SERVER),
        model(&[ann_waits(), ben_follows(0)], SERVER),
        model(&[ann_enters(), ben_follows(0)], SERVER),
        model(&[ann_waits(), ben_preempts()], STEWARD),
    ]);
}

#[test]
fn nothing_is_broken_when_an_older_state_comes_back_or_the_clock_begins_anew() {
    holds([
        model(&[ann_waits(), ben_follows(0)], RESTORE),
        model(&[ann_enters(), ben_follows(0)], RESTORE),
        model(&[ann_waits(), ben_waits()], ERA),
        Model { local: true, ..model(&[ann_enters(), ann()], ERA) },
    ]);
}

#[test]
fn nothing_is_broken_by_three_at_once() {
    holds([
        model(&[ann_waits(), ann_reads(), ben_reads()], ERA),
        model(&[ann_waits(), ben_follows(0), ben_follows(1)], CALM),
        model(&[ann_enters(), ben_waits(), ben_follows(0)], CALM),
        Model { lock_delay: 0, ..model(&[ann_waits(), ben_preempts()], CALM) },
    ]);
}

/// Between any two, and, with STEAD_PROVE, whatever goes wrong, and with three of them.
#[test]
fn nothing_is_broken_between_any_two() {
    let prove = std::env::var_os("STEAD_PROVE").is_some();
    let first = [ann_waits(), ann_enters(), ann_reads()];
    let second = [ben_waits(), ben_preempts(), ben_enters(), ben_reads(), ben_follows(0), ann(), ben(), ben_hurries()];
    let pairs = first.iter().flat_map(|one| second.iter().map(|two| [*one, *two]));
    let mishaps = [
        Budget { server_crashes: 1, breaks: 1, ..CALM },
        Budget { steward_crashes: 1, eras: 1, ..CALM },
        Budget { steward_crashes: 1, restores: 1, ..CALM },
    ];
    let budgets: &[Budget] = if prove { &mishaps } else { &[CALM] };
    let mut models: Vec<Model> = pairs.flat_map(|pair| budgets.iter().map(move |budget| model(&pair, *budget))).collect();
    if prove {
        models.extend(three_at_once());
    }
    for (number, model) in models.iter_mut().enumerate() {
        (model.local, model.lock_delay) = (number.is_multiple_of(2), if number.is_multiple_of(5) { 0 } else { STEP });
    }
    // As many at a time as there are processors.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let models = &models;
            scope.spawn(move || holds(models.iter().skip(thread).step_by(threads).cloned()));
        }
    });
}

fn three_at_once() -> Vec<Model> {
    vec![
        model(&[ann_waits(), ben_waits(), ben_hurries()], ERA),
        model(&[ann_waits(), ann_reads(), ben_reads()], SERVER),
        model(&[ben_waits(), ann_enters(), ann()], SERVER),
        model(&[ann_waits(), ben_preempts(), ben_follows(0)], SERVER),
        model(&[ann_enters(), ben_waits(), ben_follows(0)], SERVER),
        model(&[ann_waits(), ben_follows(0), ben_follows(1)], SERVER),
        model(&[ann_waits(), ben_preempts(), ben_follows(1)], RESTORE),
    ]
}
