//! Events of Copilot CLI: a turn is one `assistant.message`.

use std::collections::BTreeMap;

use softland_session::ResultReader;
use softland_session::core::ToolResult;
use softland_session::wire::Tokens;

use crate::draft::{Results, TurnDraft, parse_time};
use crate::fields::{Fields, array_elements, decode_string};
use crate::input::Input;
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

#[derive(Default)]
struct Reader {
    session: Option<String>,
    project: Option<String>,
    model: Option<String>,
    /// Conversations by sub-agent, named by the call that it works for. The session's own has no
    /// name.
    chains: BTreeMap<String, (Option<ConversationId>, Results)>,
}

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut reader = Reader::default();
    out.read_lines(input, &mut |out, text, line| reader.take_line(out, text, line));
    for (talk, results) in reader.chains.values_mut() {
        if let Some(talk) = talk {
            results.emit_results(out, *talk);
        }
    }
}

impl Reader {
    fn take_line(&mut self, out: &mut StepOutput<'_>, text: &str, line: u64) -> Result<(), String> {
        let fields = Fields::from_json(text)?;
        let Some(data) = fields.object("data") else { return Ok(()) };
        let at = fields.text("timestamp").and_then(|at| parse_time(&at));
        let agent = data.text("parentToolCallId").unwrap_or_default();
        match &*fields.text("type").unwrap_or_default() {
            "session.start" => {
                self.session = data.owned_text("sessionId");
                self.model = data.owned_text("selectedModel");
                self.project = data.object("context").and_then(|own| own.owned_text("cwd"));
            }
            "session.model_change" => {
                self.model = data.owned_text("newModel").or_else(|| self.model.take())
            }
            "user.message" => {
                let (talk, results) = self.open_chain(out, &agent, line);
                results.emit_results(out, talk);
                let text = data.text("content").unwrap_or_default();
                // Skills and the system also write user messages, beside the person's.
                let machine = data.text("source").is_some_and(|source| source != "user");
                let said =
                    MessageFacts { machine, time: at, line: Some(line), ..MessageFacts::default() };
                out.send_texts(talk, &[&text], said);
            }
            "assistant.message" => {
                let mut draft = TurnDraft { time: at, line: Some(line), ..TurnDraft::default() };
                draft.model = data.owned_text("model").or_else(|| self.model.clone());
                if let Some(text) = data.str("content") {
                    draft.add_text(text);
                }
                if let Some(text) = data.str("reasoningText") {
                    draft.add_hidden(Some(text));
                }
                draft.hidden |= data.has_key("reasoningOpaque") || data.has_key("encryptedContent");
                let output = data.uint("outputTokens");
                draft.tokens = output.map(|output| Tokens { output, ..Tokens::default() });
                for call in array_elements(data.raw("toolRequests").unwrap_or_default()) {
                    let call = Fields::from_json(call)?;
                    let input = call.raw("arguments").unwrap_or("{}");
                    let input =
                        decode_string(input).map_or_else(|| input.into(), |text| text.unescape());
                    let id = call.owned_text("toolCallId").unwrap_or_default();
                    let name = call.owned_text("name").unwrap_or_default();
                    draft.add_call(id, name, input.into_owned(), false);
                }
                let (talk, results) = self.open_chain(out, &agent, line);
                results.emit_results(out, talk);
                draft.emit_turn(out, talk);
            }
            "tool.execution_complete" => {
                let (_, results) = self.open_chain(out, &agent, line);
                results
                    .list
                    .push((data.owned_text("toolCallId").unwrap_or_default(), read_result(&data)));
                results.time = results.time.or(at);
                results.line = results.line.or(Some(line));
            }
            _ => {}
        }
        Ok(())
    }

    fn open_chain(
        &mut self,
        out: &mut StepOutput<'_>,
        agent: &str,
        line: u64,
    ) -> (ConversationId, &mut Results) {
        let (session, project) = (self.session.as_deref(), self.project.as_deref());
        let (talk, results) = self.chains.entry(agent.to_owned()).or_default();
        let agent = (!agent.is_empty()).then_some(agent);
        let line = Some(line);
        let begin =
            ConversationStart { session, agent, project, line, ..ConversationStart::default() };
        (*talk.get_or_insert_with(|| out.begin_conversation(&begin)), results)
    }
}

fn read_result(data: &Fields<'_>) -> ToolResult<'static> {
    let mut read = ResultReader::default();
    let result = data.object("result").or_else(|| data.object("error"));
    let text =
        result.as_ref().and_then(|result| result.str("content").or_else(|| result.str("message")));
    match text {
        Some(text) => read.add_text(text),
        None => read.add_media(""),
    }
    let facts = read.to_facts();
    ToolResult { failed: facts.failed || data.raw("success") == Some("false"), ..facts }
}
