//! For every model and protocol, a replayed journal comes to the same decisions without the model.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use softland_agent::http::Api;
use softland_agent::http::Transport;
use softland_agent::journal::new_run_id;
use softland_agent::{Agent, ToolFormat};
use softland_sim::{Config, Scenario};

use crate::common::{SimTransport, agent as agent_on, counting};
use crate::journal::errand::{self, Came, journal, lines, path};

const SCENARIOS: &[&str] = &[
    "reader",
    "thinker",
    "looper",
    "parallel",
    "stubborn",
    "mute",
    "empty",
    "empty:never",
    "whitespace",
    "trivial",
    "echo",
    "tail",
    "partial-tag",
    "truncator",
    "pause",
    "refuser",
    "refuser:text",
    "bad-json",
    "unknown-tool",
    "overloaded",
    "overloaded:always",
    "midstream-error",
    "midstream-error:1",
    "cut",
    "cut:1",
];

fn agent(transport: &Arc<SimTransport>, scenario: &str, api: Api, format: ToolFormat) -> Agent {
    let mut agent = agent_on(transport, &format!("sim/{scenario}"));
    (agent.options.api, agent.options.tool_format) = (api, format);
    agent.options.show_thinking = true;
    agent.policy.tool_calls_limit = Some(7);
    agent.policy.result_chars_limit = Some(4_000);
    agent.policy.cost_limit_usd = Some("0.5".parse().unwrap());
    for name in ["grep", "read_file"] {
        agent.tools.add_tool(Arc::new(counting(name).0)).unwrap();
    }
    agent
}

/// Returns the same agent without a model behind it.
fn alone(agent: &Agent) -> (Agent, Arc<errand::Model>) {
    let model = errand::Model::new();
    let transport = Arc::clone(&model) as Arc<dyn Transport>;
    (Agent { transport, ..agent.clone() }, model)
}

fn numbers(came: &Came) -> String {
    serde_json::to_string(&came.report).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_scenario_is_come_to_again() {
    let (mut runs, mut failed) = (0, 0);
    for api in Api::ALL {
        for format in [ToolFormat::Native, ToolFormat::Tags] {
            for scenario in SCENARIOS {
                let what = format!("{scenario} on {} as {format:?}", api.name());
                let mut config = Config::new(Scenario::from_name(scenario).unwrap());
                config.piece_bytes = Some(61);
                let transport = SimTransport::new(config);
                let folder = tempfile::tempdir().unwrap();
                let folder = folder.path();
                let agent = agent(&transport, scenario, api, format);
                let whole = errand::run(&agent, &journal(folder).root_run(&new_run_id())).await;
                runs += 1;
                if !whole.report.ended.outcome.is_done() {
                    failed += 1;
                    // Such a failure would be tried again.
                    let text = std::fs::read_to_string(path(folder)).unwrap();
                    assert!(text.lines().last().unwrap().contains(r#""kind":"end""#), "{what}");
                    continue;
                }
                let records = lines(folder);
                let (agent, model) = alone(&agent);
                let again = errand::run(&agent, &journal(folder).root_run(&new_run_id())).await;
                assert_eq!(again.report.failure, None, "{what}");
                assert_eq!(model.requests.load(Ordering::SeqCst), 0, "{what}");
                assert_eq!(again.told(), whole.told(), "{what}");
                assert_eq!(again.messages(), whole.messages(), "{what}");
                assert_eq!(numbers(&again), numbers(&whole), "{what}");
                assert_eq!(lines(folder), records, "{what}");
            }
        }
    }
    assert!(runs == 150 && failed <= 30, "{failed} of {runs}");
}
