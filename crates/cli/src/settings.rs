//! Resolves arguments, files and environment to an agent that can run.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::sync::Arc;

use softland_agent::core::policy::Policy;
use softland_agent::http::provider::{ProviderOverrides, resolve_model};
use softland_agent::http::{Api, HttpTransport, Timeouts, Transport};
use softland_agent::mcp::Servers;
use softland_agent::tools::ToolResources;
use softland_agent::{Agent, AgentFile, Options, Problem, Root, ToolSet};

use crate::args::{RunArgs, RunSelection};
use crate::config::{Config, find_unlimitable_tools, unknown_policy_message};
use crate::failure::Failure;
use crate::programs;
use crate::provider_status::{ProviderStatus, ProviderStatuses};
use crate::sim::{InProcessSim, SIMULATOR, simulated_name};

pub(crate) mod folder;
mod sub_agents;

/// The longest prompt that is read from standard input, in bytes.
const MAX_PROMPT: u64 = 8 * 1024 * 1024;

/// An agent that can run, and its prompt.
pub(crate) struct RunSettings {
    pub(crate) agent: Agent,
    pub(crate) prompt: String,
    pub(crate) places: ProviderStatuses,
    /// True if all models are simulated, so that nothing is paid.
    pub(crate) simulated: bool,
    /// Problems that do not prevent the run.
    pub(crate) warnings: Vec<String>,
}

impl RunSettings {
    /// Resolves the arguments, in the order in which a person would want to learn of mistakes.
    ///
    /// # Errors
    /// Returns all mistakes of the first part that has any.
    pub(crate) fn from_args(args: &RunArgs, servers: &Servers) -> Result<Self, Failure> {
        let settings = Self::without_prompt(args, servers)?;
        let prompt = match args.which {
            RunSelection::Resume(_) => String::new(),
            RunSelection::New | RunSelection::Continue(_) => read_prompt(args.prompt.as_deref())?,
        };
        Ok(Self { prompt, ..settings })
    }

    /// Resolves the arguments of an agent without a prompt.
    ///
    /// # Errors
    /// Returns all mistakes of the first part that has any.
    pub(crate) fn without_prompt(args: &RunArgs, servers: &Servers) -> Result<Self, Failure> {
        let path = args.agent.as_deref().unwrap_or_else(|| Path::new(""));
        let (file, warnings) = AgentFile::load(path);
        let mut warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        let file = file.map_err(|problems| {
            let mut messages: Vec<_> = problems.iter().map(ToString::to_string).collect();
            if let [only] = messages.as_mut_slice()
                && !path.exists()
            {
                *only += " (`softland init` writes a first agent file)";
            }
            Failure::from_messages(messages)
        })?;
        let config = match &args.config {
            Some(path) => Config::load(path).map_err(Failure::from_messages)?,
            None => Config::default(),
        };
        let policy = resolve_policy(args, &config, &file, true)?;
        let model = choose_model(args, &file)?;
        let mut ways =
            ModelRoutes { args, config: &config, servers, first: &model, known: BTreeMap::new() };
        let ModelRoute { transport, api, .. } = ways.route_to(&model)?;
        let root = args.root.as_deref().unwrap_or_else(|| Path::new("."));
        let root = Root::open(root).map_err(|error| Failure::usage(format!("--root: {error}")))?;
        let means = build_tool_resources(args, &config, &root, servers)?;
        let tools = build_tools(&path.display().to_string(), &file, means)?;
        let options = Options {
            api,
            show_thinking: args.show_thinking,
            price: config.find_price(&model),
            tool_format: file.tool_format,
            ..Options::default()
        };
        let (name, system, model) = (file.name.clone(), file.system.clone(), model.clone());
        let mut agent =
            Agent { name, system, model, tools, sub_agents: None, policy, transport, options };
        apply_hints(&mut agent, servers);
        let asked = (&agent, &mut ways);
        agent.sub_agents =
            sub_agents::build_sub_agents(args, &config, &file, &root, asked, &mut warnings)?;
        let simulated = ways.known.keys().all(|model| model.starts_with("sim/"));
        let places = ways.known.into_iter().map(|(model, way)| (model, way.place));
        let places = ProviderStatuses::new(places.collect());
        Ok(Self { agent, prompt: String::new(), places, simulated, warnings })
    }
}

