//! Numbers that nobody sends in earnest.

use super::*;

fn wanted(ttl: u64, max_lifetime: Option<u64>) -> Wanted {
    Wanted { principal: ANN, bind: Token, mode: Exclusive, ttl, max_lifetime }
}

#[test]
fn no_duration_is_too_long_or_too_short() {
    for ttl in [0, 1, u64::MAX] {
        for max_lifetime in [None, Some(0), Some(u64::MAX)] {
            for lock_delay in [0, u64::MAX] {
                for at in [0, 1, u64::MAX] {
                    let mut case = Case::new(false);
                    (case.now, case.desk.rules.lock_delay) = (at, lock_delay);
                    let acquire = |number, on_busy, priority| Event::Acquire {
                        wanted: wanted(ttl, max_lifetime),
                        on_busy,
                        priority,
                        wait: u64::MAX,
                        lease: lease(number),
                        ticket: ticket(number),
                    };
                    case.decide(acquire(1, OnBusy::Fail, 0)).unwrap();
                    for (number, priority) in [(2, i8::MIN), (3, i8::MAX), (4, 0)] {
                        case.decide(acquire(number, OnBusy::Wait, priority)).unwrap();
                    }
                    case.decide(acquire(5, OnBusy::Preempt, 0)).unwrap();
                    for event in [Event::Renew { lease: lease(1) }, Event::Look, Event::Sweep] {
                        let _ = case.decide(event);
                    }
                    assert!(case.desk.leases.len() <= 1);
                }
            }
        }
    }
}

#[test]
fn a_steward_after_whose_fence_there_is_none_is_not_believed_and_nobody_is_let_in() {
    for highest in [u64::MAX, u64::MAX - 1, i64::MAX as u64] {
        let mut case = Case::new(false);
        case.acquire(ANN, 1, Token, Exclusive, OnBusy::Fail).unwrap();
        case.desk.unconfirmed = true;
        assert_eq!(case.decide(Event::BarrierStale { sent: 1, highest }), Err(Refusal::NoFence));
        assert_eq!(case.desk.fence, 1);
        assert_eq!(case.present(1), Ok(Answer::Fencing { lease: lease(1) }));
    }
}
