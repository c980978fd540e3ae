//! Events of Copilot CLI: a turn is one `assistant.message`.

use std::collections::BTreeMap;

use softland_session::ResultRead;
use softland_session::core::ToolResult;
use softland_session::wire::Tokens;

use crate::draft::{Draft, Results, time};
use crate::fields::{Fields, elements, string};
use crate::input::Input;
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

#[derive(Default)]
struct Reader {
    session: Option<String>,
    model: Option<String>,
    /// Conversations by sub-agent, named by the call that it works for. The session's own has no
    /// name.
    chains: BTreeMap<String, (Option<Talk>, Results)>,
}

pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    let mut reader = Reader::default();
    out.lines(input, &mut |out, text, line| reader.line(out, text, line));
    for (talk, results) in reader.chains.values_mut() {
        if let Some(talk) = talk {
            results.give(out, *talk);
        }
    }
}

impl Reader {
    fn line(&mut self, out: &mut Out<'_>, text: &str, line: u64) -> Result<(), String> {
        let fields = Fields::of(text)?;
        let Some(data) = fields.object("data") else { return Ok(()) };
        let at = fields.text("timestamp").and_then(|at| time(&at));
        let agent = data.text("parentToolCallId").unwrap_or_default();
        match &*fields.text("type").unwrap_or_default() {
            "session.start" => {
                self.session = data.owned("sessionId");
                self.model = data.owned("selectedModel");
            }
            "session.model_change" => {
                self.model = data.owned("newModel").or_else(|| self.model.take())
            }
            "user.message" => {
                let (talk, results) = self.chain(out, &agent, line);
                results.give(out, talk);
                let text = data.text("content").unwrap_or_default();
                // Skills and the system also write user messages, beside the person's.
                let machine = data.text("source").is_some_and(|source| source != "user");
                let said = Said { machine, time: at, line: Some(line), ..Said::default() };
                out.texts(talk, &[&text], said);
            }
            "assistant.message" => {
                let mut draft = Draft { time: at, line: Some(line), ..Draft::default() };
                draft.model = data.owned("model").or_else(|| self.model.clone());
                if let Some(text) = data.str("content") {
                    draft.text(text);
                }
                if let Some(text) = data.str("reasoningText") {
                    draft.hidden(Some(text));
                }
                draft.hidden |= data.has("reasoningOpaque") || data.has("encryptedContent");
                let output = data.uint("outputTokens");
                draft.tokens = output.map(|output| Tokens { output, ..Tokens::default() });
                for call in elements(data.raw("toolRequests").unwrap_or_default()) {
                    let call = Fields::of(call)?;
                    let input = call.raw("arguments").unwrap_or("{}");
                    let input = string(input).map_or_else(|| input.into(), |text| text.unescape());
                    let id = call.owned("toolCallId").unwrap_or_default();
                    let name = call.owned("name").unwrap_or_default();
                    draft.call(id, name, input.into_owned(), false);
                }
                let (talk, results) = self.chain(out, &agent, line);
                results.give(out, talk);
                draft.give(out, talk);
            }
            "tool.execution_complete" => {
                let (_, results) = self.chain(out, &agent, line);
                results.list.push((data.owned("toolCallId").unwrap_or_default(), result(&data)));
                results.time = results.time.or(at);
                results.line = results.line.or(Some(line));
            }
            _ => {}
        }
        Ok(())
    }

    fn chain(&mut self, out: &mut Out<'_>, agent: &str, line: u64) -> (Talk, &mut Results) {
        let session = self.session.as_deref();
        let (talk, results) = self.chains.entry(agent.to_owned()).or_default();
        let agent = (!agent.is_empty()).then_some(agent);
        let begin = Begin { session, agent, line: Some(line), ..Begin::default() };
        (*talk.get_or_insert_with(|| out.begin(&begin)), results)
    }
}

fn result(data: &Fields<'_>) -> ToolResult<'static> {
    let mut read = ResultRead::default();
    let result = data.object("result").or_else(|| data.object("error"));
    let text =
        result.as_ref().and_then(|result| result.str("content").or_else(|| result.str("message")));
    match text {
        Some(text) => read.text(text),
        None => read.media(),
    }
    let facts = read.facts();
    ToolResult { failed: facts.failed || data.raw("success") == Some("false"), ..facts }
}
