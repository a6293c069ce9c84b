//! One deadline for all store calls of one request.
//!
//! A store on a server answers each call within a deadline. A request to the service may need several calls, and its client waits for all of
//! them. The calls inside [`one_request`] therefore share one deadline. Time for computing and for waiting in a queue does not count;
//! [`uncounted`] subtracts it. Calls outside a request, such as those of tasks, each have the full time.
//!
//! A task that is spawned inside a request does not belong to the request, unless the task runs the future that [`continued`] returns. The
//! caller must pass the deadline to every other task.

use std::cell::Cell;
use std::time::Instant;

tokio::task_local! {
    /// The beginning of the request, moved later by the time that does not count.
    static BEGAN: Cell<Instant>;
}

/// Runs `work` as one request. Inside another request, `work` is a part of that request.
pub async fn one_request<F: Future>(work: F) -> F::Output {
    match began() {
        Some(_) => work.await,
        None => BEGAN.scope(Cell::new(Instant::now()), work).await,
    }
}

/// Makes `work` a part of the present request, even if `work` runs in a separate task. Outside of a request, `work` is unchanged.
pub fn continued<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let began = began();
    async move {
        match began {
            Some(began) => BEGAN.scope(Cell::new(began), work).await,
            None => work.await,
        }
    }
}

/// Waits for `wait` without counting the time for the request.
pub async fn uncounted<F: Future>(wait: F) -> F::Output {
    let from = Instant::now();
    let output = wait.await;
    let _ = BEGAN.try_with(|began| began.set(began.get() + from.elapsed()));
    output
}

/// Returns the time from which the deadline of the present request counts; `None` outside a request.
pub fn began() -> Option<Instant> {
    BEGAN.try_with(Cell::get).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const A_WHILE: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn all_calls_of_a_request_count_from_its_beginning() {
        assert_eq!(began(), None);
        one_request(async {
            let first = began();
            assert!(first.is_some());
            tokio::time::sleep(A_WHILE).await;
            assert_eq!(began(), first);
            one_request(async { assert_eq!(began(), first, "a part of it") }).await;
        })
        .await;
        assert_eq!(began(), None);
    }

    #[tokio::test]
    async fn a_task_of_its_own_may_go_on_with_the_request_that_began_it() {
        one_request(async {
            let first = began();
            let lost = tokio::spawn(async { began() }).await.expect("no panic");
            let kept = tokio::spawn(continued(async { began() })).await.expect("no panic");
            assert_eq!((lost, kept), (None, first));
        })
        .await;
        assert_eq!(continued(async { began() }).await, None);
    }

    #[tokio::test]
    async fn time_outside_the_store_does_not_count() {
        one_request(async {
            let before = began();
            uncounted(tokio::time::sleep(A_WHILE)).await;
            assert!(began() >= before.map(|before| before + A_WHILE));
        })
        .await;
        assert_eq!(uncounted(async { 1 }).await, 1, "outside of one it only waits");
    }
}
