//! Reservations, as the script takes and returns them. Amounts are texts, since Lua's numbers are
//! doubles; it compares them exactly up to nine million dollars.

use std::sync::Arc;

use serde_json::json;
use softland_govern::money::accounts::{
    AccountsUnavailable, Balance, Claim, Grant, ReservationError, ReservationId, Shortfall,
    TokenShortfall, WindowState,
};
use softland_govern::money::window::{TimeSpan, WindowBounds};
use softland_govern::shared::ReserveQuery;
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use crate::answer::Answer;
use crate::operation::{encode_opening, to_number};
use crate::read::{read_elements, read_list, read_number, read_text, read_texts};

/// The largest limit that the script compares exactly. A larger one is lowered to it.
const MOST: u64 = 9_000_000_000_000_000;

/// A reservation that is asked for.
pub(crate) struct Asking {
    /// The operation that asks first.
    pub(crate) reserve: serde_json::Value,
    /// The operation that asks again.
    pub(crate) poll: serde_json::Value,
}

/// Returns the operations of a reservation. `at` is given only where the store's clock is not used.
pub(crate) fn encode_reservation(query: &ReserveQuery, at: Option<u64>) -> Asking {
    let ask = &query.ask;
    let [most, enough, least] = ask.levels().map(|amount| limit_number(amount.0));
    let scale = ask.token_scale();
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let opens = query.opens.as_deref().map(encode_opening);
    let at = at.map(|at| at.to_string());
    let wanted = json!({
        "id": query.id.0,
        "claims": merge_claims(&query.claims).iter().map(claim).collect::<Vec<_>>(),
        "ask": {
            "most": most, "enough": enough, "least": least,
            "most_tokens": limit_number(ask.amount_with_tokens(ask.levels()[0]).tokens),
            "scale": {
                "input": limit_number(scale.input), "input_cost": limit_number(scale.input_cost.0),
                "output": limit_number(scale.output), "output_pico": limit_number(scale.output_pico),
            },
        },
        "for_most": millis(query.patience.for_most).min(MOST),
        "in_all": millis(query.patience.in_all).min(MOST),
        "lease": to_number(query.lease),
    });
    Asking {
        reserve: json!({
            "op": "reserve", "wanted": wanted, "opens": opens, "at": at,
            "balances": query.claims.iter().map(claim).collect::<Vec<_>>(),
            "spent_before": to_number(query.spent_before.0),
        }),
        poll: json!({"op": "poll", "id": query.id.0, "opens": opens, "at": at}),
    }
}

/// Merges the claims on each account, under the lowest of its limits: two claims on it would count
/// twice.
fn merge_claims(claims: &[Claim]) -> Vec<Claim> {
    let mut merged: Vec<Claim> = Vec::with_capacity(claims.len());
    for claim in claims {
        match merged.iter_mut().find(|known| known.account == claim.account) {
            Some(known) => {
                known.limit = [known.limit, claim.limit].into_iter().flatten().min();
                let tokens = [known.tokens_limit, claim.tokens_limit];
                known.tokens_limit = tokens.into_iter().flatten().min();
            }
            None => merged.push(claim.clone()),
        }
    }
    merged
}

fn limit_number(number: u64) -> serde_json::Value {
    number.min(MOST).to_string().into()
}

fn claim(claim: &Claim) -> serde_json::Value {
    let Claim { account, limit, tokens_limit, window } = claim;
    let window = window.as_ref().map(|window| {
        let holds = window.holds.as_ref().map(|holds| {
            let Amount { money, tokens } = holds.amount;
            json!({"run": holds.run, "money": limit_number(money.0), "tokens": limit_number(tokens)})
        });
        match &window.bounds {
            WindowBounds::FromFirst(millis) => json!({"from_first": millis, "holds": holds}),
            WindowBounds::Calendar(spans) => {
                let spans: Vec<_> = spans.iter().map(|span| [span.start, span.end]).collect();
                json!({"calendar": spans, "holds": holds})
            }
        }
    });
    json!({
        "account": account, "limit": limit.map(|limit| limit_number(limit.0)),
        "tokens_limit": tokens_limit.map(limit_number), "window": window,
    })
}

/// Ends a lease.
pub(crate) fn encode_settlement(id: &ReservationId, actual: Amount) -> serde_json::Value {
    amount_note("settle", id, actual)
}

