//! Shared leases.

use super::*;
use stead_domain::lease::LeaseEnd;

#[test]
fn nobody_reads_for_longer_than_the_longest_time_of_all() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Shared, OnBusy::Fail).unwrap();
    for _ in 0..4 {
        case.now += 49_999;
        case.renew(1).unwrap();
    }
    case.now += 4;
    assert_eq!(case.renew(1), Err(Refusal::Stale));
    assert_eq!(case.effects, [Effect::Ended { lease: lease(1), how: LeaseEnd::Expired, clean: true }]);
}

#[test]
fn a_reader_waits_for_the_barrier_as_everybody_does() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.decide(Event::Break { lease: lease(1) }).unwrap();
    assert_eq!(case.acquire(BEN, 2, Token, Shared, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(2) }));
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: None, stop: true }));
    assert_eq!(case.acquire(ANN, 3, Token, Shared, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(3) }));
    assert_eq!((case.desk.fence, case.barrier()), (2, None), "one barrier for all of them");
    assert!(case.enter(ANN, 9).is_err());
    case.now += 5_000;
    case.running = false;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.effects, [Effect::Activated { lease: lease(2) }, Effect::Activated { lease: lease(3) }]);
    assert_eq!(case.present(2), Err(Refusal::ReadOnly));
}

#[test]
fn a_reader_that_preempts_is_not_refused_for_what_it_ended() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    assert_eq!(case.acquire(BEN, 2, Token, Shared, OnBusy::Preempt), Ok(Answer::Fencing { lease: lease(2) }));
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: None, stop: true }));
}

#[test]
fn a_reader_is_let_in_after_another_server_began() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.release(1).unwrap();
    case.desk.unconfirmed = true;
    assert_eq!(case.acquire(BEN, 2, Token, Shared, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(2) }));
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: None, stop: true }));
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert!(case.effects.contains(&Effect::Activated { lease: lease(2) }));
    // One that reads already goes on.
    case.desk.unconfirmed = true;
    case.decide(Event::Look).unwrap();
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: None, stop: false }));
}

#[test]
fn readers_that_wait_are_let_in_together_but_not_past_a_writer_between_them() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    for (number, mode) in [(2, Shared), (3, Shared), (4, Exclusive), (5, Shared)] {
        case.acquire(BEN, number, Token, mode, OnBusy::Wait).unwrap();
    }
    case.release(1).unwrap();
    assert_eq!(case.desk.leases.iter().map(|held| held.id).collect::<Vec<_>>(), [lease(2), lease(3)]);
    case.release(2).unwrap();
    case.release(3).unwrap();
    assert_eq!(case.present(4), Ok(Answer::Pass { fence: 2 }));
    case.release(4).unwrap();
    assert_eq!(case.desk.leases[0].id, lease(5));
}

#[test]
fn a_definition_that_becomes_open_and_back_leaves_no_writer_beside_what_others_started() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.desk.rules.open = true;
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Pass { fence: 1 }));
    assert_eq!(case.acquire(BEN, 2, Token, Exclusive, OnBusy::Fail), Ok(Answer::Pass { fence: 1 }));
    assert_eq!(case.present(1), Ok(Answer::Pass { fence: 1 }), "nobody is thrown out");
    case.running = true;
    case.desk.rules.open = false;
    assert_eq!(case.present(1), Err(Refusal::ReadOnly), "it is not alone any more");
    assert!(case.desk.exclusive().is_none() && case.desk.dirty.is_some());
    assert_eq!(case.acquire(ANN, 3, Token, Exclusive, OnBusy::Preempt), Ok(Answer::Fencing { lease: lease(3) }));
    assert!(case.barrier().is_some_and(|barrier| barrier.stop));
    // Nobody has to be asked where nobody is kept out.
    let mut case = Case::new(false);
    (case.desk.rules.open, case.desk.unconfirmed) = (true, true);
    assert_eq!(case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail), Ok(Answer::Pass { fence: 0 }));
    assert_eq!(case.present(1), Ok(Answer::Pass { fence: 0 }));
    // What was taken by a call that needed it is nothing that could be held where nobody is kept out.
    let mut case = Case::new(false);
    case.enter(ANN, 1).unwrap();
    case.running = true;
    case.desk.rules.open = true;
    assert_eq!(case.enter(BEN, 2), Ok(Answer::Pass { fence: 1 }));
    assert!(case.desk.leases.is_empty());
    case.desk.rules.open = false;
    assert_eq!(case.enter(BEN, 3), Ok(Answer::Fencing { lease: lease(3) }));
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: Some(lease(3)), stop: true }));
}
