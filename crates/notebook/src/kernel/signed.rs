//! Jupyter's messages as ZeroMQ carries them: JSON in parts, signed.

use ring::hmac;
use serde_json::{Value, json};
use zeromq::ZmqMessage;

use crate::mend::mend;

/// What stands between routing and message.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// The version of the protocol that is spoken.
const VERSION: &str = "5.3";

/// A message, as far as it is of interest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) header: Value,
    pub(crate) parent: Value,
    pub(crate) content: Value,
}

impl Message {
    /// A message that begins something.
    pub(crate) fn new(session: &str, id: &str, kind: &str, content: Value) -> Self {
        let header = json!({
            "msg_id": id,
            "session": session,
            "username": "softland",
            "date": jiff::Timestamp::now().to_string(),
            "msg_type": kind,
            "version": VERSION,
        });
        Self { header, parent: json!({}), content }
    }

    pub(crate) fn kind(&self) -> &str {
        text(&self.header, "msg_type")
    }

    /// The message that this one is about.
    pub(crate) fn parent_id(&self) -> &str {
        text(&self.parent, "msg_id")
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The key that a kernel and its client share.
#[derive(Clone, Debug)]
pub(crate) struct Key(hmac::Key);

impl Key {
    pub(crate) fn new(key: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// A message's frames, signed.
    pub(crate) fn seal(&self, message: &Message) -> ZmqMessage {
        let parts = [&message.header, &message.parent, &json!({}), &message.content];
        let parts = parts.map(|part| part.to_string().into_bytes());
        let mut context = hmac::Context::with_key(&self.0);
        for part in &parts {
            context.update(part);
        }
        let mut frames = ZmqMessage::from(hex(context.sign().as_ref()));
        frames.push_front(DELIMITER.into());
        for part in parts {
            frames.push_back(part.into());
        }
        frames
    }

    /// The message in frames; `None` for what is not one, or not signed with the key.
    pub(crate) fn open(&self, frames: ZmqMessage) -> Option<Message> {
        let frames = frames.into_vec();
        let at = frames.iter().position(|frame| frame == DELIMITER)?;
        let rest = frames.get(at..)?;
        let [_, signature, header, parent, metadata, content, ..] = rest else { return None };
        let signed = [&header[..], parent, metadata, content].concat();
        hmac::verify(&self.0, &signed, &unhex(signature)?).ok()?;
        // What is signed is the kernel's, also where a text in it is broken.
        let json =
            |part: &[u8]| serde_json::from_str::<Value>(&mend(&String::from_utf8_lossy(part))).ok();
        Some(Message { header: json(header)?, parent: json(parent)?, content: json(content)? })
    }
}

/// As two hexadecimal digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}
