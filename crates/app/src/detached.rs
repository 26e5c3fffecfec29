//! Work that runs to its end even when whoever asked for it hangs up. As long as somebody waits it is done where they wait: to hand it to
//! another task and be woken by it costs more than most of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A future that goes on by itself when it is dropped before its end.
pub(crate) struct Detached<T: Send + 'static> {
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    tasks: TaskTracker,
    /// Counts from the beginning: the server's end waits for it, whoever carries it on.
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> Detached<T> {
    pub(crate) fn new(tasks: &TaskTracker, work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), tasks: tasks.clone(), _token: tasks.token() }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Not put back when it panics: then there is nothing to go on with.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let outcome = work.as_mut().poll(context);
        if outcome.is_pending() {
            self.work = Some(work);
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        // Without a runtime everything ends, this too.
        if let (Some(work), Ok(_)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_goes_on_without_whoever_asked_and_is_waited_for() {
        let tasks = TaskTracker::new();
        assert_eq!(Detached::new(&tasks, async { 7 }).await, 7);
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = Detached::new(&tasks, async move {
            let _ = may_go_on.await;
            let _ = done.send(());
        });
        assert!(tokio::time::timeout(Duration::from_millis(10), work).await.is_err());
        tasks.close();
        assert!(tokio::time::timeout(Duration::from_millis(10), tasks.wait()).await.is_err(), "it is not done");
        go_on.send(()).unwrap();
        is_done.await.unwrap();
        tasks.wait().await;
    }
}