#[cfg(feature = "notebook")]
impl RunSettings {
    /// Resolves the settings of an assistant that is part of this program. It has no tools yet and
    /// calls no other agents.
    ///
    /// # Errors
    /// Returns all mistakes of the first part that has any.
    pub(crate) fn for_assistant(
        args: &RunArgs,
        config: &Config,
        file: &AgentFile,
    ) -> Result<Self, Failure> {
        let policy = resolve_policy(args, config, file, true)?;
        let Some(model) = args.model.clone() else {
            return Err(Failure::usage(
                "no model: give one with --model PROVIDER/MODEL (without a key: --model \
                 sim/notebook)",
            ));
        };
        let ModelRoute { transport, place, api } = resolve_route(args, config, &model, true)?;
        let options = Options {
            api,
            show_thinking: args.show_thinking,
            price: config.find_price(&model),
            ..Options::default()
        };
        let simulated = model.starts_with("sim/");
        let places = ProviderStatuses::new([(model.clone(), place)].into());
        let (name, system, tools) = (file.name.clone(), file.system.clone(), ToolSet::new());
        let agent =
            Agent { name, system, model, tools, sub_agents: None, policy, transport, options };
        Ok(Self { agent, prompt: String::new(), places, simulated, warnings: Vec::new() })
    }
}

/// Resolves the policy of an agent: the built-in default, then the config's policy, then the agent
/// file's keys, then the flags, if the agent is the one that was `asked` for.
fn resolve_policy(
    args: &RunArgs,
    config: &Config,
    file: &AgentFile,
    asked: bool,
) -> Result<Policy, Failure> {
    let mut policy = match &args.policy {
        None => config.find_policy("default").cloned().unwrap_or_default(),
        Some(name) => match config.find_policy(name).cloned().or_else(|| Policy::built_in(name)) {
            Some(policy) => policy,
            None => return Err(Failure::usage(unknown_policy_message(name, config))),
        },
    };
    file.apply_policy(&mut policy);
    for (key, value) in args.keys.iter().filter(|_| asked) {
        policy.set_key(key, value).map_err(|error| Failure::usage(error.to_string()))?;
    }
    match find_unlimitable_tools(&policy).into_iter().next() {
        Some(problem) => Err(Failure::usage(format!("tool_limits: {problem}"))),
        None => Ok(policy),
    }
}

fn choose_model(args: &RunArgs, file: &AgentFile) -> Result<String, Failure> {
    args.model.clone().or_else(|| file.model.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "no model: give one with --model PROVIDER/MODEL or with `model:` in {} \
             (without a key: --model sim/reader)",
            args.agent.as_deref().unwrap_or_else(|| Path::new("the agent file")).display()
        ))
    })
}

/// The routes to the models of a run, one for each model.
struct ModelRoutes<'a> {
    args: &'a RunArgs,
    config: &'a Config,
    servers: &'a Servers,
    /// The model of the run's first agent, to whose provider the flags apply.
    first: &'a str,
    known: BTreeMap<String, ModelRoute>,
}

impl ModelRoutes<'_> {
    fn route_to(&mut self, model: &str) -> Result<ModelRoute, Failure> {
        if let Some(way) = self.known.get(model) {
            return Ok(way.clone());
        }
        // A base URL that was given for one provider is never used with another provider's key.
        let flags = provider_name(model) == provider_name(self.first);
        let way = resolve_route(self.args, self.config, model, flags)?;
        self.known.insert(model.to_owned(), way.clone());
        Ok(way)
    }
}

