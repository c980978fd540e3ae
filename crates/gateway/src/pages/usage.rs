//! `GET /api/usage`: what was used, in sums by day, account, key, model, agent or policy, as JSON or
//! CSV.

use http::Response;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value, json};
use softland_govern::{Body, Refusal};
use softland_ledger::{LedgerPlace, Reader, UsageGroup, UsageQuery, UsageRow};
use softland_session::core::NanoUsd;

use super::list::ledger_trouble;
use super::query::{PageQuery, bad_parameter};
use super::{json_response, page_refusal};
use crate::state::GatewayState;

/// The parameters: the groups, the first moment and the first one after, the account (with those
/// below it), and the form of the answer.
pub(super) const PARAMETERS: [&str; 5] = ["by", "from", "to", "account", "format"];

/// The number of rows in one answer.
const MOST: usize = 10_000;

/// Answers a request for sums.
///
/// # Errors
/// Returns a refusal for parameters that cannot be read, without a ledger, or if the ledger cannot
/// be read.
pub(super) async fn answer_usage(
    gate: &GatewayState,
    asked: &PageQuery,
) -> Result<Response<Body>, Refusal> {
    let query = read_query(asked)?;
    let is_csv = match asked.find_text("format").unwrap_or("json") {
        "json" => false,
        "csv" => true,
        _ => return Err(bad_parameter("format must be json or csv")),
    };
    let place = gate.live_config().settings.ledger.clone();
    let place = place.ok_or_else(|| page_refusal(StatusCode::NOT_FOUND, "there is no ledger"))?;
    let wanted = query.clone();
    let read = tokio::task::spawn_blocking(move || read_sums(&place, &wanted)).await;
    let away = |why: String| page_refusal(StatusCode::SERVICE_UNAVAILABLE, &ledger_trouble(&why));
    let mut rows = read.map_err(|error| error.to_string()).flatten().map_err(away)?;
    let more = rows.len() > MOST;
    rows.truncate(MOST);
    if is_csv {
        return Ok(csv_response(&query.by, &rows));
    }
    let by: Vec<&str> = query.by.iter().map(|group| group.name()).collect();
    let rows: Vec<Value> = rows.iter().map(|row| row_json(&query.by, row)).collect();
    Ok(json_response(&json!({"v": 1, "by": by, "rows": rows, "more": more})))
}

fn read_query(asked: &PageQuery) -> Result<UsageQuery, Refusal> {
    let mut by = Vec::new();
    for name in asked.find_text("by").unwrap_or("day").split(',') {
        match UsageGroup::from_name(name) {
            Some(group) if !by.contains(&group) => by.push(group),
            _ => {
                let known: Vec<&str> = UsageGroup::ALL.iter().map(|group| group.name()).collect();
                let what = format!("by must be some of {}, each once", known.join(", "));
                return Err(bad_parameter(&what));
            }
        }
    }
    let account = asked.find_text("account").filter(|account| !account.is_empty());
    Ok(UsageQuery {
        by,
        from: asked.parse_time("from")?,
        to: asked.parse_time("to")?,
        account: account.map(str::to_owned),
        limit: MOST + 1,
    })
}

fn read_sums(place: &LedgerPlace, query: &UsageQuery) -> Result<Vec<UsageRow>, String> {
    let reader = Reader::open(place).map_err(|error| error.to_string())?;
    reader.sum_usage(query).map_err(|error| error.to_string())
}

fn row_json(by: &[UsageGroup], row: &UsageRow) -> Value {
    let mut object = Map::new();
    for (group, name) in by.iter().zip(&row.names) {
        object.insert(group.name().to_owned(), json!(name));
    }
    object.insert("requests".to_owned(), json!(row.requests));
    object.insert("usage".to_owned(), json!(row.usage));
    object.insert("cost_usd".to_owned(), json!(known_cost(row)));
    object.insert("unpriced_requests".to_owned(), json!(row.unpriced));
    Value::Object(object)
}

/// Returns the cost of the requests whose cost is known; `None` where that is none of them.
fn known_cost(row: &UsageRow) -> Option<NanoUsd> {
    (row.unpriced < row.requests).then_some(row.cost)
}

fn csv_response(by: &[UsageGroup], rows: &[UsageRow]) -> Response<Body> {
    let sums = ["requests", "input", "output", "cache_read", "cache_write", "cost_usd"];
    let heads = by.iter().map(|group| group.name()).chain(sums).chain(["unpriced_requests"]);
    let mut text = heads.collect::<Vec<_>>().join(",") + "\r\n";
    for row in rows {
        for name in &row.names {
            text.push_str(&csv_field(name.as_deref().unwrap_or_default()));
            text.push(',');
        }
        let usage = &row.usage;
        let tokens = [usage.input, usage.output, usage.cache_read, usage.cache_write];
        let tokens = tokens.map(|count| count.to_string()).join(",");
        // The JSON form of money is an exact number of dollars.
        let cost = known_cost(row).and_then(|cost| serde_json::to_string(&cost).ok());
        let cost = cost.unwrap_or_default();
        text += &format!("{},{tokens},{cost},{}\r\n", row.requests, row.unpriced);
    }
    let mut response = Response::new(Body::from_bytes(text));
    let kind = HeaderValue::from_static("text/csv; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Returns a name as a field. Names come from clients: one that a spreadsheet would take for a
/// formula is put behind an apostrophe.
fn csv_field(name: &str) -> String {
    let is_formula = name.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let name = if is_formula { format!("'{name}") } else { name.to_owned() };
    if !name.contains(['"', ',', '\n', '\r']) {
        return name;
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_hold_any_name() {
        for (name, field) in [
            ("acme/ana", "acme/ana"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            ("a\nb", "\"a\nb\""),
            ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
            ("-1,2", "\"'-1,2\""),
        ] {
            assert_eq!(csv_field(name), field);
        }
    }
}
