//! Rows as the database is given them: JSON objects with the names of the columns.

use serde::{Serialize, Serializer};
use softland_core::Digest;

use crate::batch::TextSpan;
use crate::record::Request;
use crate::registry::{NumberedLine, RunRow};
use crate::sql::to_sql_int;

/// A text. The database takes no NUL, in place of which it gets U+FFFD.
struct CleanText<'a>(&'a str);

impl Serialize for CleanText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.contains('\0') {
            true => serializer.serialize_str(&self.0.replace('\0', "\u{fffd}")),
            false => serializer.serialize_str(self.0),
        }
    }
}

fn clean(text: Option<&str>) -> Option<CleanText<'_>> {
    text.map(CleanText)
}

/// A row of `softland_ledger_runs`.
#[derive(Serialize)]
pub(super) struct RunColumns<'a> {
    id: i64,
    /// The id as it is: a run whose id has a NUL is refused, and not mistaken for another.
    run: &'a str,
    session: Option<CleanText<'a>>,
    agent: Option<CleanText<'a>>,
    continues: Option<CleanText<'a>>,
    model: Option<CleanText<'a>>,
    policy: Option<CleanText<'a>>,
    client: Option<CleanText<'a>>,
    started: i64,
    last: i64,
    met: u8,
    next_seq: i64,
    turns: i64,
    tool_calls: Option<i64>,
    requests: i64,
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
    cost: Option<i64>,
    unpriced: i64,
    ended: Option<i64>,
    end_seq: Option<i64>,
    outcome: Option<CleanText<'a>>,
    reason: Option<CleanText<'a>>,
    local: Option<u8>,
    ending: Option<CleanText<'a>>,
    name: Option<CleanText<'a>>,
    observed: u8,
    key: Option<CleanText<'a>>,
    account: Option<CleanText<'a>>,
}

impl<'a> RunColumns<'a> {
    pub(super) fn new(row: &'a RunRow) -> Self {
        let end = row.end.as_ref();
        Self {
            id: row.id,
            run: &row.run,
            session: clean(row.session.as_deref()),
            agent: clean(row.agent.as_deref()),
            continues: clean(row.continues.as_deref()),
            model: clean(row.model.as_deref()),
            policy: clean(row.policy.as_deref()),
            client: clean(row.client.as_deref()),
            started: to_sql_int(row.started),
            last: to_sql_int(row.last),
            met: row.met.into(),
            next_seq: to_sql_int(row.next_seq),
            turns: to_sql_int(row.turns),
            tool_calls: row.tool_calls.map(to_sql_int),
            requests: to_sql_int(row.requests),
            input: to_sql_int(row.input),
            output: to_sql_int(row.output),
            cache_read: to_sql_int(row.cache_read),
            cache_write: to_sql_int(row.cache_write),
            cost: row.cost.map(to_sql_int),
            unpriced: to_sql_int(row.unpriced),
            ended: end.map(|end| to_sql_int(end.at)),
            end_seq: end.map(|end| to_sql_int(end.seq)),
            outcome: clean(end.map(|end| end.outcome.as_str())),
            reason: clean(end.map(|end| end.reason.as_str())),
            local: end.map(|end| end.local.into()),
            ending: clean(end.map(|end| end.ended.as_str())),
            name: clean(row.name.as_deref()),
            observed: row.observed.into(),
            key: clean(row.payer.key.as_deref()),
            account: clean(row.payer.account.as_deref()),
        }
    }
}

/// A row of `softland_ledger_lines`.
#[derive(Serialize)]
pub(super) struct LineColumns<'a> {
    run_id: i64,
    seq: i64,
    at: i64,
    turn: i64,
    event: &'a str,
    fields: CleanText<'a>,
}

impl<'a> LineColumns<'a> {
    pub(super) fn new(line: &'a NumberedLine<'_>) -> Self {
        Self {
            run_id: line.id,
            seq: to_sql_int(line.seq),
            at: to_sql_int(line.at),
            turn: to_sql_int(line.turn),
            event: line.event,
            fields: CleanText(&line.fields),
        }
    }
}

/// A row of `softland_ledger_requests`, or of `softland_ledger_open_requests`, which has no other
/// columns but `run`.
#[derive(Serialize)]
pub(super) struct RequestColumns<'a> {
    run_id: i64,
    seq: i64,
    run: Option<&'a str>,
    at: i64,
    request: CleanText<'a>,
    session: Option<CleanText<'a>>,
    turn: i64,
    upstream: CleanText<'a>,
    path: CleanText<'a>,
    model: Option<CleanText<'a>>,
    rung: Option<CleanText<'a>>,
    status: Option<u16>,
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
    cost: Option<i64>,
    ms: i64,
    remark: Option<CleanText<'a>>,
    content_digest: Option<String>,
    content_bytes: Option<i64>,
    key: Option<CleanText<'a>>,
    account: Option<CleanText<'a>>,
}

impl<'a> RequestColumns<'a> {
    pub(super) fn new(
        (run_id, seq): (i64, i64),
        request: &'a Request<TextSpan>,
        texts: &'a str,
    ) -> Self {
        let own = request.resolve_texts(|span| span.text_in(texts));
        let content = request.content.as_deref();
        Self {
            run_id,
            seq,
            run: request.run.as_deref(),
            at: to_sql_int(request.at),
            request: CleanText(own.id),
            session: clean(request.session.as_deref()),
            turn: to_sql_int(request.turn),
            upstream: CleanText(&request.upstream),
            path: CleanText(own.path),
            model: clean(request.model.as_deref()),
            rung: clean(own.rung),
            status: request.status,
            input: to_sql_int(request.input),
            output: to_sql_int(request.output),
            cache_read: to_sql_int(request.cache_read),
            cache_write: to_sql_int(request.cache_write),
            cost: request.cost.map(|cost| to_sql_int(cost.0)),
            ms: to_sql_int(request.millis),
            remark: clean(own.remark),
            content_digest: content.map(|content| Digest::from_bytes(content).to_string()),
            content_bytes: content.map(|content| to_sql_int(content.len() as u64)),
            key: clean(request.payer.key.as_deref()),
            account: clean(request.payer.account.as_deref()),
        }
    }
}
