//! Bytes in a journal: as text if they are UTF-8, else as hexadecimal digits.

/// Returns the two members of a record that stand for bytes: text and digits. One of them is empty.
pub(super) fn encode_bytes(bytes: &[u8]) -> (String, String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), String::new()),
        Err(_) => (String::new(), bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// Returns the bytes; `None` if the digits are not valid.
pub(super) fn decode_bytes(text: &str, digits: &str) -> Option<Vec<u8>> {
    if digits.is_empty() {
        return Some(text.as_bytes().to_vec());
    }
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}
