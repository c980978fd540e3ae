//! The fixed corpus of the benchmark: a coding agent's request, made here from a seed.

use serde_json::{Value, json};

/// A small generator, so that the corpus is the same everywhere.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % below
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next(from.len())]
    }
}

/// Lines as files and tools have them: indentation, quotes, backslashes, some of it not ASCII.
const LINES: &[&str] = &[
    "use std::collections::BTreeMap;",
    "",
    "    /// Reads one entry; `None` where the list has ended.",
    "    pub fn entry(&mut self, name: &str) -> Option<Entry> {",
    "        let found = self.entries.iter().find(|entry| entry.name == name)?;",
    "        println!(\"{name}: {} arrivals\\n\", found.arrivals);",
    "        Some(found.clone())",
    "    }",
    "}",
    "",
    "\t\treturn fmt.Errorf(\"harbour %q: %w\", name, err)",
    "    const label = `${ship.name} (\"${ship.flag}\")`;",
    "src/harbour/notes.rs:118:    let berth = lock.read().berth(id);",
    "test notes::keeps_the_order_of_arrivals ... ok",
    "    # Größe in Metern, gemessen am 3. Juni",
    "入港: 東京丸、出港なし",
    "error[E0502]: cannot borrow `self.entries` as mutable because it is also borrowed",
    "   --> src/harbour/list.rs:42:9",
    "    |",
    "42  |         self.entries.push(entry);",
];

/// A request of so many turns, about 2.5 KB each: calls, some of them in parallel, and results,
/// one in ten of them JSON.
pub(crate) fn request(turns: usize) -> Vec<u8> {
    let mut seeded = Seeded(7);
    let mut messages = vec![json!({"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>\nToday is Friday.\n</system-reminder>"},
        {"type": "text", "text": "Find out why the list of arrivals loses its order."},
    ]})];
    for turn in 0..turns {
        let calls = if turn % 10 == 9 { 2 } else { 1 };
        messages.push(assistant(&mut seeded, turn, calls));
        messages.push(results(&mut seeded, turn, calls));
    }
    let body = json!({
        "model": "claude-opus-5-5",
        "max_tokens": 32_000,
        "stream": true,
        "cache_control": {"type": "ephemeral"},
        "system": [{"type": "text", "text": "You are a careful engineer. ".repeat(200)}],
        "tools": tools(),
        "messages": messages,
    });
    serde_json::to_vec(&body).unwrap()
}

fn tools() -> Vec<Value> {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let tool = |name| json!({"name": name, "description": "d".repeat(300), "input_schema": schema});
    ["read_file", "grep", "bash", "edit_file"].map(tool).to_vec()
}

fn assistant(seeded: &mut Seeded, turn: usize, calls: usize) -> Value {
    let mut blocks = Vec::new();
    if turn.is_multiple_of(3) {
        let signature = "c2lnbmVk".repeat(40);
        blocks.push(json!({"type": "thinking", "thinking": "", "signature": signature}));
    }
    if turn.is_multiple_of(2) {
        blocks.push(json!({"type": "text", "text": format!("Let me look at part {turn}.\n")}));
    }
    for call in 0..calls {
        let path = format!("src/harbour/part_{turn}_{call}.rs");
        let (name, input) = match seeded.next(4) {
            0 => ("grep", json!({"pattern": "fn \\w+\\(\"", "path": path, "glob": "*.rs"})),
            1 => (
                "bash",
                json!({"command": format!("cargo test --lib {path} 2>&1 | tail -5"),
                                 "description": "Runs the tests"}),
            ),
            _ => ("read_file", json!({"path": path, "offset": turn, "limit": 80})),
        };
        blocks.push(json!({"type": "tool_use", "id": id(turn, call), "name": name,
                           "input": input}));
    }
    json!({"role": "assistant", "content": blocks})
}

fn results(seeded: &mut Seeded, turn: usize, calls: usize) -> Value {
    let size = 1900 / calls;
    let blocks: Vec<_> = (0..calls)
        .map(|call| {
            let text = match seeded.next(10) {
                0 => records(seeded, size),
                _ => source(seeded, turn, size),
            };
            let content = match seeded.next(2) {
                0 => Value::String(text),
                _ => json!([{"type": "text", "text": text}]),
            };
            json!({"type": "tool_result", "tool_use_id": id(turn, call), "content": content})
        })
        .collect();
    json!({"role": "user", "content": blocks})
}

fn id(turn: usize, call: usize) -> String {
    format!("toolu_01{:022x}", turn * 8 + call)
}

fn source(seeded: &mut Seeded, turn: usize, size: usize) -> String {
    let mut text = format!("// part {turn}\n");
    while text.len() < size {
        text.push_str(seeded.pick(LINES));
        text.push('\n');
    }
    text
}

/// What a database or an issue tracker answers: a JSON text, inside of the request's JSON.
fn records(seeded: &mut Seeded, size: usize) -> String {
    let mut rows = Vec::new();
    let mut length = 0;
    while length < size {
        let row = json!({"id": seeded.next(1 << 20), "name": seeded.pick(LINES), "open": true,
                         "timestamp": seeded.next(1 << 30), "tags": ["harbour", "list"]});
        length += row.to_string().len();
        rows.push(row);
    }
    json!({"rows": rows, "took": seeded.next(100)}).to_string()
}
