//! Questions to the engine's table of invocations, asked by workers.

use std::time::Duration;

use serde::Deserialize;

use crate::client::{EngineClient, EngineFailure};
use crate::status::{EngineState, RunDeletion, RunRow};
use crate::{SERVICE, client};

/// The most runs of a list.
const MOST_ROWS: usize = 1000;

/// The engine's state of an invocation that is over.
const COMPLETED: &str = "completed";
/// The beginning of the failure of an invocation that the engine was told to end.
const CANCELLED: &str = "[409]";

/// The time for a worker's address to take a connection.
const REACHED: Duration = Duration::from_secs(2);

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
}

impl Invocation {
    /// Returns true if the engine was told to end it.
    fn is_cancelled(&self) -> bool {
        self.completion_failure.as_ref().is_some_and(|why| why.starts_with(CANCELLED))
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
             last_failure, CAST(created_at AS VARCHAR) AS created_at FROM sys_invocation \
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
            let state = match (row.status.as_str(), row.completion_result.as_deref()) {
                (COMPLETED, _) if row.is_cancelled() => "cancelled".to_owned(),
                (COMPLETED, Some("failure")) => "failed".to_owned(),
                _ => row.status,
            };
            let failure = row.completion_failure.or(row.last_failure);
            let began = row.created_at.unwrap_or_default();
            Some(RunRow { run: row.target_service_key?, state, began, failure })
        };
        Ok(rows.into_iter().filter_map(row).collect())
    }

    /// Registers a worker's address, so that new runs go there. A known address stays as it is for
    /// the engine: it is registered anew where new runs would go to another address of the same
    /// build, or to one at which nothing listens. Runs that have begun stay where they are.
    pub(crate) async fn register_worker(&self, url: &str) -> Result<(), EngineFailure> {
        let deployment = self.register_deployment(url, false).await?;
        #[derive(Deserialize)]
        struct Service {
            deployment_id: String,
        }
        #[derive(Deserialize)]
        struct Newest {
            uri: String,
        }
        let service = self.client.get(&format!("services/{SERVICE}")).await?;
        let newest: Service = serde_json::from_slice(&service).map_err(client::unreadable)?;
        if newest.deployment_id == deployment {
            return Ok(());
        }
        let newest = self.client.get(&format!("deployments/{}", newest.deployment_id)).await?;
        let Newest { uri } = serde_json::from_slice(&newest).map_err(client::unreadable)?;
        if build_path(&uri) == build_path(url) || !is_listened_on(&uri).await {
            self.register_deployment(url, true).await?;
        }
        Ok(())
    }

    /// Registers an address. Returns the engine's id of it.
    async fn register_deployment(&self, url: &str, force: bool) -> Result<String, EngineFailure> {
        #[derive(Deserialize)]
        struct Deployment {
            id: String,
        }
        let body = serde_json::json!({ "uri": url, "force": force }).to_string();
        let answer = self.client.post_json("deployments", body).await?;
        let Deployment { id } = serde_json::from_slice(&answer).map_err(client::unreadable)?;
        Ok(id)
    }

    /// Returns the address at which the engine takes requests.
    pub(crate) async fn find_ingress(&self) -> Result<String, EngineFailure> {
        #[derive(Deserialize)]
        struct Version {
            ingress_endpoint: String,
        }
        let answer = self.client.get("version").await?;
        let Version { ingress_endpoint } =
            serde_json::from_slice(&answer).map_err(client::unreadable)?;
        Ok(ingress_endpoint)
    }
}

/// Returns the part of a worker's address that names its build.
fn build_path(url: &str) -> &str {
    url.find("/v/").and_then(|at| url.get(at..)).map_or(url, |path| path.trim_end_matches('/'))
}

/// Returns true if something listens at the address of a worker.
async fn is_listened_on(url: &str) -> bool {
    let place = reqwest::Url::parse(url).ok();
    let place =
        place.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    let Some((host, port)) = place else { return false };
    let connecting = tokio::net::TcpStream::connect((host.trim_matches(['[', ']']), port));
    matches!(tokio::time::timeout(REACHED, connecting).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests;
