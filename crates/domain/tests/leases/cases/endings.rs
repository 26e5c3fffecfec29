//! How leases end, and what that leaves.

use super::*;
use stead_domain::lease::{LeaseEnd, Stage};

fn ended(number: u8, how: LeaseEnd, clean: bool) -> Effect {
    Effect::Ended { lease: lease(number), how, clean }
}

#[test]
fn a_release_that_leaves_work_lets_nobody_in_before_it_is_done() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    let release = Event::Release { lease: lease(1), work: true };
    assert_eq!(case.decide(release), Ok(Answer::Done), "nothing runs");
    assert_eq!(case.effects, [Effect::Barrier(Barrier { fence: 2, owner: None, stop: true })]);
    assert_eq!(case.decide(release), Ok(Answer::Done), "said once more");
    assert_eq!(case.effects, []);
    assert_eq!((case.present(1), case.renew(1)), (Err(Refusal::Stale), Err(Refusal::Stale)));
    assert_eq!(case.enter(BEN, 9), Err(Refusal::Held { by: Some(lease(1)) }));
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.effects, [ended(1, LeaseEnd::Released, true)]);
    let after = case.desk.clone();
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    case.decide(release).unwrap();
    assert_eq!((case.desk.clone(), case.effects.len()), (after, 0));
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Pass { fence: 3 }));
}

#[test]
fn one_that_is_being_stopped_has_no_end_of_its_own_any_more() {
    for local in [true, false] {
        let mut case = Case::new(local);
        case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
        case.running = true;
        case.release(1).unwrap();
        assert_eq!(case.desk.due(), None, "nothing happens by itself before the steward has answered");
        case.now += 1_000_000;
        case.decide(Event::Look).unwrap();
        (case.era, case.now) = (2, 1);
        case.decide(Event::Look).unwrap();
        assert_eq!((case.effects.len(), case.desk.due()), (0, None));
        case.running = false;
        case.decide(Event::BarrierDone { fence: 2 }).unwrap();
        assert_eq!(case.effects, [ended(1, LeaseEnd::Released, true)], "its holder let go of it, and that is what is told");
    }
}

#[test]
fn one_that_is_being_stopped_can_be_broken_and_what_it_left_is_stopped_all_the_same() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.release(1).unwrap();
    assert_eq!(case.decide(Event::Break { lease: lease(1) }), Ok(Answer::Done));
    assert_eq!(case.effects, [ended(1, LeaseEnd::Revoked, false)]);
    assert_eq!(case.decide(Event::Break { lease: lease(1) }), Err(Refusal::Stale));
    assert_eq!(case.acquire(BEN, 2, Token, Exclusive, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(2) }));
    // The answer to the first barrier: what began since is not covered by it.
    case.running = false;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    case.now += 5_000;
    assert_eq!(case.present(2), Ok(Answer::Fencing { lease: lease(2) }));
    case.decide(Event::BarrierDone { fence: 3 }).unwrap();
    assert_eq!(case.present(2), Ok(Answer::Pass { fence: 3 }));
}

#[test]
fn one_that_waits_for_the_barrier_can_go_and_whoever_comes_after_it_waits_as_well() {
    for how in [LeaseEnd::Released, LeaseEnd::Revoked] {
        let mut case = Case::new(false);
        case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
        case.running = true;
        case.decide(Event::Break { lease: lease(1) }).unwrap();
        case.acquire(BEN, 2, Token, Exclusive, OnBusy::Fail).unwrap();
        case.now += 1_000_000;
        assert!(case.renew(2).is_ok(), "its time has not begun");
        match how {
            LeaseEnd::Released => case.release(2),
            _ => case.decide(Event::Break { lease: lease(2) }),
        }
        .unwrap();
        assert_eq!(case.effects, [ended(2, how, true)], "it changed nothing");
        assert_eq!(case.acquire(ANN, 3, Token, Exclusive, OnBusy::Fail), Ok(Answer::Fencing { lease: lease(3) }));
        case.running = false;
        case.decide(Event::BarrierDone { fence: 3 }).unwrap();
        assert_eq!(case.present(3), Ok(Answer::Pass { fence: 3 }));
    }
}

