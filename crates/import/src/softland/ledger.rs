//! Reads a ledger, run by run.

use rusqlite::{Connection, Row};

use super::{Callers, Event, RecordedRun};
use crate::fields::Fields;
use crate::input::GIVEN_UP;
use crate::step_output::StepOutput;

/// The events of a ledger, run by run in the order in which they began, each run in order. A row of
/// the event `lines` holds several events: `[[seq, at, turn, event, fields], …]`.
const EVENTS: &str = "
    SELECT r.run, r.session, r.agent, r.model, e.at, e.turn, e.event, e.fields, r.id, e.seq,
           NULL, NULL, NULL, NULL, NULL, NULL
      FROM runs r JOIN events e ON e.run_id = r.id
     WHERE e.event <> 'lines' OR NOT json_valid(e.fields)
    UNION ALL
    SELECT r.run, r.session, r.agent, r.model, l.value ->> 1, l.value ->> 2, l.value ->> 3,
           l.value -> 4, r.id, l.value ->> 0, NULL, NULL, NULL, NULL, NULL, NULL
      FROM runs r JOIN events e ON e.run_id = r.id,
           json_each(iif(e.event = 'lines' AND json_valid(e.fields), e.fields, '[]')) l
    UNION ALL
    SELECT r.run, r.session, r.agent, r.model, q.at, q.turn, 'usage', NULL, r.id, q.seq,
           q.input, q.output, q.cache_read, q.cache_write, q.cost, q.model
      FROM runs r JOIN requests q ON q.run_id = r.id
    ORDER BY 9, 10";

/// A check that returns false once the caller has given up.
type LedgerContinueCheck<'o> = &'o (dyn Fn() -> bool + Sync);

/// "soft", in SQLite's field for telling applications apart.
const APPLICATION: i64 = 0x736f_6674;

/// Returns true if a database is a ledger.
pub(crate) fn is_ledger(connection: &Connection) -> rusqlite::Result<bool> {
    let found: i64 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    Ok(found == APPLICATION)
}

/// Reads a ledger.
pub(crate) fn read_ledger(
    connection: &Connection,
    out: &mut StepOutput<'_>,
    on: LedgerContinueCheck<'_>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(EVENTS)?;
    let mut rows = statement.query([])?;
    let mut open: Option<(String, RecordedRun)> = None;
    let mut callers = Callers::new();
    while let Some(row) = rows.next()? {
        if !on() {
            out.list_unreadable(None, GIVEN_UP);
            break;
        }
        let name: String = row.get(0)?;
        if open.as_ref().is_none_or(|(known, _)| *known != name) {
            if let Some((_, mut run)) = open.take() {
                run.end_run(out);
            }
            open = Some((name.clone(), begin_run(row, &name, &callers, out)?));
        }
        let Some((_, run)) = &mut open else { continue };
        let event: String = row.get(6)?;
        let text = match row.get::<_, Option<String>>(7)? {
            Some(fields) => fields,
            None => format_usage(row)?,
        };
        let at = u64::try_from(row.get::<_, i64>(4)?).ok();
        let turn = u64::try_from(row.get::<_, i64>(5)?).unwrap_or(0);
        match Fields::from_json(&text) {
            Ok(fields) if event != "run_start" => {
                run.note_called_run(&mut callers, &name, &event, &fields);
                run.take_event(out, &name, &Event { event: &event, turn, at, line: None }, &fields);
            }
            Ok(_) => {}
            Err(reason) => out.list_unreadable(None, format!("an event of {name}: {reason}")),
        }
    }
    if let Some((_, mut run)) = open {
        run.end_run(out);
    }
    Ok(())
}

fn begin_run(
    row: &Row<'_>,
    name: &str,
    callers: &Callers,
    out: &mut StepOutput<'_>,
) -> rusqlite::Result<RecordedRun> {
    let mut run = RecordedRun { model: row.get(3)?, ..RecordedRun::from_callers(callers, name) };
    let (session, agent): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
    run.open_conversation(out, name, session.as_deref(), agent.as_deref(), None);
    Ok(run)
}

/// Formats a request's numbers like its event line.
fn format_usage(row: &Row<'_>) -> rusqlite::Result<String> {
    let count = |at: usize| row.get::<_, Option<i64>>(at).map(|count| count.unwrap_or(0).max(0));
    let (input, output, read, written) = (count(10)?, count(11)?, count(12)?, count(13)?);
    let cost: Option<i64> = row.get(14)?;
    let cost =
        cost.map_or_else(|| "null".to_owned(), |nano| format!("{}", nano.max(0) as f64 / 1e9));
    let mut text = format!(
        r#"{{"input":{input},"output":{output},"cache_read":{read},"cache_write":{written},"cost_usd":{cost}"#
    )
    .into_bytes();
    if let Some(model) = row.get::<_, Option<String>>(15)? {
        text.extend_from_slice(b",\"model\":");
        softland_session::wire::json::write_str(&mut text, &model);
    }
    text.push(b'}');
    Ok(String::from_utf8(text).unwrap_or_default())
}
