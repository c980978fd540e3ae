//! The `.eval` archives of Inspect: a zip file with `header.json` and one file for each sample.
//! Archives beyond 4 GiB are not read.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::{LogHead, take_sample};
use crate::fields::Fields;
use crate::input::Input;
use crate::step_output::StepOutput;

/// The longest end of an archive: its record and a comment.
const END: u64 = 22 + 65_535;
/// The most bytes of an archive's directory.
const DIRECTORY: u32 = 64 << 20;
/// The most bytes that `header.json` may have.
const HEADER: u64 = 16 << 20;

/// A file in an archive.
struct Member {
    name: String,
    method: u16,
    packed: u64,
    at: u64,
}

/// Reads an archive. Returns false if it is none of Inspect's.
pub(crate) fn read_archive(path: &Path, out: &mut StepOutput<'_>) -> bool {
    match try_read(path, out) {
        Ok(own) => own,
        Err(error) => {
            out.list_unreadable(None, format!("damaged or cut: {error}"));
            true
        }
    }
}

fn try_read(path: &Path, out: &mut StepOutput<'_>) -> io::Result<bool> {
    let mut file = BufReader::new(File::open(path)?);
    let members = list_members(&mut file)?;
    let header = members
        .iter()
        .find(|member| matches!(&*member.name, "header.json" | "_journal/start.json"));
    let samples: Vec<&Member> = members
        .iter()
        .filter(|member| member.name.starts_with("samples/") && member.name.ends_with(".json"))
        .collect();
    let Some(header) = header else {
        out.list_unreadable(None, "a zip archive of another program");
        return Ok(false);
    };
    let mut text = String::new();
    open_member(&mut file, header)?.take(HEADER).read_to_string(&mut text)?;
    let header = Fields::from_json(&text).unwrap_or_default();
    let head = header.raw("eval").map(LogHead::from_eval).unwrap_or_default();
    for member in samples {
        let reader = open_member(&mut file, member)?;
        let mut input = Input::new(reader);
        if let Err(broken) = take_sample(&mut input, out, &head) {
            out.list_broken(&input, &broken);
        }
        let failed = input.read_error().map(str::to_owned);
        if let Some(error) = failed {
            out.list_unreadable(None, format!("{}: damaged or cut: {error}", member.name));
        }
    }
    Ok(true)
}

fn list_members(file: &mut BufReader<File>) -> io::Result<Vec<Member>> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let at = memchr::memmem::rfind(&end, b"PK\x05\x06").ok_or_else(|| damaged("no directory"))?;
    let record = end.get(at..).unwrap_or_default();
    let (size, start) = (read_u32(record, 12)?, read_u32(record, 16)?);
    if size > DIRECTORY || start == u32::MAX {
        return Err(damaged("larger than 4 GiB"));
    }
    file.seek(SeekFrom::Start(start.into()))?;
    let mut directory = vec![0; size as usize];
    file.read_exact(&mut directory)?;
    let mut members = Vec::new();
    let mut rest = directory.as_slice();
    while rest.starts_with(b"PK\x01\x02") {
        let name = usize::from(read_u16(rest, 28)?);
        let more = usize::from(read_u16(rest, 30)?) + usize::from(read_u16(rest, 32)?);
        let named = rest.get(46..46 + name).ok_or_else(|| damaged("its directory"))?;
        members.push(Member {
            name: String::from_utf8_lossy(named).into_owned(),
            method: read_u16(rest, 10)?,
            packed: read_u32(rest, 20)?.into(),
            at: read_u32(rest, 42)?.into(),
        });
        rest = rest.get(46 + name + more..).unwrap_or_default();
    }
    Ok(members)
}

/// Returns a reader of a member's content.
fn open_member<'f>(
    file: &'f mut BufReader<File>,
    member: &Member,
) -> io::Result<Box<dyn Read + 'f>> {
    file.seek(SeekFrom::Start(member.at))?;
    let mut head = [0; 30];
    file.read_exact(&mut head)?;
    let skipped = i64::from(read_u16(&head, 26)?) + i64::from(read_u16(&head, 28)?);
    file.seek(SeekFrom::Current(skipped))?;
    let packed = file.take(member.packed);
    Ok(match member.method {
        0 => Box::new(packed),
        8 => Box::new(flate2::read::DeflateDecoder::new(packed)),
        93 => Box::new(zstd::stream::read::Decoder::new(packed)?),
        other => return Err(damaged(&format!("packed by method {other}, which is not known"))),
    })
}

fn read_u16(bytes: &[u8], at: usize) -> io::Result<u16> {
    let two = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    two.map(u16::from_le_bytes).ok_or_else(|| damaged("its directory"))
}

fn read_u32(bytes: &[u8], at: usize) -> io::Result<u32> {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map(u32::from_le_bytes).ok_or_else(|| damaged("its directory"))
}

fn damaged(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}
