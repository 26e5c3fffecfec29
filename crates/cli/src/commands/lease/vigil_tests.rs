use stead_domain::error::{ErrorBody, ErrorContent};
use stead_domain::ids::LeaseId;

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The time of day so long after the beginning.
fn day(count: u64) -> Timestamp {
    Timestamp::EPOCH.plus(seconds(count))
}

fn reply(directive: Directive) -> Result<RenewReply, ClientError> {
    Ok(RenewReply { id: LeaseId::from_bytes([1; 16]), fence: 3, expires_in_ms: 90_000, renew_after_ms: 30_000, directive })
}

fn lost() -> Result<RenewReply, ClientError> {
    Err(ClientError::Lost { address: "here".to_owned(), cause: "gone".to_owned() })
}

fn refused(status: u16) -> Result<RenewReply, ClientError> {
    let error = ErrorContent { code: "lease_lost".to_owned(), message: "it has ended".to_owned(), details: None };
    Err(ClientError::Reply { status, body: Box::new(ErrorBody { error }) })
}

/// One that was granted for a minute and a half, just now.
fn granted() -> (Instant, Vigil) {
    let began = Instant::now();
    (began, Vigil::new(Term::new(began, 90_000), began, day(0)))
}

#[test]
fn it_is_renewed_at_a_third_and_given_up_at_four_fifths() {
    let (began, mut vigil) = granted();
    assert_eq!((vigil.next(), vigil.end()), (began + seconds(30), began + seconds(72)));
    // Counted from when the renewal was sent, however late it is answered.
    let sent = began + seconds(30);
    assert!(!vigil.answered(began + seconds(50), sent, reply(Directive::Continue)).unwrap());
    assert_eq!((vigil.next(), vigil.end()), (sent + seconds(30), sent + seconds(72)));
    // What nobody answers is sent again, and moves the end by nothing.
    for second in 60..100 {
        let now = began + seconds(second);
        assert!(!vigil.answered(now, now, lost()).unwrap());
        assert_eq!((vigil.next(), vigil.end()), (now + seconds(1), sent + seconds(72)));
    }
    assert!(matches!(vigil.over(), Loss::Silence(silence) if silence == seconds(72)));
}

#[test]
fn what_the_server_says_counts_at_once() {
    let (began, mut vigil) = granted();
    for status in [403, 404, 410, 412] {
        assert!(matches!(vigil.answered(began, began, refused(status)), Err(Loss::Told(_))), "{status}");
    }
    assert!(matches!(vigil.answered(began, began, reply(Directive::Stop)), Err(Loss::Stop)));
    // A server that is busy or coming back says nothing about the lease.
    for status in [429, 500, 502, 503] {
        assert!(!vigil.answered(began, began, refused(status)).unwrap(), "{status}");
    }
}

#[test]
fn whoever_should_finish_up_is_told_once() {
    let (began, mut vigil) = granted();
    let told: Vec<bool> = (0..3).map(|_| vigil.answered(began, began, reply(Directive::FinishUp)).unwrap()).collect();
    assert_eq!(told, [true, false, false]);
}

#[test]
fn a_machine_that_slept_has_lost_it_unless_a_renewal_succeeds() {
    let (began, mut vigil) = granted();
    for second in 1..=3 {
        assert!(!vigil.tick(began + seconds(second), day(second)));
    }
    // A clock that was put back, or a tick that came a little late, is no sleep.
    assert!(!vigil.tick(began + seconds(4), day(1)));
    assert!(!vigil.tick(began + seconds(5), day(7)));
    // An hour that the clock which only goes forward has not seen.
    let awake = began + seconds(6);
    assert!(vigil.tick(awake, day(3600)));
    assert_eq!(vigil.end(), awake + seconds(5));
    assert!(matches!(vigil.over(), Loss::Slept));
    assert!(!vigil.tick(began + seconds(7), day(3601)), "it is renewed at once, and once");
    // Whoever answers, it is as good as any.
    assert!(!vigil.answered(awake + seconds(1), awake, reply(Directive::Continue)).unwrap());
    assert_eq!(vigil.end(), awake + seconds(72));
    assert!(matches!(vigil.over(), Loss::Silence(_)));
}

#[test]
fn a_sleep_never_makes_it_last_longer() {
    let (began, mut vigil) = granted();
    let nearly = began + seconds(71);
    assert!(vigil.tick(nearly, day(3600)));
    assert_eq!(vigil.end(), began + seconds(72));
}

#[test]
fn one_that_was_long_in_coming_is_renewed_before_it_is_believed() {
    let began = Instant::now();
    let now = began + seconds(10);
    let mut vigil = Vigil::new(Term::new(began, 1000), now, day(0));
    assert_eq!((vigil.next(), vigil.end()), (now, now + seconds(1)));
    assert!(!vigil.answered(now, now, reply(Directive::Continue)).unwrap());
    assert_eq!(vigil.end(), now + seconds(72));
}
