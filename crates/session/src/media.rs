//! The identity of a part of a tool result that is no text: an image, a document, the output of a
//! command.

use softland_core::Digest;
use softland_wire::json::{Cursor, Error, Kind};

/// Returns the digest of a part by all that it holds, such as the bytes of an image. Marks of the
/// cache are left out, because clients move them on, and so is the query of an address, which may
/// be signed anew for each request.
pub(crate) fn digest_media(part: &str) -> Digest {
    let value = digest_value(&mut Cursor::new(part));
    let value = value.unwrap_or_else(|_| Digest::from_bytes(part.as_bytes()));
    Digest::from_bytes(b"media").followed_by(value)
}

fn digest_value(cursor: &mut Cursor<'_>) -> Result<Digest, Error> {
    match cursor.peek()? {
        Kind::Object => {
            let mut sum = Digest::EMPTY;
            cursor.read_members(|cursor, member| {
                if !member.key.eq_str("cache_control") {
                    let key = Digest::from_bytes(member.key.raw().as_bytes());
                    sum = sum.combined_with(key.followed_by(digest_value(cursor)?));
                }
                Ok::<_, Error>(())
            })?;
            Ok(sum)
        }
        Kind::Array => {
            let mut sum = Digest::EMPTY;
            cursor.read_elements(|cursor| {
                sum = sum.followed_by(digest_value(cursor)?);
                Ok::<_, Error>(())
            })?;
            Ok(sum)
        }
        Kind::String => {
            let (text, _) = cursor.read_string()?;
            Ok(Digest::from_bytes(without_query(text.raw()).as_bytes()))
        }
        Kind::Number | Kind::Bool | Kind::Null => {
            let text = cursor.text();
            Ok(Digest::from_bytes(cursor.skip_value()?.slice_of(text).as_bytes()))
        }
    }
}

/// Returns an address without its query, and any other text as it is.
fn without_query(text: &str) -> &str {
    let address = text.starts_with("https:") || text.starts_with("http:");
    text.split_once('?').filter(|_| address).map_or(text, |(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::digest_media;

    #[test]
    fn an_image_is_its_bytes() {
        let image = |data: &str, more: &str| {
            digest_media(&format!(
                r#"{{"type":"image","source":{{"type":"base64","data":"{data}"}}{more}}}"#
            ))
        };
        assert_eq!(image("AAAA", ""), image("AAAA", r#","cache_control":{"type":"ephemeral"}"#));
        assert_ne!(image("AAAA", ""), image("AAAB", ""));
        let order =
            digest_media(r#"{ "source": {"data":"AAAA","type":"base64"}, "type":"image" }"#);
        assert_eq!(image("AAAA", ""), order);
    }

    #[test]
    fn an_address_is_the_same_however_it_is_signed() {
        let at = |url: &str| digest_media(&format!(r#"{{"image_url":"{url}"}}"#));
        assert_eq!(at("https://a.example/1.png?sig=1"), at("https://a.example/1.png?sig=2"));
        assert_ne!(at("https://a.example/1.png?sig=1"), at("https://a.example/2.png?sig=1"));
        assert_ne!(at("data:image/png;base64,AA?1"), at("data:image/png;base64,AA?2"));
    }

    #[test]
    fn what_is_no_json_is_its_bytes() {
        assert_ne!(digest_media("{"), digest_media("[[["));
        assert_eq!(digest_media(""), digest_media(""));
    }
}
