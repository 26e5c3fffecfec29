//! The clock begins anew.

use super::*;
use stead_domain::lease::Stage;

#[test]
fn those_who_waited_before_are_served_before_those_who_come_after() {
    for local in [true, false] {
        let mut case = Case::new(local);
        case.now = 1_000_000_000;
        case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
        case.wait(BEN, 2, 0).unwrap();
        case.now += 40_000;
        case.wait(BEN, 3, 0).unwrap();
        case.wait(BEN, 4, 0).unwrap();
        (case.era, case.now) = (2, 7_000);
        case.wait(ANN, 5, 0).unwrap();
        case.wait(ANN, 6, 1).unwrap();
        let mut order: Vec<_> = case.desk.leases.iter().map(|held| held.id).filter(|id| *id != lease(1)).collect();
        order.extend(case.desk.waiting.iter().map(|waiting| waiting.lease));
        // What one step of priority is worth is not more than it was.
        assert_eq!(order, [2, 6, 3, 4, 5].map(lease), "{local}");
        (case.era, case.now) = (3, 1);
        let waited: Vec<_> = case.desk.waiting.iter().map(|waiting| waiting.id).collect();
        case.wait(ANN, 7, 0).unwrap();
        assert_eq!(case.desk.waiting.iter().map(|waiting| waiting.id).filter(|id| *id != ticket(7)).collect::<Vec<_>>(), waited);
        assert_eq!(case.desk.waiting.last().map(|last| last.id), Some(ticket(7)));
    }
}

#[test]
fn a_clock_that_goes_on_in_another_era_takes_nothing_from_who_waited() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.wait(BEN, 2, 0).unwrap();
    (case.era, case.now) = (2, case.now + 31_000);
    case.wait(BEN, 3, 1).unwrap();
    assert_eq!(case.desk.waiting[0].id, ticket(2), "it has waited for longer than a step of priority is worth");
}

#[test]
fn who_waits_for_the_barrier_goes_on_waiting_for_it() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.desk.unconfirmed = true;
    // Its longest time is known by now, and its renewals begin anew with the barrier.
    case.decide(Event::BarrierStale { sent: 1, highest: 4 }).unwrap();
    (case.era, case.now) = (2, 1);
    case.decide(Event::Look).unwrap();
    assert_eq!((case.desk.leases[0].stage, case.desk.due()), (Stage::Fencing, None));
    case.decide(Event::BarrierDone { fence: 5 }).unwrap();
    assert_eq!(case.present(1), Ok(Answer::Pass { fence: 5 }));
}

#[test]
fn everybody_has_their_time_again_and_no_more() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.wait(BEN, 2, 0).unwrap();
    case.now += 59_000;
    (case.era, case.now) = (2, 10);
    case.decide(Event::Look).unwrap();
    case.now += 59_999;
    assert!(case.renew(1).is_ok());
    case.now += 59_999;
    assert!(case.renew(1).is_ok());
    case.now += 59_999;
    assert!(case.renew(1).is_ok());
    case.now += 20_003;
    assert_eq!(case.renew(1), Err(Refusal::Stale), "the longest time of all counts from when the clock began");
    assert_eq!(case.desk.leases[0].id, lease(2));
}
