//! Goose's database of sessions: a turn is an assistant's message. Its usage is that of the ledger's
//! row in the same order, or of a session without a ledger the session's sums, with its last turn.

use std::collections::VecDeque;

use rusqlite::{Connection, Row};
use softland_session::core::NanoUsd;
use softland_session::wire::Tokens;

use crate::content::{read_arguments, read_result};
use crate::draft::{Results, TurnDraft};
use crate::fields::{Fields, array_elements};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

/// The sub-agent that stands for a session's compactions.
const COMPACTION: &str = "compaction";

/// A request, as the ledger has it.
#[derive(Clone, Debug, Default)]
struct LedgerRow {
    model: Option<String>,
    time: Option<u64>,
    tokens: Option<Tokens>,
    cost: Option<NanoUsd>,
    compaction: bool,
}

struct Session {
    id: String,
    folder: Option<String>,
    parent: Option<String>,
    model: Option<String>,
    sums: LedgerRow,
}

/// Returns true if a database is Goose's.
pub(crate) fn is_goose(connection: &Connection) -> bool {
    connection.prepare("SELECT content_json, session_id FROM messages").is_ok()
        && connection.prepare("SELECT id, working_dir FROM sessions").is_ok()
}

/// Reads a database.
pub(crate) fn read_database(
    connection: &Connection,
    out: &mut StepOutput<'_>,
    on: &(dyn Fn() -> bool + Sync),
) -> rusqlite::Result<()> {
    let sessions = read_sessions(connection)?;
    for session in sessions {
        if !on() {
            out.list_unreadable(None, crate::input::GIVEN_UP);
            return Ok(());
        }
        emit_session(connection, out, &session)?;
    }
    Ok(())
}

/// Reads the sessions. Earlier versions lack some columns.
fn read_sessions(connection: &Connection) -> rusqlite::Result<Vec<Session>> {
    let mut statement = connection.prepare("SELECT * FROM sessions ORDER BY id")?;
    let read = statement.query_map([], |row| {
        let text = |name: &str| row.get::<_, Option<String>>(name).ok().flatten();
        let config = text("model_config_json").unwrap_or_default();
        let config = Fields::from_json(&config).unwrap_or_default();
        Ok(Session {
            id: row.get("id")?,
            folder: text("working_dir"),
            parent: text("parent_session_id"),
            model: config.owned_text("model_name"),
            sums: LedgerRow {
                tokens: read_tokens(row, "accumulated_"),
                cost: read_cost(row, "accumulated_cost"),
                ..LedgerRow::default()
            },
        })
    })?;
    read.collect()
}

fn read_ledger(connection: &Connection, session: &str) -> rusqlite::Result<Vec<LedgerRow>> {
    let sql = "SELECT * FROM usage_ledger WHERE session_id = ?1 ORDER BY id";
    // Earlier versions have no ledger.
    let Ok(mut statement) = connection.prepare(sql) else { return Ok(Vec::new()) };
    let read = statement.query_map([session], |row| {
        Ok(LedgerRow {
            model: row.get("model")?,
            time: row.get::<_, Option<i64>>("created_timestamp")?.and_then(seconds),
            tokens: read_tokens(row, ""),
            cost: read_cost(row, "cost"),
            compaction: row.get::<_, Option<i64>>("is_compaction")?.unwrap_or(0) != 0,
        })
    })?;
    read.collect()
}

fn emit_session(
    connection: &Connection,
    out: &mut StepOutput<'_>,
    session: &Session,
) -> rusqlite::Result<()> {
    let rows = read_ledger(connection, &session.id)?;
    let (compactions, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.compaction);
    let told = !rows.is_empty() || !compactions.is_empty();
    let mut rows: VecDeque<LedgerRow> = rows.into();
    let parent = session.parent.as_deref();
    let begin = ConversationStart {
        session: Some(parent.unwrap_or(&session.id)),
        agent: parent.map(|_| session.id.as_str()),
        project: session.folder.as_deref(),
        ..ConversationStart::default()
    };
    let sql = "SELECT role, content_json, created_timestamp FROM messages
               WHERE session_id = ?1 ORDER BY id";
    let mut statement = connection.prepare(sql)?;
    let mut list: Vec<(String, String, Option<u64>)> = Vec::new();
    let read = statement.query_map([session.id.as_str()], |row| {
        let time = row.get::<_, Option<i64>>(2)?.and_then(seconds);
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, time))
    })?;
    for message in read {
        list.push(message?);
    }
    let last = list.iter().rposition(|(role, ..)| role == "assistant");
    if last.is_none() && rows.is_empty() && compactions.is_empty() {
        return Ok(());
    }
    let talk = out.begin_conversation(&begin);
    let mut results = Results::default();
    for (at, (role, content, time)) in list.iter().enumerate() {
        let usage = match (told, role == "assistant") {
            (_, false) => None,
            (true, true) => rows.pop_front(),
            (false, true) => (Some(at) == last).then(|| session.sums.clone()),
        };
        let own = MessageParts { role, content, time: *time };
        if let Err(reason) = own.emit_message(out, talk, &mut results, usage, session) {
            out.list_unreadable(None, format!("session {}: {reason}", session.id));
        }
    }
    results.emit_results(out, talk);
    out.end_conversation(talk);
    let beside: Vec<LedgerRow> = compactions.into_iter().chain(rows).collect();
    if !beside.is_empty() {
        let talk = out.begin_conversation(&ConversationStart { agent: Some(COMPACTION), ..begin });
        for row in beside {
            let LedgerRow { model, time, tokens, cost, .. } = row;
            TurnDraft { model, time, tokens, cost, gives: true, ..TurnDraft::default() }
                .emit_turn(out, talk);
        }
        out.end_conversation(talk);
    }
    Ok(())
}

