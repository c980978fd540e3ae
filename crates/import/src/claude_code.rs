//! Sessions of Claude Code: one line for each block of a response, results between them, sub-agents
//! in files of their own or among the lines.

mod line;

use std::collections::{BTreeMap, HashSet};

use softland_session::core::Digest;
use softland_session::wire::Tokens;

use crate::draft::{Results, TurnDraft, parse_time};
use crate::input::Input;
use crate::message::Message;
use crate::step::{ConversationId, ConversationStart, KnownTurn};
use crate::step_output::{MessageFacts, StepOutput};
use line::Line;

/// The ids of a file that other files may hold as well.
#[derive(Debug, Default)]
pub(crate) struct RecordIds {
    pub(crate) messages: HashSet<Digest>,
    pub(crate) lines: HashSet<Digest>,
    /// True if the file is a sub-agent's own.
    pub(crate) agent: bool,
}

pub(crate) struct Reader<'x> {
    /// The ids of the files before this one.
    known: &'x RecordIds,
    ids: RecordIds,
    /// Ids that were first seen in this file.
    done: HashSet<Digest>,
    session: Option<String>,
    chains: BTreeMap<String, Chain>,
    /// The nameless sub-agent that a line belongs to, by the line's id.
    sides: BTreeMap<Digest, String>,
}

/// One conversation: the session's own, or a sub-agent's.
struct Chain {
    talk: ConversationId,
    open: Option<OpenResponse>,
    results: Results,
}

/// A response whose lines are still coming.
struct OpenResponse {
    id: Digest,
    draft: TurnDraft,
    calls: HashSet<String>,
}

/// Reads a session, without the messages and lines in `known`, which were read before.
pub(crate) fn read_recording(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    known: &RecordIds,
) -> RecordIds {
    let mut reader = Reader {
        known,
        ids: RecordIds { agent: true, ..RecordIds::default() },
        done: HashSet::new(),
        session: None,
        chains: BTreeMap::new(),
        sides: BTreeMap::new(),
    };
    out.read_lines(input, &mut |out, text, number| {
        let line = Line::from_json(text)?;
        reader.take_line(out, &line, number)
    });
    for chain in reader.chains.values_mut() {
        chain.close_response(out);
    }
    reader.ids.agent &= !reader.chains.is_empty();
    reader.ids
}

impl Reader<'_> {
    fn take_line(
        &mut self,
        out: &mut StepOutput<'_>,
        line: &Line<'_>,
        number: u64,
    ) -> Result<(), String> {
        let Some(said) = line.inner.as_ref().or(line.message.as_ref()) else { return Ok(()) };
        let user = said.has_role("user");
        if !user && !said.has_role("assistant") {
            return Ok(());
        }
        if user && self.is_known(line) {
            return Ok(());
        }
        if !user && said.model.is_some_and(|model| model.eq_str("<synthetic>")) {
            return Ok(());
        }
        let agent = self.find_agent(line);
        self.ids.agent &= agent.is_some() && line.inner.is_none();
        if user {
            let chain = self.open_chain(out, line, agent, number);
            chain.take_user(out, line, said, number);
            return Ok(());
        }
        let id = said.id.or(line.request).or(line.uuid);
        let id = Digest::from_bytes(
            id.map_or_else(|| number.to_string().into(), |id| id.unescape()).as_bytes(),
        );
        if self.known.messages.contains(&id) {
            if let Some((tokens, _)) = said.usage {
                self.open_chain(out, line, agent, number).take_known(out, said, tokens, line);
            }
            return Ok(());
        }
        self.ids.messages.insert(id);
        let again = !self.done.insert(id);
        let chain = self.open_chain(out, line, agent, number);
        chain.take_block(out, said, id, again, line, number)
    }

    /// Returns true if this line was read before, here or in another file.
    fn is_known(&mut self, line: &Line<'_>) -> bool {
        let Some(uuid) = line.inner_uuid.or(line.uuid) else { return false };
        let uuid = Digest::from_bytes(uuid.raw().as_bytes());
        self.known.lines.contains(&uuid) || !self.ids.lines.insert(uuid)
    }

    /// Returns the sub-agent that wrote this line.
    fn find_agent(&mut self, line: &Line<'_>) -> Option<String> {
        if let Some(agent) = line.agent {
            return (line.inner.is_some() || line.sidechain).then(|| agent.unescape().into_owned());
        }
        if !line.sidechain {
            return None;
        }
        // Older versions name no agent: its lines are linked by their parents.
        let parent = line.parent.map(|parent| Digest::from_bytes(parent.raw().as_bytes()));
        let known = parent.and_then(|parent| self.sides.get(&parent)).cloned();
        let count = self.chains.len() + 1;
        let agent = known.unwrap_or_else(|| format!("sidechain-{count}"));
        if let Some(uuid) = line.uuid {
            self.sides.insert(Digest::from_bytes(uuid.raw().as_bytes()), agent.clone());
        }
        Some(agent)
    }

    fn open_chain(
        &mut self,
        out: &mut StepOutput<'_>,
        line: &Line<'_>,
        agent: Option<String>,
        number: u64,
    ) -> &mut Chain {
        if self.session.is_none() {
            self.session = line.session.map(|session| session.unescape().into_owned());
        }
        let session = self.session.as_deref();
        self.chains.entry(agent.clone().unwrap_or_default()).or_insert_with(|| {
            let agent = agent.as_deref();
            let project = line.folder.map(|folder| folder.unescape());
            let begin = ConversationStart {
                session,
                agent,
                project: project.as_deref(),
                line: Some(number),
                ..ConversationStart::default()
            };
            Chain { talk: out.begin_conversation(&begin), open: None, results: Results::default() }
        })
    }
}

