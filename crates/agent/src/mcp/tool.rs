//! A server's tool as a [`Tool`] of the loop.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, ClientRequest, Request, ServerResult, Tool as ListedTool,
};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::PREFIX;
use super::client::ServerConnection;
use super::{content, odd};
use crate::tool::{Tool, ToolContext, ToolDef, ToolOutput, cut_line, cut_middle, is_valid_name};

/// The longest description that a model gets, in bytes.
const DESCRIPTION: usize = 4 * 1024;

/// The part of a call's time that is kept for reporting its end.
const MARGIN: Duration = Duration::from_secs(5);

pub(super) struct McpTool {
    def: ToolDef,
    /// The tool's name at its server.
    name: String,
    server: Arc<ServerConnection>,
}

impl McpTool {
    /// Creates the tool. The error says why it is left out.
    pub(super) fn new(listed: &ListedTool, server: &Arc<ServerConnection>) -> Result<Self, String> {
        let shown = cut_line(&listed.name, 80);
        let name = format!("{PREFIX}{}__{}", server.name, plain_name(&listed.name));
        if listed.name.is_empty() || !is_valid_name(&name) {
            return Err(format!(
                "tool `{shown}` is left out: `{}` cannot name a tool (at most 64 characters)",
                cut_line(&name, 120)
            ));
        }
        let mut schema = listed.input_schema.as_ref().clone();
        // Some servers omit the type if there are no arguments.
        schema.entry("type").or_insert_with(|| Value::from("object"));
        let hints = listed.annotations.as_ref();
        let reads = hints.and_then(|hints| hints.read_only_hint) == Some(true);
        let again = hints.and_then(|hints| hints.idempotent_hint) == Some(true);
        let described =
            listed.description.as_deref().or(listed.title.as_deref()).unwrap_or_default();
        Ok(Self {
            def: ToolDef {
                name,
                description: cut_middle(described, DESCRIPTION),
                input_schema: Value::Object(schema),
                reads,
                repeatable: reads || again,
            },
            name: listed.name.clone().into_owned(),
            server: Arc::clone(server),
        })
    }

    /// Returns the server's statement on whether the tool only reads, if it makes one.
    pub(super) fn read_only_hint(listed: &ListedTool) -> Option<bool> {
        listed.annotations.as_ref()?.read_only_hint
    }
}

/// Replaces the characters that a tool's name may not have, as other clients do.
fn plain_name(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    name.chars().map(fit).collect()
}

#[async_trait]
impl Tool for McpTool {
    fn def(&self) -> ToolDef {
        self.def.clone()
    }

    async fn call(&self, input: Value, cx: &ToolContext) -> ToolOutput {
        let (server, cancel) = (Arc::clone(&self.server), cx.cancel.clone());
        let mut params = CallToolRequestParams::new(self.name.clone());
        params.arguments = match input {
            Value::Object(members) => Some(members),
            _ => None,
        };
        // The server is not shut down before this lock is released.
        let Ok(under_way) = Arc::clone(&server.calls).try_read_owned() else {
            return ToolOutput::error(format!("{}: server `{}` ends", self.def.name, server.name));
        };
        // The call is a task of its own, so that it still tells the server if it is given up.
        let asked = tokio::spawn(async move {
            let _under_way = under_way;
            call_server(&server, params, &cancel).await
        });
        match asked.await {
            Ok(Ok(output)) => output,
            Ok(Err(why)) => ToolOutput::error(format!("{}: {why}", self.def.name)),
            Err(_) => ToolOutput::error(format!("{}: the call was given up", self.def.name)),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.server.call_time + MARGIN)
    }
}

async fn call_server(
    server: &ServerConnection,
    params: CallToolRequestParams,
    cancel: &CancellationToken,
) -> Result<ToolOutput, String> {
    let name = &server.name;
    if let Some(why) = server.gone_reason().await {
        return Err(why);
    }
    if cancel.is_cancelled() {
        return Err("the call was cancelled before it was sent".to_owned());
    }
    let request = ClientRequest::CallToolRequest(Request::new(params));
    let options = PeerRequestOptions::with_timeout(server.call_time);
    let sent = server.peer.send_cancellable_request(request, options).await;
    let handle = match sent {
        Ok(handle) => handle,
        Err(error) => return Err(server.failure_message(&error).await),
    };
    let id = handle.id.clone();
    let answer = tokio::select! {
        biased;
        answer = handle.await_response() => answer,
        () = cancel.cancelled() => {
            server.cancel_request(id).await;
            return Err("the call was cancelled".to_owned());
        }
        () = server.wait_until_dead() => {
            let gone = server.gone_reason().await;
            return Err(gone.unwrap_or_else(|| format!("server `{name}` has ended")));
        }
    };
    match answer {
        Ok(ServerResult::CallToolResult(result)) => Ok(content::result_output(&result)),
        // `rmcp` takes a result with a block that it cannot read for one of another kind.
        Ok(ServerResult::CustomResult(result)) => match odd::read_tool_result(result.0) {
            Some(result) => Ok(content::result_output(&result)),
            None => Err(no_result_message(name)),
        },
        Ok(_) => Err(no_result_message(name)),
        Err(ServiceError::McpError(error)) => {
            Err(format!("server `{name}` answered with error {}: {}", error.code.0, error.message))
        }
        Err(ServiceError::Timeout { .. }) => Err(format!(
            "server `{name}` did not answer within {} s",
            server.call_time.as_secs_f64()
        )),
        Err(error) => Err(server.failure_message(&error).await),
    }
}

fn no_result_message(server: &str) -> String {
    format!("server `{server}` answered with something that is not the result of a tool")
}
