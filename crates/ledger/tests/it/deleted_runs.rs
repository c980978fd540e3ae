//! Runs that are deleted from a ledger while they are open, and go on.

use softland_ledger::{DeleteTarget, Payer, Query, Record, Request, RunEnd, RunOwner, delete_runs};

use crate::keep::whole;
use crate::support::*;

#[test]
fn a_deleted_run_that_goes_on_is_there_again_with_whose_it_is() {
    let place = Place::new();
    let ledger = place.open();
    let payer = Payer { key: Some("ana".into()), account: Some("acme/a".into()) };
    let (session, model) = (Some("s1".into()), Some("m1".into()));
    let Record::Request(asked) = request(Some("r"), 3) else { unreachable!() };
    let asked = Request { payer: payer.clone(), model: model.clone(), ..asked };
    let Record::RunEnd(ended) = end("r") else { unreachable!() };
    let owner = RunOwner { session, model, payer };
    let ended = RunEnd { owner, ..ended };
    for later in [
        vec![event("r", 3, "turn_start", "{}"), Record::Sent(asked.clone())],
        vec![Record::Request(asked)],
        vec![Record::RunEnd(ended)],
    ] {
        whole("r").into_iter().take(3).for_each(|record| ledger.record(record));
        ledger.drain(LONG).unwrap();
        assert_eq!(delete_runs(place.db(), DeleteTarget::Run("r")).unwrap(), 1);
        later.into_iter().for_each(|record| ledger.record(record));
        ledger.drain(LONG).unwrap();
        let query = Query {
            session: Some("s1".to_owned()),
            key: Some("ana".to_owned()),
            account: Some("acme".to_owned()),
            model: Some("m1".to_owned()),
            ..Query::default()
        };
        let runs = place.reader().list_runs(&query).unwrap();
        assert_eq!(runs.iter().map(|run| &*run.run).collect::<Vec<_>>(), ["r"]);
        assert!(place.steps("r").len() <= 1, "what was deleted stays away");
        let of_key = DeleteTarget::Of { session: None, key: Some("ana") };
        assert_eq!(delete_runs(place.db(), of_key).unwrap(), 1, "and it is found by its key");
    }
    ledger.close(LONG).unwrap();
}
