//! A lease that goes from one to the next, all of whom wait already.

use std::cell::RefCell;
use std::io::{Error, Result};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::session::Session;
use super::stead::Holder;
use crate::places::samples::Samples;

/// How long those who wait have to be heard before the first lets go.
const HEARD: Duration = Duration::from_millis(300);

struct Baton {
    /// Who is next.
    next: usize,
    fence: u64,
    released: Instant,
    times: Samples,
}

/// Hands it from `first` to each of those who wait, in this order, and gives the time of each from the release to the reply. Nobody may be
/// passed over, and nobody else may come between.
pub async fn hand_on(mut first: Holder, waiting: Vec<(Holder, String)>) -> Result<(Vec<Holder>, Samples)> {
    let fence = first.held()?.fence;
    let baton = Rc::new(RefCell::new(Baton { next: 0, fence, released: Instant::now(), times: Samples::default() }));
    let mut tasks = JoinSet::new();
    for (place, (mut holder, ticket)) in waiting.into_iter().enumerate() {
        let baton = Rc::clone(&baton);
        tasks.spawn_local(async move {
            holder.take(&ticket).await?;
            let fence = holder.held()?.fence;
            {
                let mut baton = baton.borrow_mut();
                let took = baton.released.elapsed();
                baton.times.add(took);
                assert_eq!((place, fence), (baton.next, baton.fence + 1), "place and fence of who was served are not the next ones");
                (baton.next, baton.fence) = (place + 1, fence);
                baton.released = Instant::now();
            }
            holder.release().await?;
            Ok::<_, Error>((place, holder))
        });
    }
    tokio::time::sleep(HEARD).await;
    baton.borrow_mut().released = Instant::now();
    first.release().await?;
    let mut served = Vec::new();
    while let Some(done) = tasks.join_next().await {
        served.push(done.map_err(Error::other)??);
    }
    served.sort_by_key(|(place, _)| *place);
    let holders = std::iter::once(first).chain(served.into_iter().map(|(_, holder)| holder)).collect();
    let times = std::mem::take(&mut baton.borrow_mut().times);
    Ok((holders, times))
}
