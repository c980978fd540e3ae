//! Keeps a worker registered. The engine sends new runs, and all questions about runs, to the address
//! that was registered last.

use std::convert::Infallible;
use std::time::Duration;

use crate::client::EngineFailure;
use crate::query::{Admin, Newest};

/// The time between two looks at the newest address.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The looks in a row that must find nobody before a worker takes the place of another one. A worker
/// that is started again keeps its place.
const LOOKS: u32 = 2;

/// The registration of a worker.
pub(crate) struct Registration {
    admin: Admin,
    url: String,
    /// The engine's id of the address, which it keeps when the address is registered anew.
    id: String,
    /// True if the last look found this worker to be the newest.
    is_newest: bool,
    /// The looks in a row that found nobody at the newest address.
    vacant: u32,
}

impl Registration {
    /// Registers a worker's address, so that new runs go there. A known address stays as it is for
    /// the engine: it is registered anew where new runs would go to another address of the same
    /// build, or to one that the engine does not reach. Runs that have begun stay where they are.
    pub(crate) async fn begin(admin: Admin, url: String) -> Result<Self, EngineFailure> {
        let id = admin.register_deployment(&url, None, false).await?;
        let mut this = Self { admin, url, id, is_newest: true, vacant: 0 };
        let newest = this.admin.find_newest().await?;
        if let Some(newest) = newest.filter(|newest| newest.id != this.id) {
            this.is_newest = false;
            if build_path(&newest.url) == build_path(&this.url)
                || newest.instead_of.as_ref() == Some(&this.id)
                || !this.admin.reaches_worker(&newest.url).await?
            {
                this.take_place(None).await?;
            }
        }
        Ok(this)
    }

    /// Looks again and again, and registers the worker anew where that is needed. Says so each time.
    pub(crate) async fn keep(
        mut self,
        every: Duration,
        mut registered: impl FnMut(),
    ) -> Infallible {
        loop {
            tokio::time::sleep(every).await;
            match self.look_once().await {
                Ok(true) => registered(),
                Ok(false) => {}
                // The engine is away, or busy. The next look may tell more.
                Err(failure) => tracing::debug!(%failure, "the registration was not checked"),
            }
        }
    }

    /// Registers the worker anew if the engine has lost its data, if the newest address is not
    /// reached, or if another worker has stood in for this one meanwhile. Returns true if it did.
    pub(crate) async fn look_once(&mut self) -> Result<bool, EngineFailure> {
        let newest = self.admin.find_newest().await?;
        match &newest {
            Some(newest) if newest.id == self.id => {
                (self.is_newest, self.vacant) = (true, 0);
                return Ok(false);
            }
            Some(newest) if newest.instead_of.as_ref() == Some(&self.id) => {
                return self.take_place(None).await.map(|()| true);
            }
            Some(newest) if self.admin.reaches_worker(&newest.url).await? => {
                (self.is_newest, self.vacant) = (false, 0);
                return Ok(false);
            }
            newest => {
                self.is_newest &= newest.is_none();
                self.vacant += 1;
            }
        }
        // Where the engine has lost its data, the worker that was the newest is to come first.
        if self.vacant < LOOKS && !(newest.is_none() && self.is_newest) {
            return Ok(false);
        }
        self.take_place(newest).await.map(|()| true)
    }

    /// Makes this worker the newest: instead of the worker at the newest address, which gets its
    /// place back when it is there again, or for good.
    async fn take_place(&mut self, newest: Option<Newest>) -> Result<(), EngineFailure> {
        let instead_of = newest.map(|newest| newest.instead_of.unwrap_or(newest.id));
        self.id = self.admin.register_deployment(&self.url, instead_of.as_deref(), true).await?;
        (self.is_newest, self.vacant) = (true, 0);
        Ok(())
    }
}

/// Returns the part of a worker's address that names its build.
fn build_path(url: &str) -> &str {
    url.find("/v/").and_then(|at| url.get(at..)).map_or(url, |path| path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests;
