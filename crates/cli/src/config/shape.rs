//! `[shape.NAME]`: models that write their calls as text (`docs/gateway.md`).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use softland_agent::core::Millis;
use softland_gateway::{Shape, Shaping, StopAfter, Tags};
use toml::Spanned;
use toml::de::DeValue;

use super::ConfigReader;
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

impl ConfigReader<'_> {
    pub(super) fn read_shapes(&mut self, value: &Spanned<DeValue<'_>>) {
        for named in self.read_named_tables("shape", value, "[shape.NAME] with tags") {
            let before = self.problems.len();
            let shaping = self.read_shape(&named);
            if self.problems.len() > before {
                // The problem was noted; a route that refers to this shape is still valid.
                let tags =
                    Tags::new([named.name]).map(|tags| with_defaults(Shape::watch_only(tags)));
                self.config.gateway.shapes.extend(tags.ok().map(|s| (named.name.to_owned(), s)));
                continue;
            }
            match shaping {
                Some(shaping) => {
                    self.config.gateway.shapes.insert(named.name.to_owned(), shaping);
                }
                None => {
                    let message = format!("is required: {NAMES}");
                    self.note_problem(named.at, &format!("{}.tags", named.place), &message);
                }
            }
        }
    }

    /// Reads a shape. Returns `None` if it has no tags, or if a problem was noted.
    fn read_shape(&mut self, named: &Entry<'_, '_>) -> Option<Shaping> {
        let (mut tags, mut burst_ms, mut keepalive) = (None, BURST_MS, Shaping::KEEPALIVE);
        let mut shape = Shape::watch_only(Tags::new(["-"]).ok()?);
        let mut stop = "off";
        for entry in self.read_entries(&named.place, named.value, &KEYS) {
            let value = entry.value;
            match entry.name {
                "tags" => tags = self.read_tags(&entry),
                "suppress_tail_after_tools" => {
                    shape.suppress_tail = self.read_bool(&entry).unwrap_or(false);
                }
                "drop_repeated_blocks" => {
                    shape.drop_repeated = self.read_bool(&entry).unwrap_or(false);
                }
                "stop_after_tools" => match value.as_str() {
                    Some("off") => stop = "off",
                    Some("first") => stop = "first",
                    Some("burst") => stop = "burst",
                    _ => self.note_wrong_value(&entry, "\"off\", \"first\" or \"burst\""),
                },
                "partial_blocks" => match value.as_str() {
                    Some("pass") => {}
                    Some("drop") => shape.partial = softland_gateway::PartialBlocks::Drop,
                    _ => self.note_wrong_value(&entry, "\"pass\" or \"drop\""),
                },
                "burst_ms" => match parse_count(value) {
                    Some(millis) => burst_ms = millis,
                    None => self.note_wrong_value(&entry, "a whole number, 0 or more"),
                },
                "max_tools" => match parse_count(value).map(u32::try_from) {
                    Some(Ok(most)) => shape.max_tools = NonZeroU32::new(most),
                    _ => self.note_wrong_value(&entry, "a whole number, 0 or more (0: any number)"),
                },
                _ => match value.as_str().and_then(|time| time.parse::<Millis>().ok()) {
                    Some(time) if time.0 > 0 => keepalive = Duration::from_millis(time.0),
                    _ => self.note_wrong_value(&entry, "a time such as \"15s\""),
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

    fn read_tags(&mut self, entry: &Entry<'_, '_>) -> Option<Tags> {
        let names = entry.value.as_array().and_then(|names| {
            names
                .iter()
                .map(|name| name.get_ref().as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        let tags = names.and_then(|names| Tags::new(names).ok());
        if tags.is_none() {
            self.note_wrong_value(entry, NAMES);
        }
        tags
    }
}

fn with_defaults(shape: Shape) -> Shaping {
    Shaping { shape: Arc::new(shape), keepalive: Shaping::KEEPALIVE }
}

fn parse_count(value: &DeValue<'_>) -> Option<u64> {
    value.as_integer().and_then(|number| number.as_str().parse().ok())
}