#[test]
fn who_preempts_while_another_is_fenced_in_still_waits_for_what_was_before_both() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.acquire(BEN, 2, Token, Exclusive, OnBusy::Preempt).unwrap();
    assert_eq!(case.effects[0], ended(1, LeaseEnd::Revoked, false));
    case.acquire(ANN, 3, Token, Exclusive, OnBusy::Preempt).unwrap();
    assert_eq!(case.effects[0], ended(2, LeaseEnd::Revoked, true));
    assert_eq!(case.barrier(), Some(Barrier { fence: 3, owner: Some(lease(3)), stop: true }));
    case.now += 5_000;
    // The barrier of the one that is gone.
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.present(3), Ok(Answer::Fencing { lease: lease(3) }));
    assert_eq!(case.present(2), Err(Refusal::Stale));
    case.running = false;
    case.decide(Event::BarrierDone { fence: 3 }).unwrap();
    assert_eq!(case.present(3), Ok(Answer::Pass { fence: 3 }));
}

#[test]
fn without_a_delay_the_next_one_waits_for_the_barrier_alone() {
    let mut case = Case::new(false);
    case.desk.rules.lock_delay = 0;
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.running = true;
    case.acquire(BEN, 2, Token, Exclusive, OnBusy::Preempt).unwrap();
    assert_eq!(case.present(2), Ok(Answer::Fencing { lease: lease(2) }));
    case.running = false;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.present(2), Ok(Answer::Pass { fence: 2 }));
}

#[test]
fn the_time_of_whoever_is_let_in_begins_when_it_is() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    case.acquire(BEN, 2, Token, Exclusive, OnBusy::Preempt).unwrap();
    case.now += 10_000_000;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert!(case.effects.contains(&Effect::Activated { lease: lease(2) }));
    case.now += 59_999;
    assert_eq!(case.present(2), Ok(Answer::Pass { fence: 2 }));
    case.now += 1;
    assert_eq!(case.present(2), Err(Refusal::Stale));
    assert_eq!(case.effects, [ended(2, LeaseEnd::Expired, false)]);
}

#[test]
fn who_only_passes_by_is_kept_out_by_others_and_takes_nothing() {
    let knock = |who| Event::Knock { principal: who };
    let mut case = Case::new(false);
    assert_eq!(case.decide(knock(BEN)), Ok(Answer::Pass { fence: 0 }), "nobody holds it");
    assert!(case.desk.leases.is_empty() && case.effects.is_empty());
    case.enter(ANN, 1).unwrap();
    assert_eq!(case.decide(knock(BEN)), Ok(Answer::Pass { fence: 1 }), "nothing runs under it");
    assert_eq!(case.desk.leases.len(), 1, "and it stays");
    case.running = true;
    assert_eq!(case.decide(knock(BEN)), Err(Refusal::Held { by: Some(lease(1)) }));
    assert_eq!(case.decide(knock(ANN)), Ok(Answer::Pass { fence: 1 }));
    case.acquire(ANN, 2, Principal, Exclusive, OnBusy::Fail).unwrap();
    assert_eq!(case.decide(knock(ANN)), Ok(Answer::Pass { fence: 2 }));
    case.transfer(2, ANN, Token, 3).unwrap();
    assert_eq!(case.decide(knock(ANN)), Err(Refusal::Held { by: Some(lease(3)) }), "the same name without the token is somebody else");
    case.running = false;
    case.release(3).unwrap();
    case.acquire(BEN, 4, Token, Shared, OnBusy::Fail).unwrap();
    assert_eq!(case.decide(knock(ANN)), Err(Refusal::Held { by: Some(lease(4)) }), "nobody changes anything under a reader");
}

#[test]
fn what_an_unclean_end_left_is_swept_by_one_barrier_that_is_said_again() {
    let mut case = Case::new(false);
    case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
    assert_eq!((case.decide(Event::Sweep), case.barrier()), (Ok(Answer::Done), None), "somebody holds it");
    case.running = true;
    case.decide(Event::Break { lease: lease(1) }).unwrap();
    for _ in 0..3 {
        case.decide(Event::Sweep).unwrap();
        assert_eq!(case.effects, [Effect::Barrier(Barrier { fence: 2, owner: None, stop: true })]);
    }
    case.running = false;
    case.decide(Event::BarrierDone { fence: 2 }).unwrap();
    assert_eq!(case.desk.dirty, None);
    case.decide(Event::Sweep).unwrap();
    assert_eq!(case.effects, []);
    // The holder before may still believe that it holds it.
    assert_eq!(case.enter(BEN, 2), Ok(Answer::Fencing { lease: lease(2) }));
    assert_eq!((case.barrier(), case.desk.leases[0].stage), (None, Stage::Fencing));
    case.now += 5_000;
    assert_eq!(case.enter(BEN, 9), Ok(Answer::Pass { fence: 3 }));
}
