//! The automatic prompt cache: the parts of a prompt that are read and written. The rules are the
//! providers'. Token counts are estimates: a quarter of the bytes of a text, rounded up, and three
//! for every message.

use crate::digest::Digest;
use crate::models::open::Caching;
use std::collections::BTreeMap;

/// The number of message ends, from the last, at which a prefix is looked up. (From the vendor's
/// page; the types of its SDK say 80.)
const ENDS: usize = 20;
/// The number of explicit breakpoints that are looked up: the first and the latest.
const FIRST_MARKS: usize = 2;
const LATEST_MARKS: usize = 50;
/// Reads and writes are counted in steps of this many tokens.
const STEP: u64 = 128;
/// The maximum number of entries; beyond it, all are dropped.
const MAX_ENTRIES: usize = 400_000;
/// The tokens of a message apart from its texts, and of an image.
const MESSAGE: u64 = 3;
const IMAGE: u64 = 1_600;
const BYTES: u64 = 4;

#[derive(Clone, Copy, Debug)]
struct PrefixEnd {
    digest: u128,
    /// The tokens of the prefix that ends here.
    tokens: u64,
}

/// A prompt laid out as bytes, with the positions at which it can be cached.
#[derive(Debug)]
pub(crate) struct PromptLayout {
    digest: Digest,
    carry: Vec<u8>,
    step: usize,
    bytes: u64,
    steps: Vec<PrefixEnd>,
    ends: Vec<PrefixEnd>,
    marks: Vec<PrefixEnd>,
    /// The end of the latest user message, or of the last tool response of a group.
    implicit: Option<PrefixEnd>,
}

impl PromptLayout {
    /// Begins a prompt with the settings that are part of the prefix.
    pub(crate) fn new(caching: Caching, settings: &[&str]) -> Self {
        let mut digest = Digest::new(2);
        for setting in settings {
            digest.add_field(setting);
        }
        let step = match caching {
            Caching::Prefix { step, .. } => step,
            _ => STEP,
        };
        Self {
            digest,
            carry: Vec::new(),
            step: usize::try_from(step * BYTES).unwrap_or(512).max(1),
            bytes: 0,
            steps: Vec::new(),
            ends: Vec::new(),
            marks: Vec::new(),
            implicit: None,
        }
    }

    /// Estimates the tokens of the whole prompt.
    pub(crate) fn tokens(&self) -> u64 {
        self.bytes / BYTES
    }

    /// Begins a message of this role.
    pub(crate) fn begin_message(&mut self, role: &str) {
        let mut head = [0_u8; (MESSAGE * BYTES) as usize];
        for (to, from) in head.iter_mut().zip(role.bytes()) {
            *to = from;
        }
        self.push_bytes(&head);
    }

    pub(crate) fn add_text(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
        let rest = text.len() % BYTES as usize;
        if rest > 0 {
            self.push_bytes(&[0; BYTES as usize][rest..]);
        }
    }

    /// Adds content that counts as an image.
    pub(crate) fn add_image(&mut self, source: &str) {
        let mut digest = Digest::new(3);
        digest.add_field(source);
        let mut bytes = digest.finish().to_le_bytes().to_vec();
        bytes.resize((IMAGE * BYTES) as usize, 0);
        self.push_bytes(&bytes);
    }

    /// Ends a message; `input` is true for the user's and for tools' messages.
    pub(crate) fn end_message(&mut self, input: bool) {
        let here = self.current_position();
        self.ends.push(here);
        if input {
            self.implicit = Some(here);
        }
    }

    /// Adds an explicit breakpoint.
    pub(crate) fn add_breakpoint(&mut self) {
        let here = self.current_position();
        self.marks.push(here);
    }

    fn current_position(&self) -> PrefixEnd {
        let mut digest = self.digest;
        digest.add_bytes(&self.carry);
        digest.add_word(1);
        PrefixEnd { digest: digest.finish(), tokens: self.tokens() }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.carry.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(chunk) = self.carry.get(from..from + self.step) {
            self.digest.add_bytes(chunk);
            from += self.step;
            let tokens = (self.steps.len() as u64 + 1) * self.step as u64 / BYTES;
            self.steps.push(PrefixEnd { digest: self.digest.finish(), tokens });
        }
        self.carry.drain(..from);
    }
}

