//! `[shape.NAME]`: text tool tags. They come with a later version, and so does a route that uses
//! one; the tables are checked all the same, so that a file that is written now holds then.

use softland_agent::core::Millis;
use toml::Spanned;
use toml::de::DeValue;

use super::Reader;
use super::entry::Entry;

/// Keys of a `[shape.NAME]`.
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

impl Reader<'_> {
    pub(super) fn shapes(&mut self, value: &Spanned<DeValue<'_>>) {
        for named in self.named("shape", value, "[shape.NAME] with tags") {
            for entry in self.entries(&named.place, named.value, &KEYS) {
                self.shape(&entry);
            }
        }
    }

    fn shape(&mut self, entry: &Entry<'_, '_>) {
        let value = entry.value;
        let word = |words: &[&str]| value.as_str().is_some_and(|word| words.contains(&word));
        let (right, allowed) = match entry.name {
            "tags" => (is_list_of_names(value), "a list of names such as [\"use_tool\"]"),
            "stop_after_tools" => {
                (word(&["off", "first", "burst"]), "\"off\", \"first\" or \"burst\"")
            }
            "burst_ms" | "max_tools" => (is_count(value), "a whole number, 0 or more"),
            "partial_blocks" => (word(&["pass", "drop"]), "\"pass\" or \"drop\""),
            "keepalive" => (
                value.as_str().is_some_and(|time| time.parse::<Millis>().is_ok()),
                "a time such as \"15s\"",
            ),
            _ => (value.as_bool().is_some(), "true or false"),
        };
        if !right {
            self.wrong(entry, allowed);
        }
    }
}

fn is_list_of_names(value: &DeValue<'_>) -> bool {
    let name = |name: &Spanned<DeValue<'_>>| {
        name.get_ref().as_str().is_some_and(|name| !name.trim().is_empty())
    };
    value.as_array().is_some_and(|names| !names.is_empty() && names.iter().all(name))
}

fn is_count(value: &DeValue<'_>) -> bool {
    value.as_integer().is_some_and(|number| number.as_str().parse::<u64>().is_ok())
}
