//! What people are told.

use super::*;
use stead_domain::lease::{Directive, LeaseEnd};

#[test]
fn a_call_without_a_lease_takes_one_that_others_of_the_same_name_join() {
    let mut case = Case::new(false);
    assert_eq!(case.enter(ANN, 1), Ok(Answer::Pass { fence: 1 }));
    case.running = true;
    assert_eq!(case.enter(ANN, 2), Ok(Answer::Pass { fence: 1 }), "the tests beside the server");
    assert_eq!(case.enter(BEN, 3), Err(Refusal::Held { by: Some(lease(1)) }));
    case.now += 1_000_000;
    assert_eq!(case.enter(ANN, 4), Ok(Answer::Pass { fence: 1 }), "it lives as long as something runs");
    case.running = false;
    case.decide(Event::Look).unwrap();
    case.now += 29_999;
    assert_eq!(case.enter(ANN, 5), Ok(Answer::Pass { fence: 1 }), "and lingers");
    assert_eq!(case.enter(BEN, 6), Ok(Answer::Pass { fence: 2 }), "but yields when nothing runs");
    assert!(case.effects.contains(&Effect::Ended { lease: lease(1), how: LeaseEnd::Released, clean: true }));
    case.now += 60_000;
    case.decide(Event::Look).unwrap();
    assert!(case.desk.leases.len() == 1, "nobody looked before, so its time begins now");
    case.now += 60_000;
    case.decide(Event::Look).unwrap();
    assert!(case.desk.leases.is_empty() && case.desk.dirty.is_none());
}

#[test]
fn an_implicit_lease_becomes_an_explicit_one_without_a_barrier() {
    for (bind, running, upgrades) in [(Principal, true, true), (Principal, false, true), (Token, false, true), (Token, true, false)] {
        let mut case = Case::new(false);
        case.enter(ANN, 1).unwrap();
        case.running = running;
        let answer = case.acquire(ANN, 2, bind, Exclusive, OnBusy::Fail);
        assert_eq!(answer.is_ok(), upgrades, "{bind} {running}");
        assert_eq!(case.barrier(), None);
        if upgrades {
            assert_eq!(answer, Ok(Answer::Pass { fence: 2 }));
        }
    }
}

#[test]
fn a_token_decides_alone() {
    let mut case = Case::new(false);
    assert_eq!(case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail), Ok(Answer::Pass { fence: 1 }));
    assert_eq!(case.enter(ANN, 9), Err(Refusal::Held { by: Some(lease(1)) }), "the same key without the token is somebody else");
    assert_eq!(case.decide(Event::Present { lease: lease(1) }), Ok(Answer::Pass { fence: 1 }));
    assert_eq!(case.acquire(ANN, 2, Token, Exclusive, OnBusy::Fail), Err(Refusal::Held { by: Some(lease(1)) }));
    case.decide(Event::Release { lease: lease(1), work: false }).unwrap();
    case.decide(Event::Release { lease: lease(1), work: false }).unwrap();
    assert_eq!(case.decide(Event::Present { lease: lease(1) }), Err(Refusal::Stale));
    assert_eq!(case.decide(Event::Renew { lease: lease(1) }), Err(Refusal::Stale));
}

#[test]
fn an_expired_lease_is_never_revived_and_what_it_left_is_stopped_first() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Principal, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.now += 60_000;
    assert_eq!(case.decide(Event::Renew { lease: lease(1) }), Err(Refusal::Stale));
    assert_eq!(case.effects, [Effect::Ended { lease: lease(1), how: LeaseEnd::Expired, clean: false }]);
    assert_eq!(case.acquire(BEN, 2, Principal, Exclusive, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(2) }));
    assert_eq!(case.barrier(), Some(Barrier { fence: 2, owner: Some(lease(2)), stop: true }));
    assert_eq!(case.enter(ANN, 8), Err(Refusal::Held { by: Some(lease(2)) }));
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Fencing { lease: lease(2) }));
    // Somebody answers for an earlier one.
    case.decide(Event::BarrierDone { fence: 1 }).unwrap();
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Fencing { lease: lease(2) }));
    case.running = false;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Fencing { lease: lease(2) }), "the holder before still has its time to notice");
    case.now += 5_000;
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Pass { fence: 2 }));
}

#[test]
fn a_release_with_something_running_stops_it_first() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Principal, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.decide(Event::Release { lease: lease(1), work: false }).unwrap();
    assert_eq!(case.effects, [Effect::Barrier(Barrier { fence: 2, owner: None, stop: true })]);
    assert_eq!(case.enter(ANN, 9), Err(Refusal::Held { by: Some(lease(1)) }));
    assert!(matches!(case.wait(BEN, 2, 0), Ok(Answer::Queued { .. })));
    case.running = false;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.effects[0], Effect::Ended { lease: lease(1), how: LeaseEnd::Released, clean: true });
    assert_eq!(case.decide(Event::Present { lease: lease(2) }), Ok(Answer::Pass { fence: 3 }), "at once, because it ended cleanly");
}

