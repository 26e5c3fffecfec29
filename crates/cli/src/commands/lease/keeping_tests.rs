use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use stead_domain::error::{ErrorBody, ErrorContent};
use stead_domain::ids::LeaseId;
use stead_domain::{Clock, Randomness};

use super::*;

/// A time of day that is what the test says, beside a clock that tokio moves.
#[derive(Clone, Default)]
struct Day(Arc<AtomicI64>);

impl Clock for Day {
    fn now(&self) -> Timestamp {
        Timestamp::from_microseconds(self.0.load(Ordering::SeqCst))
    }
}

impl Randomness for Day {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn context() -> (Day, Context) {
    let day = Day::default();
    (day.clone(), Context::new(Arc::new(day.clone()), Arc::new(day)))
}

fn reply(directive: Directive) -> Result<RenewReply, ClientError> {
    Ok(RenewReply { id: LeaseId::from_bytes([1; 16]), fence: 3, expires_in_ms: 90_000, renew_after_ms: 30_000, directive })
}

fn lost() -> ClientError {
    ClientError::Lost { address: "here".to_owned(), cause: "gone".to_owned() }
}

fn refused(status: u16) -> ClientError {
    let error = ErrorContent { code: "lease_lost".to_owned(), message: "it has ended".to_owned(), details: None };
    ClientError::Reply { status, body: Box::new(ErrorBody { error }) }
}

fn term() -> Term {
    Term::new(Instant::now(), 90_000)
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_at_a_third_and_given_up_at_four_fifths_after_the_last_that_was_sent() {
    let (_, context) = context();
    let (began, sent) = (Instant::now(), RefCell::new(Vec::new()));
    let loss = keep(
        term(),
        &context,
        async || {
            sent.borrow_mut().push(began.elapsed().as_secs());
            // The third and all after it are lost.
            if sent.borrow().len() < 3 { reply(Directive::Continue) } else { Err(lost()) }
        },
        || {},
    )
    .await;
    assert!(matches!(loss, Loss::Silence(silence) if silence == Duration::from_secs(72)), "{loss:?}");
    assert_eq!(began.elapsed().as_secs(), 60 + 72);
    assert_eq!(sent.borrow()[..3], [30, 60, 90]);
    assert!(sent.borrow().len() > 10, "it is tried again and again: {:?}", sent.borrow());
}

#[tokio::test(start_paused = true)]
async fn time_counts_from_when_a_renewal_was_sent_and_not_from_its_answer() {
    let (_, context) = context();
    let (began, asked) = (Instant::now(), Cell::new(0));
    let loss = keep(
        term(),
        &context,
        async || {
            asked.set(asked.get() + 1);
            if asked.get() > 1 {
                return pending().await;
            }
            tokio::time::sleep(Duration::from_secs(20)).await;
            reply(Directive::Continue)
        },
        || {},
    )
    .await;
    assert!(matches!(loss, Loss::Silence(_)), "{loss:?}");
    assert_eq!(began.elapsed().as_secs(), 30 + 72, "an answer that never comes holds nothing up");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_counts_at_once() {
    let (_, context) = context();
    let began = Instant::now();
    assert!(matches!(keep(term(), &context, async || Err(refused(410)), || {}).await, Loss::Told(_)));
    assert_eq!(began.elapsed().as_secs(), 30);
    assert!(matches!(keep(term(), &context, async || reply(Directive::Stop), || {}).await, Loss::Stop));
    // A server that is busy or coming back says nothing about the lease.
    assert!(matches!(keep(term(), &context, async || Err(refused(503)), || {}).await, Loss::Silence(_)));
}

#[tokio::test(start_paused = true)]
async fn whoever_should_finish_up_is_told_once() {
    let (_, context) = context();
    let (told, asked) = (Cell::new(0), Cell::new(0));
    let renew = async || {
        asked.set(asked.get() + 1);
        if asked.get() < 5 { reply(Directive::FinishUp) } else { Err(refused(410)) }
    };
    keep(term(), &context, renew, || told.set(told.get() + 1)).await;
    assert_eq!(told.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_slept_renews_at_once_or_has_lost_it() {
    for answered in [true, false] {
        let (day, context) = context();
        let (began, asked) = (Instant::now(), RefCell::new(Vec::new()));
        let renew = async || {
            asked.borrow_mut().push(began.elapsed().as_secs());
            match asked.borrow().len() {
                1 if answered => reply(Directive::Continue),
                2 if answered => Err(refused(410)),
                _ => Err(lost()),
            }
        };
        let sleeping = async {
            tokio::time::sleep(Duration::from_millis(3500)).await;
            day.0.store(3_600_000_000, Ordering::SeqCst);
            pending::<()>().await
        };
        let loss = tokio::select! {
            loss = keep(term(), &context, renew, || {}) => loss,
            () = sleeping => unreachable!(),
        };
        assert_eq!(asked.borrow()[0], 4, "the next tick renews");
        if answered {
            assert!(matches!(loss, Loss::Told(_)), "{loss:?}");
            assert_eq!(asked.borrow()[1], 34, "and it is as good as any");
        } else {
            assert!(matches!(loss, Loss::Slept), "{loss:?}");
            assert_eq!(began.elapsed().as_secs(), 9);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_was_long_in_coming_is_renewed_before_it_is_believed() {
    let (_, context) = context();
    let old = Term::new(Instant::now(), 1000);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (began, asked) = (Instant::now(), Cell::new(0));
    let renew = async || {
        asked.set(asked.get() + 1);
        if asked.get() == 1 { reply(Directive::Continue) } else { Err(refused(410)) }
    };
    assert!(matches!(keep(old, &context, renew, || {}).await, Loss::Told(_)));
    assert_eq!((asked.get(), began.elapsed().as_secs()), (2, 30));
}