/// Reduces a reservation.
pub(crate) fn encode_lowering(id: &ReservationId, to: Amount) -> serde_json::Value {
    amount_note("lower", id, to)
}

fn amount_note(op: &str, id: &ReservationId, amount: Amount) -> serde_json::Value {
    json!({"op": op, "id": id.0, "money": to_number(amount.money.0), "tokens": to_number(amount.tokens)})
}

/// Gives up a reservation that may have been made, or may be waited for.
pub(crate) fn encode_withdrawal(id: &ReservationId) -> serde_json::Value {
    json!({"op": "leave", "id": id.0})
}

/// Extends the leases of reservations.
pub(crate) fn encode_renewal(held: &[ReservationId], at: Option<u64>) -> serde_json::Value {
    let held: Vec<&str> = held.iter().map(|id| &*id.0).collect();
    json!({"op": "renew", "held": held, "at": at.map(|at| at.to_string())})
}

/// Returns the windows of claims.
pub(crate) fn encode_window_query(claims: &[Claim], at: Option<u64>) -> serde_json::Value {
    let claims: Vec<_> = claims.iter().map(claim).collect();
    json!({"op": "windows", "claims": claims, "at": at.map(|at| at.to_string())})
}

/// Returns the balance of an account.
pub(crate) fn balance(value: Answer) -> Option<Balance> {
    let [spent, reserved, tokens_spent, tokens_reserved] = read_elements(value)?;
    Some(Balance {
        spent: NanoUsd(read_number(&spent)),
        reserved: NanoUsd(read_number(&reserved)),
        tokens_spent: read_number(&tokens_spent),
        tokens_reserved: read_number(&tokens_reserved),
    })
}

/// Returns the balances of accounts.
pub(crate) fn read_balances(value: Answer) -> Vec<Balance> {
    read_list(value).into_iter().map(|one| balance(one).unwrap_or_default()).collect()
}

/// Returns the decision on a reservation; `None` if it waits.
pub(crate) fn read_decision(
    id: &ReservationId,
    value: Answer,
) -> Option<Result<Grant, ReservationError>> {
    let mut values = read_list(value).into_iter();
    let kind = values.next()?;
    match read_text(&kind)? {
        "wait" => None,
        "granted" => {
            let accounts = read_texts(values.next()?);
            let (money, tokens) = (read_number(&values.next()?), read_number(&values.next()?));
            let amount = Amount { money: NanoUsd(money), tokens };
            Some(Ok(Grant { id: id.clone(), accounts, amount }))
        }
        "spent" => Some(Err(ReservationError::Spent(shortfall(values.next()?)?))),
        "busy" => Some(Err(ReservationError::Busy(shortfall(values.next()?)?))),
        _ => {
            let because = values.next().as_ref().and_then(read_text).unwrap_or_default().to_owned();
            Some(Err(ReservationError::Away(AccountsUnavailable { because })))
        }
    }
}

fn shortfall(value: Answer) -> Option<Shortfall> {
    let [account, limit, spent, reserved, least, tokens, window] = read_elements(value)?;
    let money = |value: &Answer| NanoUsd(read_number(value));
    let tokens =
        read_elements(tokens).map(|[limit, spent, reserved, least]: [Answer; 4]| TokenShortfall {
            limit: read_number(&limit),
            spent: read_number(&spent),
            reserved: read_number(&reserved),
            least: read_number(&least),
        });
    Some(Shortfall {
        account: Arc::from(read_text(&account)?),
        limit: money(&limit),
        spent: money(&spent),
        reserved: money(&reserved),
        least: money(&least),
        tokens,
        window: read_elements(window).map(span),
    })
}

fn span([start, end]: [Answer; 2]) -> TimeSpan {
    TimeSpan { start: read_number(&start), end: read_number(&end) }
}

/// Returns a window as it is now; none for a claim without one.
pub(crate) fn read_window_state(value: Answer) -> Option<WindowState> {
    let [start, end, is_unused, of, money, tokens] = read_elements(value)?;
    Some(WindowState {
        span: span([start, end]),
        is_unused: read_number(&is_unused) == 1,
        balance: balance(of).unwrap_or_default(),
        kept: Amount { money: NanoUsd(read_number(&money)), tokens: read_number(&tokens) },
    })
}
