use std::io::Write as _;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use proptest::prelude::*;

use super::read::unpack_body;
use super::*;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let encoder = async_compression::tokio::bufread::GzipEncoder::new(bytes);
    whole(encoder)
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let encoder = async_compression::tokio::bufread::ZstdEncoder::new(bytes);
    whole(encoder)
}

fn whole(mut reader: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut out = Vec::new();
    now(tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut out)).expect("packed");
    out
}

fn now<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

fn unpacked(bytes: Vec<u8>, encoding: &'static str, limit: usize) -> Result<ReadBody, BodyError> {
    let headers = HeaderMap::from_iter([(CONTENT_ENCODING, encoding.parse().expect("a value"))]);
    now(unpack_body(
        bytes.into(),
        &headers,
        limit,
        &mut BodyBudget::from_limit(1 << 30).new_share(),
    ))
}

proptest! {
    #[test]
    fn what_was_packed_is_unpacked_within_the_limit(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        times in 1_usize..40,
        spare in -1_isize..2,
    ) {
        let plain = bytes.repeat(times);
        let limit = plain.len().saturating_add_signed(spare);
        let wanted = if plain.len() > limit {
            Err(BodyError::TooLarge { limit })
        } else {
            Ok(ReadBody::Plain(plain.clone().into()))
        };
        prop_assert_eq!(&unpacked(gzip(&plain), "gzip", limit), &wanted);
        prop_assert_eq!(&unpacked(gzip(&plain), "X-GZip", limit), &wanted);
        prop_assert_eq!(&unpacked(zstd(&plain), "zstd", limit), &wanted);
    }

    #[test]
    fn what_is_not_packed_is_an_error_or_within_the_limit(
        bytes in proptest::collection::vec(any::<u8>(), 1..200),
    ) {
        for encoding in ["gzip", "zstd"] {
            match unpacked(bytes.clone(), encoding, 1000) {
                Ok(ReadBody::Plain(plain)) => prop_assert!(plain.len() <= 1000),
                Ok(other) => prop_assert!(false, "{other:?}"),
                Err(BodyError::TooLarge { .. } | BodyError::Packed { .. }) => {}
                Err(other) => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn half_of_something_packed_is_an_error(cut in 1_usize..20) {
        let mut packed = gzip(b"some text that is packed, and then cut off before its end");
        packed.truncate(packed.len() - cut);
        prop_assert_eq!(unpacked(packed, "gzip", 1000), Err(BodyError::Packed { encoding: "gzip" }));
    }
}

#[test]
fn what_is_unpacked_is_counted() {
    let plain = vec![7; 3 << 20];
    let headers = HeaderMap::from_iter([(CONTENT_ENCODING, "zstd".parse().expect("a value"))]);
    for (budget, wanted) in
        [(4 << 20, Ok(ReadBody::Plain(plain.clone().into()))), (2 << 20, Err(BodyError::Full))]
    {
        let mut share = BodyBudget::from_limit(budget).new_share();
        assert_eq!(now(unpack_body(zstd(&plain).into(), &headers, 64 << 20, &mut share)), wanted);
    }
}

#[test]
fn several_members_are_one_body() {
    let mut packed = gzip(b"one ");
    packed.write_all(&gzip(b"two")).expect("memory");
    let wanted = ReadBody::Plain(Bytes::from_static(b"one two"));
    assert_eq!(unpacked(packed, "gzip", 100), Ok(wanted));
}
