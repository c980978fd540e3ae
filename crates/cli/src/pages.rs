//! `softland pages`: serves the pages over a ledger that other processes write. Nothing is written,
//! and no provider is reached.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use softland_agent::core::policy::Policy;
use softland_gateway::{Admin, Gateway, Limits, LogSettings, Prices, Settings};
use tokio_util::sync::CancellationToken;

use crate::args::PagesArgs;
use crate::audit::PageReports;
use crate::failure::Failure;
use crate::gateway_start::start_failure;
use crate::platform::Signals;
use crate::render::Writer;
use crate::runs;
use crate::threads;

/// Serves the pages until a signal stops them.
pub(crate) fn run_command(args: &PagesArgs) -> Result<ExitCode, Failure> {
    let place = runs::choose_shown(&args.of)?;
    let full = runs::inspect_ledger(&place)?;
    let settings = Settings {
        listen: args.listen,
        allowed_hosts: Vec::new(),
        admin: Admin::default(),
        keys: Vec::new(),
        needs_key: false,
        upstreams: BTreeMap::new(),
        prices: Prices::default(),
        policies: BTreeMap::new(),
        routes: Vec::new(),
        shapes: BTreeMap::new(),
        forced_policy: None,
        header_policies: Vec::new(),
        budgets: Vec::new(),
        allow_unmetered: false,
        tls: None,
        no_comments: false,
        ledger: Some(place.clone()),
        ledger_read_only: true,
        recap: false,
        ledger_full: full,
        retention: None,
        audit: Some(Arc::new(PageReports::new(Policy::default(), Vec::new()))),
        shared: None,
        key_store: None,
        log: LogSettings::default(),
        limits: Limits::default(),
    };
    let writer = Writer::for_process();
    let system = |error| Failure::usage(format!("the pages cannot be served: {error}"));
    let runtime = threads::build_serving_runtime().map_err(system)?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(system)?;
        let gateway = Gateway::bind(settings).await.map_err(|error| start_failure(&error))?;
        let (address, pages) = (gateway.local_addr(), gateway.pages_url());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(gateway.run(stop.clone().cancelled_owned()));
        writer.write_note(&format!("listening on http://{address}"));
        writer.write_note(&format!("pages: {pages}"));
        writer.write_note(&format!("ledger: {place} (read only)"));
        signals.next().await;
        stop.cancel();
        // The only open connections are those of pages, which end at once.
        let _ = serving.await;
        Ok(ExitCode::SUCCESS)
    })
}
