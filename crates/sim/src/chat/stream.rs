//! A chat response as a stream of chunks, in the manner of each vendor: the place of the role,
//! calls in pieces or at once, the place of the usage, comments in between.

use super::answer::{Answer, AnswerPart, OutputCall, ShownReasoning, usage_json};
use super::request::Prompt;
use super::whole::{detail_head, reasoning_key, token_json, whole_call};
use crate::events::{self, Event};
use crate::json::{Json, json_object};
use crate::models::open::Dialect;
use crate::openai::{OpenAiRefusal, in_dialect};
use crate::pieces::cut_text;
use crate::reply::Chunk;
use crate::turn::Turn;

type Entries = Vec<(String, Json)>;

/// The comments that OpenRouter sends while it waits.
const COMMENTS: &str = ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n";

/// Writes an answer as a stream, with the delays and the fault of its turn.
pub(super) fn write_stream(answer: &Answer, prompt: &Prompt<'_>, turn: &Turn) -> Vec<Chunk> {
    let writer = Writer { answer, usage: prompt.usage, obfuscation: prompt.obfuscation };
    events::send_events(writer.build_events(), turn, |_| writer.failure_events())
}

/// Writes a stream that ends when the vendor refuses the call in progress.
pub(super) fn write_refused(
    answer: &Answer,
    prompt: &Prompt<'_>,
    turn: &Turn,
    error: Json,
) -> Vec<Chunk> {
    let writer = Writer { answer, usage: prompt.usage, obfuscation: prompt.obfuscation };
    let mut events: Vec<Event> = writer.build_events().into_iter().take(1).collect();
    events.push(Event::new(format!("event: error\ndata: {}\n\n", error.to_text()), false));
    events::send_events(events, turn, |_| writer.failure_events())
}

struct Writer<'a> {
    answer: &'a Answer,
    usage: bool,
    obfuscation: bool,
}

