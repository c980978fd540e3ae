//! `[shape.NAME]`: models that write their calls as text (contract §8.1).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use softland_agent::core::Millis;
use softland_gateway::{Shape, Shaping, StopAfter, Tags};
use toml::Spanned;
use toml::de::DeValue;

use super::Reader;
use super::entry::Entry;

/// The keys of a `[shape.NAME]`.
const KEYS: [&str; 8] = [
    "tags",
    "suppress_tail_after_tools",
    "stop_after_tools",
    "burst_ms",
    "max_tools",
    "drop_repeated_blocks",
    "partial_blocks",
    "keepalive",
];

/// The default of `burst_ms`.
const BURST_MS: u64 = 500;

const NAMES: &str = "a list of names such as [\"use_tool\"]";

impl Reader<'_> {
    pub(super) fn shapes(&mut self, value: &Spanned<DeValue<'_>>) {
        for named in self.named("shape", value, "[shape.NAME] with tags") {
            let before = self.problems.len();
            let shaping = self.shaping(&named);
            if self.problems.len() > before {
                // The problem was noted; a route that refers to this shape is still valid.
                let tags = Tags::new([named.name]).map(|tags| with_defaults(Shape::watch(tags)));
                self.config.gateway.shapes.extend(tags.ok().map(|s| (named.name.to_owned(), s)));
                continue;
            }
            match shaping {
                Some(shaping) => {
                    self.config.gateway.shapes.insert(named.name.to_owned(), shaping);
                }
                None => {
                    let message = format!("is required: {NAMES}");
                    self.problem(named.at, &format!("{}.tags", named.place), &message);
                }
            }
        }
    }

    /// Reads a shape. Returns `None` if it has no tags, or if a problem was noted.
    fn shaping(&mut self, named: &Entry<'_, '_>) -> Option<Shaping> {
        let (mut tags, mut burst_ms, mut keepalive) = (None, BURST_MS, Shaping::KEEPALIVE);
        let mut shape = Shape::watch(Tags::new(["-"]).ok()?);
        let mut stop = "off";
        for entry in self.entries(&named.place, named.value, &KEYS) {
            let value = entry.value;
            match entry.name {
                "tags" => tags = self.tags(&entry),
                "suppress_tail_after_tools" => {
                    shape.suppress_tail = self.boolean(&entry).unwrap_or(false);
                }
                "drop_repeated_blocks" => {
                    shape.drop_repeated = self.boolean(&entry).unwrap_or(false);
                }
                "stop_after_tools" => match value.as_str() {
                    Some("off") => stop = "off",
                    Some("first") => stop = "first",
                    Some("burst") => stop = "burst",
                    _ => self.wrong(&entry, "\"off\", \"first\" or \"burst\""),
                },
                "partial_blocks" => match value.as_str() {
                    Some("pass") => {}
                    Some("drop") => shape.partial = softland_gateway::PartialBlocks::Drop,
                    _ => self.wrong(&entry, "\"pass\" or \"drop\""),
                },
                "burst_ms" => match count(value) {
                    Some(millis) => burst_ms = millis,
                    None => self.wrong(&entry, "a whole number, 0 or more"),
                },
                "max_tools" => match count(value).map(u32::try_from) {
                    Some(Ok(most)) => shape.max_tools = NonZeroU32::new(most),
                    _ => self.wrong(&entry, "a whole number, 0 or more (0: any number)"),
                },
                _ => match value.as_str().and_then(|time| time.parse::<Millis>().ok()) {
                    Some(time) if time.0 > 0 => keepalive = Duration::from_millis(time.0),
                    _ => self.wrong(&entry, "a time such as \"15s\""),
                },
            }
        }
        shape.tags = tags?;
        shape.stop_after = match stop {
            "first" => StopAfter::First,
            "burst" => StopAfter::Burst { burst_ms },
            _ => StopAfter::Off,
        };
        Some(Shaping { keepalive, ..with_defaults(shape) })
    }

    fn tags(&mut self, entry: &Entry<'_, '_>) -> Option<Tags> {
        let names = entry.value.as_array().and_then(|names| {
            names
                .iter()
                .map(|name| name.get_ref().as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        let tags = names.and_then(|names| Tags::new(names).ok());
        if tags.is_none() {
            self.wrong(entry, NAMES);
        }
        tags
    }
}

fn with_defaults(shape: Shape) -> Shaping {
    Shaping { shape: Arc::new(shape), keepalive: Shaping::KEEPALIVE }
}

fn count(value: &DeValue<'_>) -> Option<u64> {
    value.as_integer().and_then(|number| number.as_str().parse().ok())
}