impl Chain {
    fn take_user(
        &mut self,
        out: &mut StepOutput<'_>,
        line: &Line<'_>,
        said: &Message<'_>,
        number: u64,
    ) {
        let (results, texts, media) = said.collect_contents();
        let time = line.time.and_then(|at| parse_time(&at.unescape()));
        let machine = line.machine || (!texts.is_empty() && texts.iter().all(|t| is_echo(t)));
        if results.is_empty() {
            self.close_response(out);
            let texts: Vec<_> = texts.iter().map(String::as_str).collect();
            let said = MessageFacts { machine, media, time, line: Some(number) };
            out.send_texts(self.talk, &texts, said);
            return;
        }
        // Results come between the lines of one response: they answer the response as a whole.
        let of = &mut self.results;
        of.list.extend(results);
        of.texts.extend(texts.into_iter().filter(|_| !machine));
        of.media = media.or(of.media);
        (of.time, of.line) = (of.time.or(time), of.line.or(Some(number)));
    }

    /// Takes a line of a response that counts in another file.
    fn take_known(
        &mut self,
        out: &mut StepOutput<'_>,
        said: &Message<'_>,
        tokens: Tokens,
        line: &Line<'_>,
    ) {
        self.close_response(out);
        let model = said.model.map(|model| model.unescape());
        let time = line.time.and_then(|at| parse_time(&at.unescape()));
        out.send_known_turn(self.talk, &KnownTurn { model: model.as_deref(), tokens, time });
    }

    fn take_block(
        &mut self,
        out: &mut StepOutput<'_>,
        said: &Message<'_>,
        id: Digest,
        again: bool,
        line: &Line<'_>,
        number: u64,
    ) -> Result<(), String> {
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            if again {
                return Ok(());
            }
            self.close_response(out);
            let mut draft = TurnDraft { line: Some(number), ..TurnDraft::default() };
            draft.time = line.time.and_then(|at| parse_time(&at.unescape()));
            self.open = Some(OpenResponse { id, draft, calls: HashSet::new() });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let before = open.draft.calls.len();
        said.add_to(&mut open.draft, "")?;
        // A resumed session may write a block twice.
        let fresh = open.draft.calls.split_off(before);
        let seen = &mut open.calls;
        open.draft.calls.extend(fresh.into_iter().filter(|call| seen.insert(call.id.clone())));
        if let Some((tokens, cost)) = said.usage {
            let larger = open.draft.tokens.is_none_or(|known| known.output <= tokens.output);
            if larger {
                open.draft.tokens = Some(tokens);
                open.draft.cost = cost.or(open.draft.cost);
            }
        }
        Ok(())
    }

    fn close_response(&mut self, out: &mut StepOutput<'_>) {
        if let Some(open) = self.open.take() {
            open.draft.emit_turn(out, self.talk);
        }
        self.results.emit_results(out, self.talk);
    }
}

/// Returns true for text that Claude Code writes in the user's name: commands, shells,
/// interruptions.
fn is_echo(text: &str) -> bool {
    const OPENINGS: &[&str] = &[
        "<command-",
        "<local-command-",
        "<bash-input>",
        "<bash-stdout>",
        "<bash-stderr>",
        "<user-prompt-submit-hook>",
        "<task-notification>",
        "Caveat: The messages below were generated by the user while running local commands",
        "[Request interrupted by user",
        "This session is being continued from a previous conversation",
    ];
    let text = text.trim_start();
    OPENINGS.iter().any(|opening| text.starts_with(opening))
}
