//! From one holder to the next without a barrier between them.

use super::*;
use stead_domain::lease::LINGER;

#[test]
fn a_chain_of_transfers_ends_when_the_first_would_have() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    for number in 1..=9 {
        case.now += 20_000;
        case.transfer(number, BEN, Token, number + 1).unwrap();
    }
    case.now += 19_999;
    assert!(case.present(10).is_ok());
    case.renew(10).unwrap();
    case.now += 1;
    assert_eq!(case.present(10), Err(Refusal::Stale), "nobody had it for longer than the first was promised");
}

#[test]
fn a_transfer_goes_past_those_who_wait_and_keeps_them_waiting() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.wait(BEN, 2, 0).unwrap();
    case.running = true;
    assert_eq!(case.transfer(1, BEN, Principal, 3), Ok(Answer::Pass { fence: 2 }));
    assert_eq!(case.barrier(), None, "what runs goes on");
    assert_eq!((case.desk.waiting.len(), case.present(1)), (1, Err(Refusal::Stale)));
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Pass { fence: 2 }));
    // A lost reply: it is said again.
    assert_eq!(case.transfer(1, BEN, Principal, 3), Ok(Answer::Pass { fence: 2 }));
    assert_eq!((case.desk.fence, case.effects.len()), (2, 0));
    assert_eq!(case.transfer(1, BEN, Principal, 4), Err(Refusal::Stale));
    case.release(3).unwrap();
    case.running = false;
    case.decide(Event::BarrierDone { fence: 3 }).unwrap();
    assert_eq!(case.present(2), Ok(Answer::Pass { fence: 4 }));
}

#[test]
fn only_who_holds_it_can_hand_it_on() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.acquire(BEN, 2, Token, Exclusive, OnBusy::Preempt).unwrap();
    assert_eq!(case.transfer(1, BEN, Token, 8), Err(Refusal::Stale), "ended");
    case.now += 5_000;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    case.decide(Event::Release { lease: lease(2), work: true }).unwrap();
    assert_eq!(case.transfer(2, ANN, Token, 8), Err(Refusal::Stale), "given back already");
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Shared, OnBusy::Fail).unwrap();
    assert_eq!(case.transfer(1, BEN, Token, 8), Err(Refusal::ReadOnly));
}

#[test]
fn what_was_taken_implicitly_and_handed_on_lives_as_long_as_it_runs() {
    for bind in [Principal, Token] {
        let mut case = Case::new(false);
        case.enter(ANN, 1).unwrap();
        case.running = true;
        assert_eq!(case.transfer(1, BEN, bind, 2), Ok(Answer::Pass { fence: 2 }));
        case.now += 1_000_000;
        assert_eq!(case.present(2), Ok(Answer::Pass { fence: 2 }));
        assert!(matches!(case.renew(2), Ok(Answer::Renewed { left: LINGER, .. })));
        case.running = false;
        case.decide(Event::Look).unwrap();
        case.now += LINGER;
        case.decide(Event::Look).unwrap();
        assert!(case.desk.leases.is_empty() && case.desk.dirty.is_none());
    }
}

#[test]
fn a_server_that_comes_back_stops_nothing_that_was_taken_over() {
    // By a transfer, and by becoming explicit.
    for transferred in [true, false] {
        let mut case = Case::new(false);
        case.enter(ANN, 1).unwrap();
        case.running = true;
        if transferred {
            case.transfer(1, BEN, Token, 2).unwrap();
        } else {
            case.acquire(ANN, 2, Principal, Exclusive, OnBusy::Fail).unwrap();
        }
        case.desk.unconfirmed = true;
        assert_eq!(case.present(2), Ok(Answer::Fencing { lease: lease(2) }));
        assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: Some(lease(2)), stop: false }));
        // Not before it has answered: another number would hide those of whoever was there if the store is an older one.
        assert_eq!(case.transfer(2, ANN, Token, 3), Err(Refusal::NotYet));
        assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: Some(lease(2)), stop: false }));
        case.decide(Event::BarrierDone { fence: 2 }).unwrap();
        assert_eq!(case.transfer(2, ANN, Token, 3), Ok(Answer::Pass { fence: 3 }));
    }
    let mut case = Case::new(false);
    case.enter(ANN, 1).unwrap();
    (case.running, case.desk.unconfirmed) = (true, true);
    assert_eq!(case.acquire(ANN, 2, Principal, Exclusive, OnBusy::Fail), Err(Refusal::NotYet));
    case.decide(Event::BarrierDone { fence: 1 }).unwrap();
    assert_eq!(case.acquire(ANN, 2, Principal, Exclusive, OnBusy::Fail), Ok(Answer::Pass { fence: 2 }));
}

#[test]
fn an_acquire_that_is_said_again_is_told_how_it_stands() {
    let mut case = Case::new(false);
    assert_eq!(case.acquire(ANN, 1, Token, Exclusive, OnBusy::Wait), Ok(Answer::Pass { fence: 1 }));
    assert_eq!(case.acquire(ANN, 1, Token, Exclusive, OnBusy::Wait), Ok(Answer::Pass { fence: 1 }));
    for _ in 0..2 {
        assert_eq!(case.acquire(BEN, 2, Token, Exclusive, OnBusy::Wait), Ok(Answer::Queued { ticket: ticket(2) }));
    }
    assert_eq!((case.desk.waiting.len(), case.desk.leases.len(), case.effects.len()), (1, 1, 0));
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Preempt).unwrap();
    assert_eq!((case.desk.fence, case.effects.len()), (1, 0), "nobody preempts itself");
    case.release(1).unwrap();
    assert_eq!(case.acquire(BEN, 2, Token, Exclusive, OnBusy::Wait), Ok(Answer::Pass { fence: 2 }));
}

#[test]
fn an_implicit_lease_with_nothing_running_yields_to_who_waits_and_its_holder_does_not_pass_by() {
    let mut case = Case::new(false);
    case.enter(ANN, 1).unwrap();
    case.running = true;
    case.wait(BEN, 2, 0).unwrap();
    // Still the holder's own: it becomes explicit in place.
    let mut upgraded = Case { desk: case.desk.clone(), effects: Vec::new(), ..case };
    assert_eq!(upgraded.acquire(ANN, 3, Principal, Exclusive, OnBusy::Fail), Ok(Answer::Pass { fence: 2 }));
    assert_eq!(upgraded.desk.waiting.len(), 1);
    assert!(case.acquire(ANN, 3, Token, Exclusive, OnBusy::Fail).is_err(), "a token cannot take over what others of the name run");
    case.running = false;
    assert_eq!(case.acquire(ANN, 3, Principal, Exclusive, OnBusy::Fail), Err(Refusal::Held { by: Some(lease(2)) }));
    assert_eq!(case.present(2), Ok(Answer::Pass { fence: 2 }));
}

#[test]
fn an_implicit_lease_that_waits_for_the_barrier_becomes_explicit_as_well() {
    let mut case = Case::new(false);
    case.acquire(BEN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.decide(Event::Break { lease: lease(1) }).unwrap();
    assert_eq!(case.enter(ANN, 2), Ok(Answer::Fencing { lease: lease(2) }));
    assert_eq!(case.acquire(ANN, 3, Token, Exclusive, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(3) }));
    assert_eq!(case.barrier(), Some(Barrier { fence: 3, owner: Some(lease(3)), stop: true }));
    assert!(case.acquire(BEN, 4, Token, Exclusive, OnBusy::Fail).is_err());
}
