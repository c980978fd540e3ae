use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::*;

const SOON: Duration = Duration::from_secs(10);

async fn next(body: &mut Body) -> Option<Result<Bytes, CutReason>> {
    let frame = timeout(SOON, body.frame()).await.expect("something comes");
    frame.map(|frame| frame.map(|frame| frame.into_data().expect("data")))
}

#[tokio::test]
async fn what_is_sent_comes_out_and_ends_only_when_it_is_finished() {
    let (sender, mut body) = Body::channel(4);
    sender.send(Bytes::from_static(b"a")).await.expect("there");
    sender.send(Bytes::new()).await.expect("nothing is no piece");
    sender.send(Bytes::from_static(b"b")).await.expect("there");
    sender.finish();
    assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"a"))));
    assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"b"))));
    assert_eq!(next(&mut body).await, None);
    let (sender, mut body) = Body::channel(4);
    sender.send(Bytes::from_static(b"a")).await.expect("there");
    drop(sender);
    assert_eq!(next(&mut body).await, Some(Ok(Bytes::from_static(b"a"))));
    assert_eq!(next(&mut body).await, Some(Err(CutReason::Aborted)));
}

#[tokio::test]
async fn a_sender_waits_for_its_reader_and_learns_that_it_left() {
    let (sender, mut body) = Body::channel(2);
    let piece = Bytes::from_static(b"x");
    sender.send(piece.clone()).await.expect("room");
    sender.send(piece.clone()).await.expect("room");
    let third = sender.send(piece.clone());
    let mut third = std::pin::pin!(third);
    assert!(futures_util::poll!(third.as_mut()).is_pending(), "no room");
    assert_eq!(next(&mut body).await, Some(Ok(piece.clone())));
    timeout(SOON, third).await.expect("room again").expect("there");
    assert!(futures_util::poll!(std::pin::pin!(sender.closed())).is_pending());
    drop(body);
    timeout(SOON, sender.closed()).await.expect("it is told");
    assert_eq!(sender.send(piece).await, Err(ClientGone));
    assert_eq!(sender.send(Bytes::new()).await, Err(ClientGone));
}