#[derive(Clone, Copy, Debug)]
struct PrefixEntry {
    readable_at: u64,
    expires: u64,
}

/// The cached prefixes.
#[derive(Debug, Default)]
pub(crate) struct OpenAiCache {
    entries: BTreeMap<u128, PrefixEntry>,
}

/// The tokens that one prompt reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BilledTokens {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl OpenAiCache {
    /// Bills a prompt and stores what it writes. `started` is when its response begins: its entries
    /// can be read from then on. With `explicit`, only marks are written.
    pub(crate) fn bill_prompt(
        &mut self,
        caching: Caching,
        layout: &PromptLayout,
        explicit: bool,
        now: u64,
        started: u64,
    ) -> BilledTokens {
        if self.entries.len() > MAX_ENTRIES {
            self.entries.retain(|_, entry| entry.expires > now);
            if self.entries.len() > MAX_ENTRIES {
                self.entries.clear();
            }
        }
        match caching {
            Caching::None => BilledTokens::default(),
            Caching::Prefix { min, ttl_ms, .. } => {
                let read = self.read_prefix(layout.steps.iter().rev(), min, ttl_ms, now);
                self.write_positions(&layout.steps, ttl_ms, now, started);
                BilledTokens { read, written: 0 }
            }
            Caching::MessageEnds { min, ttl_ms } => {
                let implicit = layout.implicit.filter(|_| !explicit);
                let ends = if explicit { 0 } else { ENDS };
                let candidates = layout.ends.iter().rev().take(ends);
                self.bill_breakpoints(candidates, implicit, layout, (min, ttl_ms), now, started)
            }
            Caching::Marks { min, ttl_ms } => {
                let none = std::iter::empty();
                self.bill_breakpoints(none, None, layout, (min, ttl_ms), now, started)
            }
        }
    }

    fn bill_breakpoints<'a>(
        &mut self,
        ends: impl Iterator<Item = &'a PrefixEnd>,
        implicit: Option<PrefixEnd>,
        layout: &'a PromptLayout,
        (min, ttl_ms): (u64, u64),
        now: u64,
        started: u64,
    ) -> BilledTokens {
        let latest = layout.marks.iter().rev().take(LATEST_MARKS);
        let mut sought: Vec<&PrefixEnd> =
            ends.chain(latest).chain(layout.marks.iter().take(FIRST_MARKS)).collect();
        sought.sort_by_key(|p| std::cmp::Reverse(p.tokens));
        let read = floor_to_step(self.read_prefix(sought.into_iter(), min, ttl_ms, now));
        let mut written = layout.marks.clone();
        written.extend(implicit);
        written.retain(|p| p.tokens >= min);
        let until = written.iter().map(|p| floor_to_step(p.tokens)).max().unwrap_or(0);
        self.write_positions(&written, ttl_ms, now, started);
        BilledTokens { read, written: until.saturating_sub(read) }
    }

    /// Returns the tokens of the longest cached prefix. Reading renews it.
    fn read_prefix<'a>(
        &mut self,
        mut sought: impl Iterator<Item = &'a PrefixEnd>,
        min: u64,
        ttl_ms: u64,
        now: u64,
    ) -> u64 {
        let found = sought.find(|p| {
            let entry = self.entries.get(&p.digest);
            p.tokens >= min && entry.is_some_and(|e| e.readable_at <= now && now < e.expires)
        });
        let Some(position) = found else { return 0 };
        if let Some(entry) = self.entries.get_mut(&position.digest) {
            entry.expires = now.saturating_add(ttl_ms);
        }
        position.tokens
    }

    fn write_positions(&mut self, positions: &[PrefixEnd], ttl_ms: u64, now: u64, started: u64) {
        let expires = now.saturating_add(ttl_ms);
        for position in positions {
            let fresh = PrefixEntry { readable_at: started, expires };
            let entry = self.entries.entry(position.digest).or_insert(fresh);
            if entry.expires <= now {
                *entry = fresh;
            }
            entry.readable_at = entry.readable_at.min(started);
            entry.expires = entry.expires.max(expires);
        }
    }
}

fn floor_to_step(tokens: u64) -> u64 {
    tokens / STEP * STEP
}
