//! Reads the keys from the store repeatedly, so that changes by other instances take effect within about a second. Also stores the times of
//! the last uses. No request waits for this.

use std::time::Duration;

use crate::state::App;
use doppel_service::shutdown::Phase;

/// Interval at which the keys are read from the store. A revoked key may work for this time at another instance.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Number of reads after which the last uses of keys are stored, so that there is at most one write a minute.
const NOTE_EVERY: u32 = 60;

/// Runs until the service has drained, and then stores the last uses once more.
pub async fn follow(app: App) {
    let mut asks = tokio::time::interval(ASK_EVERY);
    asks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_away = false;
    let mut was_older = false;
    for round in 1u32.. {
        tokio::select! {
            _ = asks.tick() => {}
            () = app.shutdown.reached(Phase::Draining) => break,
        }
        match app.engine.keys().await {
            Ok(ring) => {
                let known = app.keys.managed().version;
                let is_older = ring.version < known;
                match (is_older, was_older) {
                    // A single answer of the store may be older than a change by this instance.
                    (true, true) => app.keys.manage_anew(&ring),
                    (false, _) if ring.version != known => app.keys.manage(&ring),
                    _ => {}
                }
                (is_away, was_older) = (false, is_older);
            }
            // The known keys remain valid. The error is logged once.
            Err(error) if !is_away => {
                tracing::warn!(%error, "the keys in the store cannot be read; the service continues with the last known keys");
                is_away = true;
            }
            Err(_) => {}
        }
        if round % NOTE_EVERY == 0 {
            note_uses(&app).await;
        }
    }
    note_uses(&app).await;
}

async fn note_uses(app: &App) {
    let uses = app.keys.uses();
    if uses.is_empty() {
        return;
    }
    match app.engine.note_key_uses(&uses).await {
        Ok(ring) => app.keys.manage(&ring),
        // The next attempt stores these uses.
        Err(error) => tracing::debug!(%error, "when keys were last used cannot be noted"),
    }
}
