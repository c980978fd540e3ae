//! Jupyter's messages as ZeroMQ carries them: JSON in parts, signed.

use ring::hmac;
use serde_json::{Value, json};
use zeromq::ZmqMessage;

use crate::mend::replace_surrogates;

/// The frame between routing and message.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// The version of the protocol.
const VERSION: &str = "5.3";

/// A message, with the parts that are needed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JupyterMessage {
    pub(crate) header: Value,
    pub(crate) parent: Value,
    pub(crate) content: Value,
}

impl JupyterMessage {
    /// Creates a message that answers no other.
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
        text_member(&self.header, "msg_type")
    }

    /// Returns the id of the message that this one is about.
    pub(crate) fn parent_id(&self) -> &str {
        text_member(&self.parent, "msg_id")
    }
}

fn text_member<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The key that a kernel and its client share.
#[derive(Clone, Debug)]
pub(crate) struct SigningKey(hmac::Key);

impl SigningKey {
    pub(crate) fn new(key: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()))
    }

    /// Returns the signed frames of a message.
    pub(crate) fn sign_message(&self, message: &JupyterMessage) -> ZmqMessage {
        let parts = [&message.header, &message.parent, &json!({}), &message.content];
        let parts = parts.map(|part| part.to_string().into_bytes());
        let mut context = hmac::Context::with_key(&self.0);
        for part in &parts {
            context.update(part);
        }
        let mut frames = ZmqMessage::from(encode_hex(context.sign().as_ref()));
        frames.push_front(DELIMITER.into());
        for part in parts {
            frames.push_back(part.into());
        }
        frames
    }

    /// Returns the message in frames; `None` if it is no message or not signed with the key.
    pub(crate) fn verify_message(&self, frames: ZmqMessage) -> Option<JupyterMessage> {
        let frames = frames.into_vec();
        let at = frames.iter().position(|frame| frame == DELIMITER)?;
        let rest = frames.get(at..)?;
        let [_, signature, header, parent, metadata, content, ..] = rest else { return None };
        let signed = [&header[..], parent, metadata, content].concat();
        hmac::verify(&self.0, &signed, &decode_hex(signature)?).ok()?;
        // The signature covers the kernel's own bytes, also where a text in them is broken.
        let json = |part: &[u8]| {
            serde_json::from_str::<Value>(&replace_surrogates(&String::from_utf8_lossy(part))).ok()
        };
        Some(JupyterMessage {
            header: json(header)?,
            parent: json(parent)?,
            content: json(content)?,
        })
    }
}

/// Formats bytes as two hexadecimal digits each.
pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}
