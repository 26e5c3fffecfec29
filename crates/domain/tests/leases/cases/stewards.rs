//! What stewards answer, late, twice and after an older state came back.

use super::*;
use stead_domain::lease::Stage;

fn stale(sent: u64, highest: u64) -> Event {
    Event::BarrierStale { sent, highest }
}

#[test]
fn a_refusal_of_what_was_sent_for_an_earlier_holder_does_not_touch_the_present_one() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.release(1).unwrap();
    case.acquire(BEN, 2, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    let before = case.desk.clone();
    // Something that was sent under the first arrived after something of the second.
    assert_eq!(case.decide(stale(1, 2)), Ok(Answer::Done));
    assert_eq!((&case.desk, case.effects.len()), (&before, 0));
    assert_eq!(case.present(2), Ok(Answer::Pass { fence: 2 }));
}

#[test]
fn a_holder_whose_number_somebody_else_had_gets_another() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.decide(stale(1, 1)).unwrap();
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: Some(lease(1)), stop: true }));
    assert_eq!(case.present(1), Ok(Answer::Fencing { lease: lease(1) }));
    let before = case.desk.clone();
    case.decide(stale(1, 1)).unwrap();
    assert_eq!(case.desk, before, "said twice");
    case.decide(Event::BarrierDone { fence: 1 }).unwrap();
    assert_eq!(case.desk, before, "an answer to an earlier one");
    case.decide(stale(2, 9)).unwrap();
    assert_eq!(case.desk.fence, 10, "and again, if it must be");
    case.decide(Event::BarrierDone { fence: 10 }).unwrap();
    assert_eq!(case.present(1), Ok(Answer::Pass { fence: 10 }));
}

#[test]
fn what_a_steward_says_gives_nobody_more_time() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.now += 50_000;
    for fence in [1, 2, 3] {
        case.decide(stale(fence, fence)).unwrap();
        case.decide(Event::BarrierDone { fence: fence + 1 }).unwrap();
        case.now += 50_000;
        case.renew(1).ok();
    }
    assert_eq!(case.present(1), Err(Refusal::Stale));
}

#[test]
fn a_steward_that_has_seen_more_is_heeded_when_nobody_holds_it_too() {
    let mut case = Case::new(false);
    case.desk.unconfirmed = true;
    case.decide(stale(0, 6)).unwrap();
    assert_eq!((case.desk.fence, case.desk.dirty), (7, Some(6)));
    assert_eq!(case.barrier(), None, "nobody waits for it");
    case.decide(Event::Sweep).unwrap();
    assert_eq!(case.barrier(), Some(Barrier { fence: 7, owner: None, stop: true }));
    case.decide(Event::BarrierDone { fence: 7 }).unwrap();
    assert_eq!(case.enter(ANN, 1), Ok(Answer::Pass { fence: 8 }));
}

#[test]
fn what_ends_before_the_steward_has_spoken_leaves_what_nobody_knows_of() {
    // The records came back with the store, and say that nothing runs.
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.desk.unconfirmed = true;
    case.release(1).unwrap();
    assert_eq!(case.desk.dirty, Some(1));
    case.acquire(BEN, 2, Token, Exclusive, OnBusy::Fail).unwrap();
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: Some(lease(2)), stop: true }));
    // It was let in, the store came back from before that, and it is fenced in once more: the steward knows it by its number.
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.decide(Event::Break { lease: lease(1) }).unwrap();
    case.acquire(ANN, 2, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    case.release(2).unwrap();
    case.acquire(BEN, 3, Token, Exclusive, OnBusy::Fail).unwrap();
    assert_eq!(case.barrier(), Some(Barrier { fence: 3, owner: Some(lease(3)), stop: true }));
}

#[test]
fn one_that_is_being_stopped_stays_so() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.release(1).unwrap();
    case.decide(stale(2, 5)).unwrap();
    assert_eq!((case.desk.leases[0].stage, case.barrier()), (Stage::Stopping, Some(Barrier { fence: 6, owner: None, stop: true })));
    case.running = false;
    case.decide(Event::BarrierDone { fence: 6 }).unwrap();
    assert!(case.desk.leases.is_empty() && case.desk.dirty.is_none());
}
