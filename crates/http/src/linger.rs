//! Reads the rest of the body of a refused request for a while.
//!
//! Many requests are refused before their body is read. The HTTP library then closes the connection unless the whole body has arrived. A
//! client that is still sending would see a reset instead of the response, and its next request on the same connection would fail. The rest
//! of the body is therefore read and discarded while the response is sent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

/// Time for the rest of a body. The client gets its response at once. If it sends for longer, the connection is closed.
const TIME: Duration = Duration::from_secs(3);

/// A body whose rest is read when it is dropped. Reading ends at the end of the body, after [`TIME`], or after a number of bytes.
struct LingeringBody {
    body: Body,
    most_bytes: usize,
}

/// Returns a body whose rest is read when it is dropped, up to `most_bytes`.
pub fn lingering(body: Body, most_bytes: usize) -> Body {
    if body.is_end_stream() { body } else { Body::new(LingeringBody { body, most_bytes }) }
}

impl HttpBody for LingeringBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(Some(Err(_)) | None)) {
            // The body is complete.
            self.body = Body::empty();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for LingeringBody {
    fn drop(&mut self) {
        let mut body = std::mem::take(&mut self.body);
        let most = self.most_bytes;
        if body.is_end_stream() {
            return;
        }
        let discard = async move {
            let mut seen = 0;
            while let Some(Ok(frame)) = body.frame().await
                && seen <= most
            {
                seen += frame.data_ref().map_or(0, Bytes::len);
            }
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async { tokio::time::timeout(TIME, discard).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Returns a body of ten pieces of ten bytes, and the counter of the pieces that were taken.
    fn pieces() -> (Body, Arc<AtomicUsize>) {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let pieces = (0..10).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 10]))
        });
        (Body::from_stream(tokio_stream::iter(pieces)), taken)
    }

    async fn taken_after_dropping(most_bytes: usize) -> usize {
        let (body, taken) = pieces();
        drop(lingering(body, most_bytes));
        tokio::time::sleep(Duration::from_millis(50)).await;
        taken.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_dropped_body_is_read_to_its_end_or_to_the_limit() {
        assert_eq!(taken_after_dropping(1000).await, 10);
        assert!(taken_after_dropping(30).await < 6);
    }

    #[tokio::test]
    async fn a_lingering_body_has_unchanged_content() {
        let (body, _) = pieces();
        assert_eq!(lingering(body, 0).collect().await.unwrap().to_bytes().len(), 100);
        assert!(lingering(Body::empty(), 0).is_end_stream());
    }
}
