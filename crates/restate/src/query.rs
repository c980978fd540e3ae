//! Questions to the engine's table of invocations, asked by workers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use softland_agent::core::{Outcome, Reason};

use crate::client::{EngineClient, EngineFailure};
use crate::service::OUTCOME;
use crate::status::{EngineState, RunDeletion, RunOutcome, RunRow};
use crate::{SERVICE, client};

/// The most runs of a list.
const MOST_ROWS: usize = 1000;

/// The engine's state of an invocation that is over.
const COMPLETED: &str = "completed";
/// The beginning of the failure of an invocation that the engine was told to end.
const CANCELLED: &str = "[409]";

/// The time in which the engine reaches a worker that is there. It gives up one that refuses
/// connections after two seconds.
const REACHED: Duration = Duration::from_secs(5);
/// The engine's code for an address at which it finds no worker.
const UNREACHED: &str = "META0003";
/// The name under which an address says instead of which other one it was made the newest.
const INSTEAD_OF: &str = "softland.instead-of";

/// The address that new runs go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// The engine's id of it.
    pub(crate) id: String,
    /// The address.
    pub(crate) url: String,
    /// The id of the address whose worker it stands in for.
    pub(crate) instead_of: Option<String>,
}

/// The engine's administration, as a worker knows it.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    client: EngineClient,
}

/// A row of the table of invocations.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Invocation {
    id: String,
    target_service_key: Option<String>,
    status: String,
    completion_result: Option<String>,
    completion_failure: Option<String>,
    last_failure: Option<String>,
    created_at: Option<String>,
    /// What the run itself has said of its outcome, as JSON.
    outcome: Option<String>,
}

impl Invocation {
    /// Returns true if the engine was told to end it.
    fn is_cancelled(&self) -> bool {
        self.completion_failure.as_ref().is_some_and(|why| why.starts_with(CANCELLED))
    }

    /// Returns the outcome of a run that has ended: what it has said itself, or what it is told as
    /// where the engine was told to end it.
    fn find_outcome(&self) -> Option<RunOutcome> {
        if self.status != COMPLETED {
            return None;
        }
        if self.is_cancelled() {
            return Some(RunOutcome { outcome: Outcome::Cancelled, reason: Reason::User });
        }
        serde_json::from_str(self.outcome.as_ref()?).ok()
    }

    fn into_state(self) -> EngineState {
        let failure = self.last_failure.clone();
        match self.status.as_str() {
            COMPLETED if self.is_cancelled() => EngineState::Cancelled,
            COMPLETED => EngineState::Ended { end: None, failure: self.completion_failure },
            "paused" => EngineState::Paused { invocation: self.id, failure },
            _ => EngineState::Active { failure },
        }
    }
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<Invocation>,
}

impl Admin {
    /// Creates the administration at an address.
    pub(crate) fn new(client: EngineClient) -> Self {
        Self { client }
    }

    async fn find_rows(&self, only: &str, most: usize) -> Result<Vec<Invocation>, EngineFailure> {
        let query = format!(
            "SELECT id, target_service_key, status, completion_result, completion_failure, \
             last_failure, CAST(created_at AS VARCHAR) AS created_at, outcome FROM sys_invocation \
             LEFT JOIN (SELECT service_key, completion_success_value_utf8 AS outcome FROM \
             sys_promise WHERE service_name = '{SERVICE}' AND key = '{OUTCOME}') AS told \
             ON told.service_key = target_service_key \
             WHERE target_service_name = '{SERVICE}' AND target_handler_name = 'run' {only} \
             ORDER BY created_at DESC LIMIT {most}"
        );
        let body = serde_json::json!({ "query": query }).to_string();
        let answer = self.client.post_json("query", body).await?;
        let rows: Rows = serde_json::from_slice(&answer).map_err(client::unreadable)?;
        Ok(rows.rows)
    }

    /// Returns the engine's state of a run; the end of a run is filled in by others.
    pub(crate) async fn find_state(&self, run: &str) -> Result<EngineState, EngineFailure> {
        let row = self.find_row(run).await?;
        Ok(row.map_or(EngineState::Unknown, Invocation::into_state))
    }

    async fn find_row(&self, run: &str) -> Result<Option<Invocation>, EngineFailure> {
        client::check_run_id(run)?;
        let only = format!("AND target_service_key = '{run}'");
        Ok(self.find_rows(&only, 1).await?.into_iter().next())
    }

