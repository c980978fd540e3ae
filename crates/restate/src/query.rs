//! Questions to the engine's table of invocations, asked by workers.

use serde::Deserialize;

use crate::client::{EngineClient, EngineFailure};
use crate::status::{EngineState, RunRow};
use crate::{SERVICE, client};

/// The most runs of a list.
const MOST_ROWS: usize = 1000;

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
        client::check_run_id(run)?;
        let only = format!("AND target_service_key = '{run}'");
        let Some(row) = self.find_rows(&only, 1).await?.into_iter().next() else {
            return Ok(EngineState::Unknown);
        };
        let failure = row.last_failure;
        Ok(match row.status.as_str() {
            "completed" => EngineState::Ended { end: None, failure: row.completion_failure },
            "paused" => EngineState::Paused { invocation: row.id, failure },
            _ => EngineState::Active { failure },
        })
    }

    /// Returns the newest runs.
    pub(crate) async fn list_runs(&self) -> Result<Vec<RunRow>, EngineFailure> {
        let rows = self.find_rows("", MOST_ROWS).await?;
        let row = |row: Invocation| {
            let state = match (row.status.as_str(), row.completion_result.as_deref()) {
                ("completed", Some("failure")) => "failed".to_owned(),
                _ => row.status,
            };
            let failure = row.completion_failure.or(row.last_failure);
            let began = row.created_at.unwrap_or_default();
            Some(RunRow { run: row.target_service_key?, state, began, failure })
        };
        Ok(rows.into_iter().filter_map(row).collect())
    }

    /// Registers a worker's address. A known address stays as it is.
    pub(crate) async fn register_worker(&self, url: &str) -> Result<(), EngineFailure> {
        let body = serde_json::json!({ "uri": url }).to_string();
        self.client.post_json("deployments", body).await.map(drop)
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
