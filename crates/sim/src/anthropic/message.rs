//! A finished message before its form is chosen: ids given, thinking signed, blocks built. The
//! streamed and the whole form come from the same blocks.

use crate::anthropic::request::Prompt;
use crate::anthropic::rules::{Issuer, VerifiedThinking};
use crate::constraints::AllowedTurn;
use crate::json::{Json, json_object};
use crate::pieces::cut_text;
use crate::turn::{Part, Stop};
use crate::usage::Usage;

/// One block in both forms.
#[derive(Debug)]
pub(crate) struct OutputBlock {
    pub(crate) whole: Json,
    pub(crate) start: Json,
    pub(crate) deltas: Vec<Json>,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) blocks: Vec<OutputBlock>,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
    pub(crate) transformations: Vec<Json>,
}

/// A builder for the blocks of a message.
pub(crate) struct ResponseBuilder<'a> {
    pub(crate) prompt: &'a Prompt<'a>,
    pub(crate) issuer: Issuer,
    pub(crate) verified: VerifiedThinking,
    /// The number of this response.
    pub(crate) number: u64,
}

impl ResponseBuilder<'_> {
    /// Builds the blocks of a turn.
    pub(crate) fn build_blocks(mut self, lawful: &AllowedTurn) -> Vec<OutputBlock> {
        let thinks = |p: &&Part| matches!(p, Part::Thinking(_) | Part::RedactedThinking);
        let thinking = lawful.parts.iter().filter(thinks).count();
        let last = lawful.parts.len().saturating_sub(1);
        let mut thought = 0;
        let mut server_id = String::new();
        let mut blocks = Vec::with_capacity(lawful.parts.len());
        for (i, part) in lawful.parts.iter().enumerate() {
            let block = match part {
                Part::Text(text) => text_block(text),
                Part::Thinking(text) => {
                    thought += 1;
                    self.build_thinking(text, thought - 1, thinking)
                }
                Part::RedactedThinking => {
                    thought += 1;
                    self.build_redacted(thought - 1, thinking)
                }
                Part::Tool { id, name, input } => {
                    let own = || self.issuer.tool_id(self.number, thinking, i);
                    let id = id.clone().unwrap_or_else(own);
                    call_block("tool_use", &id, name, input, lawful.cut && i == last)
                }
                Part::ServerTool { name, input } => {
                    server_id = format!("srvtoolu_01Sim{:08x}c{i}", self.number);
                    call_block("server_tool_use", &server_id, name, input, lawful.cut && i == last)
                }
                Part::ServerResult { kind, content } => {
                    server_result(kind, &open_server_tool(self.prompt, &server_id), content)
                }
            };
            blocks.push(block);
        }
        blocks
    }

    fn sign_text(&mut self, text: &str, at: u64, of: usize) -> String {
        self.issuer.sign_block(&mut self.verified, self.number, at, of as u64, text)
    }

    fn build_thinking(&mut self, text: &str, at: u64, of: usize) -> OutputBlock {
        let shown = if self.prompt.omits_thinking { "" } else { text };
        let signature = self.sign_text(shown, at, of);
        let block = |thinking: &str, signature: &str| {
            json_object([
                ("type", "thinking".into()),
                ("thinking", thinking.into()),
                ("signature", signature.into()),
            ])
        };
        let mut deltas = cut_text(shown)
            .map(|piece| {
                json_object([("type", "thinking_delta".into()), ("thinking", piece.into())])
            })
            .collect::<Vec<_>>();
        if deltas.is_empty() {
            deltas.push(json_object([("type", "thinking_delta".into()), ("thinking", "".into())]));
        }
        deltas.push(json_object([
            ("type", "signature_delta".into()),
            ("signature", signature.as_str().into()),
        ]));
        OutputBlock { whole: block(shown, &signature), start: block("", ""), deltas }
    }

    fn build_redacted(&mut self, at: u64, of: usize) -> OutputBlock {
        let data = self.sign_text("", at, of);
        let block = json_object([("type", "redacted_thinking".into()), ("data", data.into())]);
        OutputBlock { whole: block.clone(), start: block, deltas: Vec::new() }
    }
}

impl Message {
    /// Returns the whole form.
    pub(crate) fn to_json(&self) -> Json {
        let content = self.blocks.iter().map(|b| b.whole.clone()).collect();
        self.envelope_json(content, true, usage_json(&self.usage, true))
    }

