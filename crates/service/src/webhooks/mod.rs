//! Webhooks: messages about repeats and events, which the service sends to configured addresses.
//!
//! A worker for each webhook follows the change feed of its collections. Its progress is a named value of the collection
//! ([`doppel_store::values`]), so that the progress survives a restart and only one instance sends. The worker sends a refused message again with
//! growing pauses, and the later messages of the collection wait. No registration waits for a message. The progress contains the waiting messages
//! of a hundred changes at most; the change feed has the others.
//!
//! A message has no text of records. It has ids, numbers, times, and the names, places and categories of events. Its signature follows Standard
//! Webhooks: header `webhook-signature`, HMAC-SHA256 of id, time and body. The worker follows no redirects, and sends nothing to addresses in
//! private networks unless the configuration allows it.

mod message;
mod progress;
mod sender;
mod worker;

use std::collections::BTreeSet;
use std::sync::Arc;

use doppel_engine::Engine;
use tokio_util::sync::CancellationToken;

pub use self::progress::{Delivery, MAX_FREQUENT, MAX_LOGGED, WebhookProgress};
use self::sender::WebhookSender;
use self::worker::WebhookWorker;
pub use self::worker::{CollectionDeliveries, WebhookState, states};
use doppel_config::WebhookConfig;
use doppel_core::collection::CollectionName;
use doppel_store::{CollectionNumber, StoreError};

/// A collection, and the number that distinguishes it from an earlier collection with the same name.
type NumberedCollection = (CollectionName, CollectionNumber);

/// Returns the collections that exist when the process begins, before it takes requests.
///
/// # Errors
/// The store is not available.
pub async fn earlier_collections(engine: &Engine) -> Result<BTreeSet<CollectionNumber>, StoreError> {
    Ok(engine.store().collections().await?.into_iter().map(|state| state.number).collect())
}

/// Runs the workers of all webhooks until the service drains. `earlier` are the collections that existed when the process began.
pub async fn run(
    engine: Engine,
    webhooks: Arc<[WebhookConfig]>,
    earlier: BTreeSet<CollectionNumber>,
    draining: CancellationToken,
) {
    let holder = crate::clock::unique_id();
    let earlier = Arc::new(earlier);
    let mut workers = tokio::task::JoinSet::new();
    for config in webhooks.iter().cloned() {
        let engine = engine.clone();
        let holder = holder.clone();
        let draining = draining.clone();
        let earlier = Arc::clone(&earlier);
        workers.spawn(async move {
            match WebhookSender::new(&config) {
                Ok(sender) => WebhookWorker { engine, config, sender, holder, earlier }.run(&draining).await,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(
                        webhook = config.name,
                        error,
                        "a webhook is not served; mend the configuration and restart"
                    );
                }
            }
        });
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "the worker of a webhook panicked, so that it sends nothing more; restart the service");
        }
    }
}
