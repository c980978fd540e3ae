//! The registration of a request's run with the shared state: its run opens with the request's first
//! reservation.

use std::fmt;
use std::sync::Arc;

use softland_session::core::Digest;
use softland_session::core::policy::Policy;

use super::open::RequestSetup;
use super::scope::Session;
use crate::records::RunOwner;
use crate::runs::{OpenedRun, RunInfo, RunOpening};
use crate::services::Services;
use crate::shared::{SharedState, StateNote};
use crate::watcher::UsageLabels;

/// The registration of a request with its run. If the request is given up before it begins, the
/// registration is withdrawn.
pub(super) struct RunRegistration {
    state: Arc<dyn SharedState>,
    run: Arc<str>,
    /// The opening that goes with the first reservation.
    wanted: Option<Box<RunOpening>>,
    /// The state's answer to it.
    opened: Option<OpenedRun>,
    /// True if the run's name was given to it for this request.
    is_fresh: bool,
    /// True once the request has begun: its end then ends the registration.
    has_begun: bool,
}

impl RunRegistration {
    /// Takes the opening, for the first reservation.
    pub(super) fn take_opening(&mut self) -> Option<Box<RunOpening>> {
        self.wanted.take()
    }

    /// Notes that the run was opened, and records the end of the run that it continues.
    pub(super) fn note_opened(&mut self, services: &Services, mut opened: OpenedRun) {
        // The old run was idle for so long that its end may not have been recorded yet.
        if let Some(old) = opened.superseded.take() {
            services.record_abandoned(&old);
        }
        self.opened = Some(opened);
    }

    /// Begins the request. Returns true if its run is new, and the newest turn of the run that had
    /// begun.
    pub(super) fn begin_request(&mut self) -> (bool, u64) {
        self.has_begun = true;
        // Where the state did not answer, only a name of its own tells that a run is new.
        self.opened.as_ref().map_or((self.is_fresh, 0), |opened| (opened.is_new, opened.begun))
    }

    /// Returns true if the state knows of the request.
    pub(super) fn is_known(&self) -> bool {
        self.opened.is_some()
    }
}

impl Drop for RunRegistration {
    fn drop(&mut self) {
        if self.opened.is_some() && !self.has_begun {
            self.state.take_note(StateNote::Withdrawn(Arc::clone(&self.run)));
        }
    }
}

impl fmt::Debug for RunRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRegistration").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RequestSetup {
    /// Returns the registration of the request with this run; `None` if it is only metered, and so
    /// belongs to no run.
    pub(super) fn register_run(
        &self,
        (key, run): (&Digest, &Arc<str>),
        policy: &Policy,
        continues: Option<&Arc<str>>,
    ) -> Option<RunRegistration> {
        if self.metered {
            return None;
        }
        let services = &self.asked.services;
        let is_fresh = continues.is_some() || self.place.run_state(key).is_none();
        let at = services.now();
        let info = self.run_info(policy, continues, at);
        let opening = RunOpening { run: Arc::clone(run), info, at, here: self.outline.here };
        Some(RunRegistration {
            state: Arc::clone(&services.state),
            run: Arc::clone(run),
            wanted: Some(Box::new(opening)),
            opened: None,
            is_fresh,
            has_begun: false,
        })
    }

    /// Returns the properties of the request's run, should the run begin with it.
    fn run_info(&self, policy: &Policy, continues: Option<&Arc<str>>, started: u64) -> RunInfo {
        RunInfo {
            started,
            session: self.session_name(),
            name: self.identity.run.clone(),
            agent: self.identity.agent.clone(),
            parent: self.parent_run(),
            continues: continues.cloned(),
            model: Arc::clone(&self.model),
            policy: self.chosen.name.clone(),
            client: self.client_name(),
            key: self.key_name(),
            account: self.account_name(),
            observed: policy.is_observing(),
            calls_limit: policy.tool_calls_limit,
        }
    }

    /// Returns whose the request's run is.
    pub(super) fn run_owner(&self) -> RunOwner {
        RunOwner {
            session: self.session_name(),
            model: Arc::clone(&self.model),
            key: self.key_name(),
            account: self.account_name(),
        }
    }

    /// Returns the client, as its `user-agent` names it.
    pub(super) fn client_name(&self) -> Option<String> {
        let agent = self.asked.parts.headers.get(http::header::USER_AGENT)?;
        Some(cut_text(agent.to_str().ok()?, 200))
    }

    /// Returns the name of the key that asks.
    pub(super) fn key_name(&self) -> Option<Arc<str>> {
        self.target.key.as_ref().map(|key| Arc::clone(&key.name))
    }

    /// Returns the account of the key that asks.
    pub(super) fn account_name(&self) -> Option<Arc<str>> {
        self.target.key.as_ref().and_then(|key| key.account.clone())
    }

    /// Returns the labels under which the request is counted.
    pub(super) fn usage_labels(&self) -> UsageLabels<'_> {
        let account = self.target.key.as_ref().and_then(|key| key.account.as_ref());
        UsageLabels { model: &self.model, policy: &self.chosen.name, account }
    }

    /// Returns the name of the session, which shares money.
    pub(super) fn session_name(&self) -> Arc<str> {
        match &self.place.session {
            Session::Named(name) => Arc::clone(name),
            Session::Alone => Arc::clone(&self.place.scope),
        }
    }
}

fn cut_text(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}