fn provider_name(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

/// The route to a model.
#[derive(Clone)]
struct ModelRoute {
    transport: Arc<dyn Transport>,
    place: ProviderStatus,
    api: Api,
}

/// Resolves the route to a model. The base URL of the flag takes precedence over the config's, and
/// that over the environment's; each names the origin for the provider's key. `flags` is true if
/// the flags of the command line apply to this model.
fn resolve_route(
    args: &RunArgs,
    config: &Config,
    model: &str,
    flags: bool,
) -> Result<ModelRoute, Failure> {
    let env = |name: &str| std::env::var(name).ok();
    let upstream = config.find_upstream(provider_name(model)).cloned().unwrap_or_default();
    let of_flag = args.base_url.as_deref().filter(|_| flags).map(|url| (url, "--base-url"));
    let of_config = upstream.base_url.as_ref().map(|url| (url.text.as_str(), url.place.as_str()));
    let key_variable = upstream.key.as_ref().map(|variable| variable.name.as_str());
    let (api, base_url) = (args.api.filter(|_| flags), of_flag.or(of_config));
    // A simulator, in this process or elsewhere, is asked through Anthropic's API by default.
    let simulated = simulated_name(model);
    let api = api.or_else(|| simulated.map(|_| Api::Anthropic));
    if let (Some(name), Some(api), None) = (simulated, api, base_url) {
        let (transport, place) = (InProcessSim::new(name)?, ProviderStatus::for_simulator());
        return Ok(ModelRoute {
            transport: place.watch_transport(Arc::new(transport)),
            place,
            api,
        });
    }
    let given = ProviderOverrides { api, base_url, key_variable, own: &[SIMULATOR] };
    let endpoint =
        resolve_model(model, &given, &env).map_err(|error| Failure::usage(error.to_string()))?;
    let (api, place) = (endpoint.api(), ProviderStatus::from_endpoint(&endpoint, key_variable));
    let transport = HttpTransport::new(endpoint, Timeouts::default())
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(ModelRoute { transport: place.watch_transport(Arc::new(transport)), place, api })
}

/// Returns the resources that the tools of an agent work with.
fn build_tool_resources(
    args: &RunArgs,
    config: &Config,
    root: &Root,
    servers: &Servers,
) -> Result<ToolResources, Failure> {
    let means = ToolResources::new(root.clone()).with_server_tools(&servers.tools());
    if args.allow_shell {
        Ok(means.with_programs(programs::allow_programs(config)?))
    } else {
        Ok(means)
    }
}

/// Applies the servers' hints about the agent's tools, where its policy does not set them.
fn apply_hints(agent: &mut Agent, servers: &Servers) {
    let tools = &agent.tools;
    servers.apply_hints(&mut agent.policy, &|name| tools.get(name).is_some());
}

fn build_tools(label: &str, file: &AgentFile, means: ToolResources) -> Result<ToolSet, Failure> {
    let problems =
        |all: Vec<Problem>| Failure::from_messages(all.iter().map(ToString::to_string).collect());
    file.tool_set(label, means).map_err(problems)
}

/// Returns the given prompt, or reads it from standard input if it is `-` or missing.
pub(crate) fn read_prompt(given: Option<&str>) -> Result<String, Failure> {
    let (prompt, from) = match given {
        Some(text) if text != "-" => (text.to_owned(), "the prompt"),
        given => {
            let stdin = std::io::stdin();
            if given.is_none() && stdin.is_terminal() {
                return Err(Failure::usage(
                    "no prompt: give it as an argument, or pipe it in \
                     (softland run AGENT.md \"a question\")",
                ));
            }
            (read_piped(stdin.lock())?, "the prompt from standard input")
        }
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage(format!("{from} is empty: say what to do")));
    }
    Ok(prompt)
}

fn read_piped(input: impl std::io::Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let fail = |error| Failure::usage(format!("standard input cannot be read: {error}"));
    let size = input.take(MAX_PROMPT + 1).read_to_end(&mut bytes).map_err(fail)?;
    if size as u64 > MAX_PROMPT {
        let message = format!("the prompt from standard input is larger than {MAX_PROMPT} bytes");
        return Err(Failure::usage(message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("the prompt from standard input is not UTF-8 text (byte {at})"))
    })
}