#[test]
fn those_who_wait_are_served_in_order_and_priority_is_worth_half_a_minute() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    for (number, priority, position) in [(2, 0, 0), (3, 0, 1), (4, 1, 0), (5, -1, 3)] {
        assert_eq!(case.wait(BEN, number, priority), Ok(Answer::Queued { ticket: ticket(number) }));
        assert_eq!(case.desk.waiting.iter().position(|waiting| waiting.id == ticket(number)), Some(position));
    }
    case.now += 31_000;
    case.wait(BEN, 6, 1).unwrap();
    assert_eq!(case.desk.waiting[3].id, ticket(6), "those who waited for longer come first");
    assert_eq!(case.decide(Event::Renew { lease: lease(1) }), Ok(Answer::Renewed { left: 60_000, directive: Directive::FinishUp }));
    case.decide(Event::Withdraw { ticket: ticket(2) }).unwrap();
    assert_eq!(case.decide(Event::Withdraw { ticket: ticket(2) }), Err(Refusal::NoTicket));
    assert_eq!(case.enter(ANN, 9), Err(Refusal::Held { by: Some(lease(1)) }));
    let mut order = Vec::new();
    for _ in 0..4 {
        let holder = case.desk.leases[0].id;
        case.decide(Event::Release { lease: holder, work: false }).unwrap();
        order.push(case.desk.leases[0].id);
    }
    assert_eq!(order, [4, 3, 6, 5].map(lease));
}

#[test]
fn readers_keep_writers_out_and_nobody_reads_past_a_writer_that_waits() {
    let mut case = Case::new(false);
    assert!(case.acquire(ANN, 1, Token, Shared, OnBusy::Fail).is_ok() && case.acquire(BEN, 2, Token, Shared, OnBusy::Fail).is_ok());
    assert_eq!(case.decide(Event::Present { lease: lease(1) }), Err(Refusal::ReadOnly));
    assert_eq!(case.enter(ANN, 9), Err(Refusal::Held { by: Some(lease(1)) }));
    assert!(matches!(case.wait(BEN, 3, 0), Ok(Answer::Queued { .. })));
    assert!(case.acquire(ANN, 4, Token, Shared, OnBusy::Fail).is_err());
    case.decide(Event::Release { lease: lease(1), work: false }).unwrap();
    // The other one's time is up: it changed nothing, so nothing has to be stopped.
    case.now += 60_000;
    case.decide(Event::Look).unwrap();
    assert_eq!(case.decide(Event::Present { lease: lease(3) }), Ok(Answer::Pass { fence: 1 }));
}

#[test]
fn no_renewal_passes_the_longest_time_of_all() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Principal, Exclusive, OnBusy::Fail).unwrap();
    let mut told = Vec::new();
    for _ in 0..4 {
        case.now += 49_000;
        told.push(case.decide(Event::Renew { lease: lease(1) }));
    }
    let renewed = |left, directive| Ok(Answer::Renewed { left, directive });
    let expected = [(60_000, Directive::Continue), (60_000, Directive::Continue), (53_000, Directive::FinishUp), (4_000, Directive::Stop)];
    assert_eq!(told, expected.map(|(left, directive)| renewed(left, directive)));
    case.now += 4_000;
    assert_eq!(case.decide(Event::Renew { lease: lease(1) }), Err(Refusal::Stale));
}

#[test]
fn another_start_of_the_machine_ends_what_was_held_on_it_and_gives_others_their_time_again() {
    for local in [true, false] {
        let mut case = Case::new(local);
        case.acquire(ANN, 1, Principal, Exclusive, OnBusy::Fail).unwrap();
        case.wait(BEN, 2, 0).unwrap();
        (case.era, case.now) = (2, 3);
        case.decide(Event::Look).unwrap();
        if local {
            assert_eq!(case.effects[0], Effect::Ended { lease: lease(1), how: LeaseEnd::Expired, clean: false });
            assert_eq!(case.decide(Event::Present { lease: lease(2) }), Ok(Answer::Fencing { lease: lease(2) }));
        } else {
            case.now += 59_999;
            assert_eq!(case.enter(ANN, 9), Ok(Answer::Pass { fence: 1 }));
            case.now += 1;
            assert!(case.enter(ANN, 9).is_err());
        }
    }
}

#[test]
fn a_server_that_begins_lets_nobody_go_on_before_the_steward_has_spoken() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Principal, Exclusive, OnBusy::Fail).unwrap();
    case.desk.unconfirmed = true;
    assert_eq!(case.enter(ANN, 9), Ok(Answer::Fencing { lease: lease(1) }));
    assert_eq!(case.effects, [Effect::Barrier(Barrier { fence: 1, owner: Some(lease(1)), stop: false })]);
    // The store came back from a backup: others have been there since.
    case.decide(Event::BarrierStale { sent: 1, highest: 7 }).unwrap();
    assert_eq!(case.barrier(), Some(Barrier { fence: 8, owner: Some(lease(1)), stop: true }));
    case.decide(Event::BarrierDone { fence: 8 }).unwrap();
    assert_eq!(case.enter(ANN, 9), Ok(Answer::Pass { fence: 8 }));
}
