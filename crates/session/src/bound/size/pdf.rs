//! Counts the pages of a PDF without parsing it.

/// Returns the number of pages of a file in base64; `None` if the file is no PDF, or keeps its
/// objects compressed. Pages of earlier revisions in the file count too.
pub(super) fn count_pages(base64: &str) -> Option<u64> {
    let file = decode_base64(base64)?;
    if contains_word(&file, b"/ObjStm") {
        return None;
    }
    let pages = bytes_after(&file, b"/Type").filter(|rest| is_page(rest)).count() as u64;
    (pages > 0).then_some(pages)
}

/// True if the text goes on with `/Page`, and not with `/Pages`.
fn is_page(rest: &[u8]) -> bool {
    rest.trim_ascii_start()
        .strip_prefix(b"/Page")
        .is_some_and(|rest| rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric()))
}

fn contains_word(file: &[u8], word: &'static [u8]) -> bool {
    bytes_after(file, word).next().is_some()
}

/// Returns the bytes behind each occurrence of a word that begins with a slash.
fn bytes_after<'f>(file: &'f [u8], word: &'static [u8]) -> impl Iterator<Item = &'f [u8]> {
    let slashes = file.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(move |(at, _)| file.get(at..)?.strip_prefix(word))
}

/// Decodes base64; `None` for any other text. Escaped slashes of JSON are read as slashes.
fn decode_base64(base64: &str) -> Option<Vec<u8>> {
    let mut file = Vec::with_capacity(base64.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for byte in base64.bytes().filter(|byte| !matches!(byte, b'\\' | b'=')) {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            file.push((bits >> count & 0xff) as u8);
        }
    }
    Some(file)
}
