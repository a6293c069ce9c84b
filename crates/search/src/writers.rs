//! Threads that write indexes, at a lower priority than those that answer.
//!
//! A registration must not wait for its index. Where all cores are taken, writers get about a tenth of them and fall behind;
//! what the library starts from them (indexing, merging) has their priority.

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;

/// How far writers step back behind all else, where the system allows (Linux).
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// See the module.
pub(crate) struct Writers(Option<ThreadPool>);

impl Writers {
    /// So many threads.
    pub(crate) fn new(threads: usize) -> Self {
        let step_back = |_| {
            // Of the calling thread alone; where it is refused it writes at the usual priority.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(NICENESS);
        };
        let name = |n| format!("search-writer-{n}");
        Self(ThreadPoolBuilder::new().num_threads(threads).thread_name(name).start_handler(step_back).build().ok())
    }

    /// Runs `work` and waits for it; `None` where it panicked.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let Some(pool) = &self.0 else { return tokio::task::spawn_blocking(work).await.ok() };
        let (answer, done) = oneshot::channel();
        pool.spawn(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // Who does not wait any more is told nothing.
            let _ = answer.send(outcome.ok());
        });
        done.await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_at_a_lower_priority_and_a_panic_ends_nothing_else() {
        let writers = Writers::new(1);
        assert_eq!(writers.run(|| panic!("on purpose")).await, None::<()>);
        assert_eq!(writers.run(|| 7).await, Some(7));
        #[cfg(target_os = "linux")]
        assert_eq!(writers.run(|| rustix::process::getpriority_process(None).ok()).await, Some(Some(NICENESS)));
    }
}
