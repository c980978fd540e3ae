//! The records of governing, as the ledger keeps them.

use softland_govern::records::{Record, RequestRow};
use softland_ledger::{self as ledger, Payer};

/// Converts a record.
#[must_use]
pub fn ledger_record(record: Record<'_>) -> ledger::Record {
    match record {
        Record::RunStart(start) => ledger::Record::RunStart(ledger::RunStart {
            at: start.at,
            run: start.run,
            session: start.session,
            name: start.name,
            agent: start.agent,
            continues: start.continues,
            model: start.model,
            policy: start.policy,
            client: start.client,
            payer: Payer { key: start.key, account: start.account },
            observed: start.observed,
        }),
        Record::Sent(row) => ledger::Record::Sent(ledger_request(row)),
        Record::Request(row) => ledger::Record::Request(ledger_request(row)),
        Record::Event(event) => ledger::Record::Event(ledger::Event {
            at: event.at,
            run: event.run,
            turn: event.turn,
            event: event.event,
            fields: ledger::Fields::from_value(&event.fields),
        }),
        Record::RunEnd(end) => ledger::Record::RunEnd(ledger::RunEnd {
            at: end.at,
            run: end.run,
            owner: ledger::RunOwner {
                session: Some(end.owner.session),
                model: Some(end.owner.model),
                payer: Payer { key: end.owner.key, account: end.owner.account },
            },
            ended: end.ended,
            local: end.local,
            answer: end.answer,
            turns: end.turns,
            tool_calls: Some(end.tool_calls),
            input: end.input,
            output: end.output,
            cache_read: end.cache_read,
            cache_write: end.cache_write,
            cost: end.cost,
        }),
    }
}

fn ledger_request(row: RequestRow) -> ledger::Request {
    ledger::Request {
        at: row.at,
        id: row.id,
        run: row.run,
        session: row.session,
        payer: Payer { key: row.key, account: row.account },
        turn: row.turn,
        upstream: row.upstream,
        path: row.path,
        model: row.model,
        rung: row.rung,
        status: row.status,
        input: row.input,
        output: row.output,
        cache_read: row.cache_read,
        cache_write: row.cache_write,
        cost: row.cost,
        millis: row.millis,
        remark: row.remark,
        content: row.content,
    }
}