impl Writer<'_> {
    fn dialect(&self) -> Dialect {
        self.answer.model.dialect
    }

    fn build_events(&self) -> Vec<Event> {
        let mut out = self.head_events();
        for delta in self.build_deltas() {
            let delta = if self.repeats_role() { with_role(delta) } else { delta };
            let text = self.chunk_json(Some((delta, None)), None);
            out.push(self.to_event(text, out.len(), true));
        }
        for text in self.tail_chunks() {
            out.push(self.to_event(text, out.len(), false));
        }
        out.push(done_event());
        out
    }

    /// True for vendors that repeat the role in every delta.
    fn repeats_role(&self) -> bool {
        matches!(self.dialect(), Dialect::OpenRouter | Dialect::Zai)
    }

    /// Returns the events before the first delta with content.
    fn head_events(&self) -> Vec<Event> {
        let mut out = Vec::new();
        if self.dialect() == Dialect::Azure {
            let filter = json_object([
                ("prompt_index", 0.into()),
                ("content_filter_results", Json::Map(Vec::new())),
            ]);
            let chunk = json_object([
                ("choices", Json::List(Vec::new())),
                ("created", 0.into()),
                ("id", "".into()),
                ("model", "".into()),
                ("object", "".into()),
                ("prompt_filter_results", Json::List(vec![filter])),
            ]);
            out.push(Event::new(format!("data: {}\n\n", chunk.to_text()), false));
        }
        if !self.repeats_role() {
            let text = self.chunk_json(Some((self.first_delta(), None)), None);
            out.push(self.to_event(text, out.len(), false));
        }
        out
    }

    fn first_delta(&self) -> Entries {
        let mut delta = vec![("role".to_owned(), "assistant".into())];
        let speaks = !matches!(
            self.answer.pieces.first(),
            Some(AnswerPart::Call(_) | AnswerPart::Refusal(_))
        );
        let content: Json = if speaks { "".into() } else { Json::Null };
        match self.dialect() {
            Dialect::AnthropicCompat => {}
            Dialect::DeepSeek => {
                let thinks = matches!(self.answer.pieces.first(), Some(AnswerPart::Thought(_)));
                delta.push(("content".to_owned(), if thinks { Json::Null } else { content }));
                if thinks {
                    delta.push(("reasoning_content".to_owned(), "".into()));
                }
            }
            _ => {
                delta.push(("content".to_owned(), content));
                if self.answer.model.has_refusals() {
                    delta.push(("refusal".to_owned(), Json::Null));
                }
            }
        }
        delta
    }

    fn build_deltas(&self) -> Vec<Entries> {
        let mut out = Vec::new();
        for piece in &self.answer.pieces {
            match piece {
                AnswerPart::Text(text) => {
                    out.extend(cut_text(text).map(|p| single_entry("content", p.into())))
                }
                AnswerPart::Refusal(text) => {
                    out.extend(cut_text(text).map(|p| single_entry("refusal", p.into())))
                }
                AnswerPart::Thought(thought) => self.push_thought(thought, &mut out),
                AnswerPart::Call(call) => self.push_call(call, &mut out),
            }
        }
        out
    }

    fn push_thought(&self, thought: &ShownReasoning, out: &mut Vec<Entries>) {
        let Some(key) = reasoning_key(self.dialect()) else { return };
        let routed = self.dialect() == Dialect::OpenRouter;
        let content = || ("content".to_owned(), if routed { "".into() } else { Json::Null });
        let detail = |key: &str, value: Json| {
            let mut detail = detail_head(thought);
            detail.push((key.to_owned(), value));
            ("reasoning_details".to_owned(), Json::List(vec![Json::Map(detail)]))
        };
        for piece in cut_text(&thought.text) {
            let mut delta = vec![content(), (key.to_owned(), piece.into())];
            if routed {
                delta.push(detail("text", piece.into()));
            }
            out.push(delta);
        }
        if routed && thought.token.is_some() {
            let proof = if thought.encrypted { "data" } else { "signature" };
            out.push(vec![content(), detail(proof, token_json(thought))]);
        }
    }

    fn push_call(&self, call: &OutputCall, out: &mut Vec<Entries>) {
        let delta = |json: Json| {
            let mut delta = single_entry("tool_calls", Json::List(vec![json]));
            if self.dialect() == Dialect::OpenRouter {
                delta.insert(0, ("content".to_owned(), Json::Null));
            }
            delta
        };
        if matches!(self.dialect(), Dialect::Groq | Dialect::Xai) {
            out.push(delta(whole_call(call, true)));
            return;
        }
        let head = OutputCall {
            index: call.index,
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: String::new(),
        };
        out.push(delta(whole_call(&head, true)));
        for piece in cut_text(&call.arguments) {
            let function = json_object([("arguments", piece.into())]);
            let more = json_object([("index", (call.index as u64).into()), ("function", function)]);
            out.push(delta(more));
        }
    }

    /// Returns the last chunks: finish reason and usage, together or apart.
    fn tail_chunks(&self) -> Vec<Json> {
        let finish = Some(self.answer.finish);
        let blank = || single_entry("content", "".into());
        let own = usage_json(self.answer);
        match self.dialect() {
            Dialect::OpenRouter => vec![
                self.chunk_json(Some((with_role(blank()), finish)), None),
                self.chunk_json(Some((with_role(blank()), finish)), Some(own)),
            ],
            Dialect::Zai => vec![self.chunk_json(Some((with_role(blank()), finish)), Some(own))],
            Dialect::DeepSeek => {
                vec![self.chunk_json(Some((blank(), finish)), self.usage.then_some(own))]
            }
            Dialect::OpenAi
            | Dialect::Azure
            | Dialect::Groq
            | Dialect::Xai
            | Dialect::AnthropicCompat => {
                let mut tail = vec![self.chunk_json(Some((Vec::new(), finish)), None)];
                if self.usage {
                    tail.push(self.chunk_json(None, Some(own)));
                }
                tail
            }
        }
    }

    /// Returns one chunk, with or without a choice. The usage is `null` if it comes later.
    fn chunk_json(&self, choice: Option<(Entries, Option<&str>)>, usage: Option<Json>) -> Json {
        let answer = self.answer;
        let mut chunk = vec![("id".to_owned(), answer.id.as_str().into())];
        if self.dialect() == Dialect::OpenRouter {
            chunk.push(("provider".to_owned(), "Simulated".into()));
        }
        chunk.push(("object".to_owned(), "chat.completion.chunk".into()));
        chunk.push(("created".to_owned(), answer.created.into()));
        chunk.push(("model".to_owned(), answer.name.as_str().into()));
        if answer.model.knows_fields() {
            chunk.push(("service_tier".to_owned(), "default".into()));
            chunk.push(("system_fingerprint".to_owned(), "fp_sim".into()));
        }
        let choices = choice.map(|(delta, finish)| self.choice_json(delta, finish));
        chunk.push(("choices".to_owned(), Json::List(choices.into_iter().collect())));
        let says = answer.model.knows_fields() || self.dialect() == Dialect::DeepSeek;
        match usage {
            Some(usage) => chunk.push(("usage".to_owned(), usage)),
            None if self.usage && says => chunk.push(("usage".to_owned(), Json::Null)),
            None => {}
        }
        Json::Map(chunk)
    }

    fn choice_json(&self, delta: Entries, finish: Option<&str>) -> Json {
        let text = |t: Option<&str>| t.map_or(Json::Null, Json::from);
        let mut choice =
            vec![("index".to_owned(), 0.into()), ("delta".to_owned(), Json::Map(delta))];
        match self.dialect() {
            Dialect::OpenRouter => {
                choice.push(("finish_reason".to_owned(), text(finish)));
                let native = finish.map(|_| self.answer.native);
                choice.push(("native_finish_reason".to_owned(), text(native)));
            }
            // This vendor has no finish reason before the end.
            Dialect::Zai if finish.is_none() => {}
            Dialect::Zai | Dialect::AnthropicCompat => {
                choice.push(("finish_reason".to_owned(), text(finish)));
            }
            _ => {
                choice.push(("logprobs".to_owned(), Json::Null));
                choice.push(("finish_reason".to_owned(), text(finish)));
            }
        }
        Json::Map(choice)
    }

    fn to_event(&self, mut chunk: Json, at: usize, is_delta: bool) -> Event {
        // Padding that hides the length of a token; its content means nothing.
        if let Json::Map(entries) = &mut chunk
            && self.obfuscation
            && self.dialect() == Dialect::OpenAi
        {
            let pad = "sim0pad1sim2pad3".get(..1 + at * 7 % 15).unwrap_or("");
            entries.push(("obfuscation".to_owned(), pad.into()));
        }
        let first = at == 0 && self.dialect() == Dialect::OpenRouter;
        let comments = if first { COMMENTS } else { "" };
        Event::new(format!("{comments}data: {}\n\n", chunk.to_text()), is_delta)
    }

    /// Returns the end of a stream that fails under status 200.
    fn failure_events(&self) -> Vec<Event> {
        let message = "The server had an error while processing your request. Sorry about that!";
        match self.dialect() {
            Dialect::OpenRouter => {
                let mut chunk = self.chunk_json(
                    Some((with_role(single_entry("content", "".into())), Some("error"))),
                    None,
                );
                if let Json::Map(entries) = &mut chunk {
                    let error = json_object([
                        ("code", 502.into()),
                        ("message", "Provider returned error".into()),
                    ]);
                    entries.push(("error".to_owned(), error));
                }
                vec![Event::new(format!("data: {}\n\n", chunk.to_text()), false), done_event()]
            }
            dialect => {
                let refusal = in_dialect(OpenAiRefusal::new(500, "server_error", message), dialect);
                let body = String::from_utf8(refusal.to_body()).unwrap_or_default();
                let name = if dialect == Dialect::Groq { "event: error\n" } else { "" };
                vec![Event::new(format!("{name}data: {body}\n\n"), false)]
            }
        }
    }
}

fn done_event() -> Event {
    Event::new("data: [DONE]\n\n".to_owned(), false)
}

fn single_entry(key: &str, value: Json) -> Entries {
    vec![(key.to_owned(), value)]
}

fn with_role(mut delta: Entries) -> Entries {
    delta.insert(0, ("role".to_owned(), "assistant".into()));
    delta
}