struct MessageParts<'a> {
    role: &'a str,
    content: &'a str,
    time: Option<u64>,
}

impl MessageParts<'_> {
    fn emit_message(
        &self,
        out: &mut StepOutput<'_>,
        talk: ConversationId,
        results: &mut Results,
        usage: Option<LedgerRow>,
        session: &Session,
    ) -> Result<(), String> {
        let parts: Vec<Fields<'_>> = array_elements(self.content)
            .into_iter()
            .map(Fields::from_json)
            .collect::<Result<_, _>>()?;
        let is = |part: &Fields<'_>, kind: &str| part.text("type").as_deref() == Some(kind);
        if self.role == "assistant" {
            results.emit_results(out, talk);
            let usage = usage.unwrap_or_default();
            let mut draft = TurnDraft {
                model: usage.model.or_else(|| session.model.clone()),
                time: self.time,
                tokens: usage.tokens,
                cost: usage.cost,
                ..TurnDraft::default()
            };
            parts.iter().for_each(|part| add_part(&mut draft, part));
            draft.emit_turn(out, talk);
            return Ok(());
        }
        for part in parts.iter().filter(|part| is(part, "toolResponse")) {
            let result = part.object("toolResult").unwrap_or_default();
            let failed = result.text("status").as_deref() == Some("error");
            let inner = result.object("value");
            let content = inner.as_ref().and_then(|inner| inner.raw("content"));
            let content = content.or_else(|| result.raw("value")).or_else(|| result.raw("error"));
            let id = part.id("id").unwrap_or_default();
            results.list.push((id, read_result(content.unwrap_or_default(), failed)));
            results.time = results.time.or(self.time);
        }
        let texts: Vec<_> = parts
            .iter()
            .filter(|part| is(part, "text"))
            .filter_map(|part| part.text("text"))
            .collect();
        if !texts.is_empty() {
            results.emit_results(out, talk);
            let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
            let said = MessageFacts { time: self.time, ..MessageFacts::default() };
            out.send_texts(talk, &texts, said);
        }
        Ok(())
    }
}

fn add_part(draft: &mut TurnDraft, part: &Fields<'_>) {
    match &*part.text("type").unwrap_or_default() {
        "text" => part.str("text").into_iter().for_each(|text| draft.add_text(text)),
        "thinking" | "reasoning" => draft.add_hidden(part.str("thinking")),
        "toolRequest" => {
            let call = part.object("toolCall").unwrap_or_default();
            let value = call.object("value").unwrap_or_default();
            let id = part.id("id").unwrap_or_default();
            let name = value.owned_text("name").unwrap_or_default();
            draft.add_call(id, name, read_arguments(value.raw("arguments")), false);
        }
        _ => draft.hidden = true,
    }
}

/// Reads columns of tokens. The input holds what was cached if the total says so.
fn read_tokens(row: &Row<'_>, prefix: &str) -> Option<Tokens> {
    let count = |name: &str| {
        let value: Option<i64> = row.get(format!("{prefix}{name}_tokens").as_str()).ok().flatten();
        value.and_then(|value| u64::try_from(value).ok())
    };
    let (all, output) = (count("input")?, count("output").unwrap_or(0));
    let read = count("cache_read").unwrap_or(0);
    let written = count("cache_write").unwrap_or(0);
    let within = count("total").is_none_or(|total| total == all + output) && read + written <= all;
    Some(Tokens {
        input: if within { all - read - written } else { all },
        output,
        cache_read: read,
        cache_write_5m: written,
        ..Tokens::default()
    })
}

fn read_cost(row: &Row<'_>, name: &str) -> Option<NanoUsd> {
    row.get::<_, Option<f64>>(name).ok().flatten().and_then(NanoUsd::from_dollars)
}

/// Returns milliseconds. Some versions write them, others seconds.
fn seconds(time: i64) -> Option<u64> {
    let time = u64::try_from(time).ok()?;
    Some(if time < 100_000_000_000 { time * 1000 } else { time })
}
