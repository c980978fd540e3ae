//! The start of the gateway of `serve`, `wrap` and `pages`: with its ledger if that can be written,
//! and with messages that say what to do if it cannot listen.

use std::io::ErrorKind;

use softland_gateway::{Gateway, LedgerPlace, Settings, StartError};

use crate::failure::Failure;
use crate::ledger_file::LedgerChoice;
use crate::render::Writer;

/// A gateway that listens, and the ledger that it writes.
pub(crate) struct StartedGateway {
    pub(crate) gateway: Gateway,
    /// Its place; `None` if no ledger is kept.
    pub(crate) ledger: Option<LedgerPlace>,
}

/// Binds a gateway. A default ledger that cannot be used is left out with a warning.
///
/// # Errors
/// Returns a failure if an address cannot be bound, or if a file that the config names cannot be
/// written.
pub(crate) async fn start_gateway(
    mut settings: Settings,
    ledger: LedgerChoice,
    writer: &Writer,
) -> Result<StartedGateway, Failure> {
    let ledger = ledger.with_folder();
    if let LedgerChoice::NoPlace(why) = &ledger {
        warn_unrecorded(why, writer);
    }
    settings.ledger = ledger.place();
    let may_go_on = matches!(ledger, LedgerChoice::Default(_));
    let gateway = match Gateway::bind(settings.clone()).await {
        Err(StartError::Ledger(error))
            if may_go_on && Some(&error.place) == settings.ledger.as_ref() =>
        {
            warn_unrecorded(&error.to_string(), writer);
            settings.ledger = None;
            Gateway::bind(settings.clone()).await
        }
        bound => bound,
    };
    let gateway = gateway.map_err(|error| start_failure(&error))?;
    Ok(StartedGateway { gateway, ledger: settings.ledger })
}

fn warn_unrecorded(why: &str, writer: &Writer) {
    writer.write_warning(&format!(
        "no ledger is kept: {why}; runs of this process will not be in `softland runs`"
    ));
}

/// Returns the line that names the ledger.
pub(crate) fn ledger_line(used: Option<&LedgerPlace>, choice: &LedgerChoice) -> String {
    match (used, choice) {
        (Some(place), _) => format!("ledger: {place}"),
        (None, LedgerChoice::Off(by)) => format!("ledger: off ({by})"),
        (None, _) => "ledger: none".to_owned(),
    }
}

/// Says why a gateway does not start, and what can be done.
pub(crate) fn start_failure(error: &StartError) -> Failure {
    Failure::usage(match error {
        StartError::Listen { at, error } if error.kind() == ErrorKind::AddrInUse => format!(
            "cannot listen on {at}: another program uses this port (perhaps another softland); \
             --listen {}:0 takes a free port",
            format_host(at.ip())
        ),
        StartError::Listen { at, error } if error.kind() == ErrorKind::AddrNotAvailable => format!(
            "cannot listen on {at}: this machine has no such address; --listen 127.0.0.1:0 takes \
             a free port of the loopback address"
        ),
        _ => error.to_string(),
    })
}

fn format_host(ip: std::net::IpAddr) -> String {
    if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }
}