    /// Has the engine end a run, wherever it is, unless it has ended.
    pub(crate) async fn kill_run(&self, run: &str) -> Result<(), EngineFailure> {
        match self.find_row(run).await? {
            Some(row) if row.status != COMPLETED => {
                self.client.patch(&format!("invocations/{}/kill", row.id)).await.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Deletes what the engine keeps of a run that has ended.
    pub(crate) async fn delete_run(&self, run: &str) -> Result<RunDeletion, EngineFailure> {
        match self.find_row(run).await? {
            None => Ok(RunDeletion::Unknown),
            Some(row) if row.status != COMPLETED => Ok(RunDeletion::Open),
            Some(row) => {
                self.client.patch(&format!("invocations/{}/purge", row.id)).await?;
                Ok(RunDeletion::Deleted)
            }
        }
    }

    /// Returns the newest runs.
    pub(crate) async fn list_runs(&self) -> Result<Vec<RunRow>, EngineFailure> {
        let rows = self.find_rows("", MOST_ROWS).await?;
        let row = |row: Invocation| {
            let outcome = row.find_outcome();
            let state = match row.completion_result.as_deref() {
                Some("failure") if outcome.is_none() => "failed".to_owned(),
                _ => row.status,
            };
            let failure = row.completion_failure.or(row.last_failure);
            let began = row.created_at.unwrap_or_default();
            Some(RunRow { run: row.target_service_key?, state, outcome, began, failure })
        };
        Ok(rows.into_iter().filter_map(row).collect())
    }

    /// Returns the address that new runs go to; `None` if the engine knows no worker.
    pub(crate) async fn find_newest(&self) -> Result<Option<Newest>, EngineFailure> {
        #[derive(Deserialize)]
        struct Service {
            deployment_id: String,
        }
        #[derive(Deserialize)]
        struct Deployment {
            uri: String,
            #[serde(default)]
            metadata: Option<BTreeMap<String, String>>,
        }
        let service = match self.client.get(&format!("services/{SERVICE}")).await {
            Ok(service) => service,
            Err(failure) if failure.status() == Some(404) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let Service { deployment_id: id } =
            serde_json::from_slice(&service).map_err(client::unreadable)?;
        let deployment = self.client.get(&format!("deployments/{id}")).await?;
        let Deployment { uri: url, metadata } =
            serde_json::from_slice(&deployment).map_err(client::unreadable)?;
        let instead_of = metadata.and_then(|mut metadata| metadata.remove(INSTEAD_OF));
        Ok(Some(Newest { id, url, instead_of }))
    }

    /// Registers an address, which becomes the newest if it is new or `force` is true. Returns the
    /// engine's id of it.
    pub(crate) async fn register_deployment(
        &self,
        url: &str,
        instead_of: Option<&str>,
        force: bool,
    ) -> Result<String, EngineFailure> {
        #[derive(Deserialize)]
        struct Deployment {
            id: String,
        }
        let mut body = serde_json::json!({ "uri": url, "force": force });
        if let Some(other) = instead_of {
            body["metadata"] = serde_json::json!({ INSTEAD_OF: other });
        }
        let answer = self.client.post_json("deployments", body.to_string()).await?;
        let Deployment { id } = serde_json::from_slice(&answer).map_err(client::unreadable)?;
        Ok(id)
    }

    /// Returns true if the engine reaches a worker of the address's build at an address. The engine
    /// is asked, since it may reach others than this worker does.
    pub(crate) async fn reaches_worker(&self, url: &str) -> Result<bool, EngineFailure> {
        let body = serde_json::json!({ "uri": url, "force": true, "dry_run": true }).to_string();
        let asking = self.client.post_json("deployments", body);
        match tokio::time::timeout(REACHED, asking).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(failure)) if failure.to_string().contains(UNREACHED) => Ok(false),
            Ok(Err(failure)) => Err(failure),
            // Its machine is gone: nothing even refuses the connection.
            Err(_) => Ok(false),
        }
    }

    /// Returns the address at which the engine takes requests.
    pub(crate) async fn find_ingress(&self) -> Result<String, EngineFailure> {
        #[derive(Deserialize)]
        struct Version {
            ingress_endpoint: String,
        }
        let other = |why: String| {
            let place = self.client.shown_address();
            let message = format!(
                "{place} is not the address of Restate's administration (port 9070 by default): {why}"
            );
            EngineFailure::new(message, false)
        };
        match self.client.get("version").await {
            Ok(answer) => serde_json::from_slice(&answer)
                .map(|Version { ingress_endpoint }| ingress_endpoint)
                .map_err(|_| other("it tells no version of Restate".to_owned())),
            Err(failure) => match failure.status() {
                Some(status) if status < 500 => Err(other(format!("it answers {status}"))),
                _ => Err(failure),
            },
        }
    }
}

#[cfg(test)]
mod tests;