    /// Returns the form of `message_start` (`whole` false) or that of the response.
    pub(crate) fn envelope_json(&self, content: Vec<Json>, whole: bool, usage: Json) -> Json {
        let mut message = vec![
            ("id".to_owned(), self.id.as_str().into()),
            ("type".to_owned(), "message".into()),
            ("role".to_owned(), "assistant".into()),
            ("model".to_owned(), self.model.as_str().into()),
            ("content".to_owned(), Json::List(content)),
        ];
        if whole {
            message.extend(self.ending_json().entries().iter().cloned());
        } else {
            message.push(("stop_reason".to_owned(), Json::Null));
            message.push(("stop_sequence".to_owned(), Json::Null));
        }
        if !self.transformations.is_empty() {
            let list = Json::List(self.transformations.clone());
            message.push(("input_transformations".to_owned(), list));
        }
        message.push(("usage".to_owned(), usage));
        Json::Map(message)
    }

    /// Returns the stop reason, stop sequence and stop details.
    pub(crate) fn ending_json(&self) -> Json {
        let sequence = match &self.stop {
            Stop::StopSequence(sequence) => sequence.as_str().into(),
            _ => Json::Null,
        };
        let details = match self.stop {
            Stop::Refusal => json_object([
                ("type", "refusal".into()),
                ("category", Json::Null),
                ("explanation", Json::Null),
            ]),
            _ => Json::Null,
        };
        json_object([
            ("stop_reason", self.stop.name().into()),
            ("stop_sequence", sequence),
            ("stop_details", details),
        ])
    }
}

fn text_block(text: &str) -> OutputBlock {
    let block = |text: &str| json_object([("type", "text".into()), ("text", text.into())]);
    let deltas = cut_text(text)
        .map(|piece| json_object([("type", "text_delta".into()), ("text", piece.into())]))
        .collect();
    OutputBlock { whole: block(text), start: block(""), deltas }
}

/// Builds a call. Input that is not JSON has no whole form and stays a string; the input of a cut
/// call becomes an empty object, as with the provider.
fn call_block(kind: &str, id: &str, name: &str, input: &str, cut: bool) -> OutputBlock {
    let parsed = match Json::parse(input.as_bytes()) {
        Ok(parsed) => parsed,
        Err(_) if cut || input.is_empty() => Json::Map(Vec::new()),
        Err(_) => input.into(),
    };
    let block = |input: Json| {
        let mut block = vec![
            ("type".to_owned(), kind.into()),
            ("id".to_owned(), id.into()),
            ("name".to_owned(), name.into()),
            ("input".to_owned(), input),
        ];
        if kind == "tool_use" {
            block.push(("caller".to_owned(), json_object([("type", "direct".into())])));
        }
        Json::Map(block)
    };
    let delta = |piece: &str| {
        json_object([("type", "input_json_delta".into()), ("partial_json", piece.into())])
    };
    // On the wire, the empty object is the concatenation of no pieces.
    let text = if input == "{}" { "" } else { input };
    let deltas = std::iter::once("").chain(cut_text(text)).map(delta).collect();
    OutputBlock { whole: block(parsed), start: block(Json::Map(Vec::new())), deltas }
}

fn server_result(kind: &str, id: &str, content: &str) -> OutputBlock {
    let content = Json::parse(content.as_bytes()).unwrap_or(Json::List(Vec::new()));
    let block =
        json_object([("type", kind.into()), ("tool_use_id", id.into()), ("content", content)]);
    OutputBlock { whole: block.clone(), start: block, deltas: Vec::new() }
}

/// Returns the call that a result belongs to: one of this response, or the one that the last turn
/// of the request left open.
fn open_server_tool(prompt: &Prompt<'_>, own: &str) -> String {
    let open = || {
        let blocks = prompt.last_turn().map_or(&[][..], |t| &t.blocks);
        blocks
            .iter()
            .rev()
            .find(|b| b.is_kind("server_tool_use"))
            .map(|b| b.str_at("id").to_owned())
    };
    if own.is_empty() { open().unwrap_or_default() } else { own.to_owned() }
}

/// Returns the provider's own form of the usage. With `full`, it has the split of cache writes and
/// the service tier.
pub(crate) fn usage_json(of: &Usage, full: bool) -> Json {
    let mut usage = vec![
        ("input_tokens".to_owned(), of.input.into()),
        ("cache_creation_input_tokens".to_owned(), (of.cache_write_5m + of.cache_write_1h).into()),
        ("cache_read_input_tokens".to_owned(), of.cache_read.into()),
        ("output_tokens".to_owned(), of.output.into()),
    ];
    if full {
        let creation = json_object([
            ("ephemeral_5m_input_tokens", of.cache_write_5m.into()),
            ("ephemeral_1h_input_tokens", of.cache_write_1h.into()),
        ]);
        usage.insert(3, ("cache_creation".to_owned(), creation));
        usage.push(("service_tier".to_owned(), "standard".into()));
    }
    if of.thinking > 0 {
        let details = json_object([("thinking_tokens", of.thinking.into())]);
        usage.push(("output_tokens_details".to_owned(), details));
    }
    Json::Map(usage)
}
