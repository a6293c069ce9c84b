//! A pool of threads that write indexes, at a lower priority than the threads that answer requests.
//!
//! A registration must not wait for its index. When all cores are busy, the writer threads get about a tenth of the processor time and
//! the indexes fall behind. The threads that tantivy starts from a writer thread (to index and to merge) inherit its priority.

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

/// The niceness that is added to a writer thread, on Linux.
#[cfg(target_os = "linux")]
const ADDED_NICENESS: i32 = 10;

/// The pool of writer threads of one search service. `None` if the system refused the threads: the work then runs on tokio's own threads.
pub(crate) struct WriterPool(Option<ThreadPool>);

impl WriterPool {
    /// Starts a pool of `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        let builder = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|number| format!("search-writer-{number}"))
            .start_handler(|_| lower_priority());
        Self(builder.build().ok())
    }

    /// Runs `work` on a writer thread and waits for its result. `None` if `work` panicked.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let Some(pool) = &self.0 else { return tokio::task::spawn_blocking(work).await.ok() };
        let (sender, receiver) = oneshot::channel();
        pool.spawn(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // Sending fails if the caller no longer waits; the result is then not needed.
            let _ = sender.send(outcome.ok());
        });
        receiver.await.ok().flatten()
    }
}

/// Lowers the priority of the calling thread. If the system refuses, the thread works at its usual priority.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(ADDED_NICENESS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_at_a_lower_priority_than_its_caller_and_a_panic_stops_only_itself() {
        let writers = WriterPool::new(1);
        assert_eq!(writers.run(|| panic!("on purpose")).await, None::<()>);
        assert_eq!(writers.run(|| 7).await, Some(7));
        #[cfg(target_os = "linux")]
        {
            /// The largest niceness that Linux knows.
            const MAX_NICENESS: i32 = 19;
            // The priority is compared with the priority of this thread, because the tests may run under `nice`.
            let caller = rustix::process::getpriority_process(None).unwrap();
            let expected = (caller + ADDED_NICENESS).min(MAX_NICENESS);
            assert_eq!(writers.run(|| rustix::process::getpriority_process(None).ok()).await, Some(Some(expected)));
        }
    }
}
