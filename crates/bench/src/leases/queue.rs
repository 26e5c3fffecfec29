//! A very long queue: drawn by many at once, then served in order.

use std::cell::Cell;
use std::io::{Error, Result};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use super::chain::hand_on;
use super::stead::{Drawn, Holder, LONG, Target};
use crate::report::Goal;

/// How many draw at once.
const DRAWING: usize = 256;
/// How many are served.
const SERVED: usize = 200;

#[derive(Serialize)]
pub struct Queue {
    pub store: &'static str,
    pub tickets: usize,
    pub drawn_by: usize,
    pub drawn_in_seconds: f64,
    pub served: usize,
    pub p50_milliseconds: f64,
    pub p99_milliseconds: f64,
    /// Always: a run in which somebody was passed over ends there.
    pub in_order: bool,
}

/// A ticket as whoever drew it saw it.
struct Place {
    ticket: String,
    sent: Instant,
    replied: Instant,
    /// How many were before it when it was drawn. Nobody leaves meanwhile, so there are no fewer later.
    position: usize,
}

pub async fn measure(target: &Target, store: &'static str, tickets: usize) -> Result<Queue> {
    let environment = target.environment(0);
    let mut first = target.holder(environment).await?;
    let Drawn::Held = first.draw(LONG).await? else { return Err(Error::other("somebody holds it already")) };
    let mut drawing = Vec::new();
    for _ in 0..DRAWING {
        drawing.push(target.holder(environment).await?);
    }
    let started = Instant::now();
    let places = draw(drawing, tickets).await?;
    let drawn_in_seconds = started.elapsed().as_secs_f64();
    let next = front(&mut target.holder(environment).await?, &places).await?;
    check_fairness(&next, &places);
    let mut waiting = Vec::new();
    for place in &next {
        waiting.push((target.holder(environment).await?, place.ticket.clone()));
    }
    // The server has hung up on who said nothing for so long.
    target.connect_again(&mut first).await?;
    let (_, times) = hand_on(first, waiting).await?;
    Ok(Queue {
        store,
        tickets: places.len(),
        drawn_by: DRAWING,
        drawn_in_seconds,
        served: times.len(),
        p50_milliseconds: times.at(0.50),
        p99_milliseconds: times.at(0.99),
        in_order: true,
    })
}

async fn draw(connections: Vec<Holder>, tickets: usize) -> Result<Vec<Place>> {
    let left = Rc::new(Cell::new(tickets));
    let mut tasks = JoinSet::new();
    for mut holder in connections {
        let left = Rc::clone(&left);
        tasks.spawn_local(async move {
            let mut drawn = Vec::new();
            while let Some(fewer) = left.get().checked_sub(1) {
                left.set(fewer);
                let sent = Instant::now();
                let Drawn::Waits(ticket) = holder.draw(LONG).await? else { return Err(Error::other("two hold it")) };
                drawn.push(Place { ticket: ticket.id, sent, replied: Instant::now(), position: ticket.position });
            }
            Ok::<_, Error>(drawn)
        });
    }
    let mut places = Vec::with_capacity(tickets);
    while let Some(done) = tasks.join_next().await {
        places.extend(done.map_err(Error::other)??);
    }
    Ok(places)
}

/// Those who are served first, in the order in which the store has them now that all are there.
async fn front<'p>(looker: &mut Holder, places: &'p [Place]) -> Result<Vec<&'p Place>> {
    let mut next = vec![None; SERVED.min(places.len())];
    for place in places.iter().filter(|place| place.position < SERVED) {
        let now = looker.look(&place.ticket, Duration::ZERO).await?.ok_or_else(|| Error::other("it is held, and somebody else has it"))?;
        if let Some(there) = next.get_mut(now.position) {
            assert!(there.replace(place).is_none(), "two have the same place: {}", now.position);
        }
    }
    next.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| Error::other("a place in the queue is nobody's"))
}

/// Whoever had a ticket before another one asked for theirs is served before that one.
fn check_fairness(next: &[&Place], places: &[Place]) {
    let is_next = |place: &Place| next.iter().any(|one| one.ticket == place.ticket);
    let mut soonest = places.iter().filter(|place| !is_next(place)).map(|place| place.replied).min();
    for place in next.iter().rev() {
        assert!(soonest.is_none_or(|soonest| place.sent <= soonest), "ticket {} is before one that was drawn earlier", place.ticket);
        soonest = Some(soonest.map_or(place.replied, |soonest| soonest.min(place.replied)));
    }
}

impl Queue {
    pub fn goal(&self) -> Goal {
        let name = format!("hand-overs in order with {} tickets waiting, {}", self.tickets, self.store);
        Goal::at_least(name, SERVED.min(self.tickets) as f64, "", if self.in_order { self.served as f64 } else { 0.0 })
    }

    pub fn said(&self) -> String {
        format!(
            "{}: {} tickets drawn by {} at once in {:.1} s ({:.0} a second); the first {} hand-overs p50 {:.2} ms, p99 {:.2} ms, in order",
            self.store,
            self.tickets,
            self.drawn_by,
            self.drawn_in_seconds,
            self.tickets as f64 / self.drawn_in_seconds,
            self.served,
            self.p50_milliseconds,
            self.p99_milliseconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(begin: Instant, ticket: &str, sent: u64, replied: u64) -> Place {
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        Place { ticket: ticket.to_owned(), sent: at(sent), replied: at(replied), position: 0 }
    }

    #[test]
    fn those_who_draw_at_the_same_time_may_be_in_either_order() {
        let begin = Instant::now();
        let places = [place(begin, "a", 0, 5), place(begin, "b", 2, 6), place(begin, "c", 7, 9)];
        check_fairness(&[&places[0], &places[1]], &places);
        check_fairness(&[&places[1], &places[0]], &places);
    }

    #[test]
    #[should_panic(expected = "ticket c is before one that was drawn earlier")]
    fn one_that_is_passed_over_by_a_later_one_is_noticed() {
        let begin = Instant::now();
        let places = [place(begin, "a", 0, 5), place(begin, "b", 2, 6), place(begin, "c", 7, 9)];
        check_fairness(&[&places[0], &places[2]], &places);
    }
}
