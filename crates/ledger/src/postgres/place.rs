//! The address of a ledger, and the connections that all who read and write it share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::client::Client;
use crate::options::OpenProblem;

/// The address of a ledger in a PostgreSQL, which may contain a password.
#[derive(Clone)]
pub struct PostgresPlace(Arc<PlaceInner>);

struct PlaceInner {
    url: String,
    /// The address without user and password.
    name: String,
    client: Mutex<Option<Arc<Client>>>,
}

impl PostgresPlace {
    /// Reads an address. The error repeats nothing of it.
    pub(crate) fn new(url: &str) -> Result<Self, String> {
        let name = softland_postgres::describe_address(url).map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(PlaceInner { url: url.to_owned(), name, client: Mutex::new(None) })))
    }

    /// Returns the connections, which are prepared on the first call.
    pub(super) fn client(&self) -> Result<Arc<Client>, OpenProblem> {
        let mut client = self.0.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let made = Client::start(&self.0.url).map_err(OpenProblem::Refused)?;
        Ok(Arc::clone(client.insert(Arc::new(made))))
    }
}

impl PartialEq for PostgresPlace {
    fn eq(&self, other: &Self) -> bool {
        self.0.url == other.0.url
    }
}

impl Eq for PostgresPlace {}

impl fmt::Display for PostgresPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for PostgresPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}
