//! The programs that are measured, and how each is started on a port before an upstream. Where a
//! program is comes from the environment (`bench/run` finds or installs them): one that is not
//! there is left out.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use softland_bench_texts::answers::{CHAT_END, MESSAGES_END, RESPONSES_END};
use softland_bench_texts::requests::{Kind, LONG_LIMIT, LONG_MODEL, SESSION, Template, Wire};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// The mock itself.
    Direct,
    Nginx,
    /// softland's HTTP libraries, and nothing else.
    Bare,
    /// Limits, money and the ledger on.
    Softland,
    /// The same on Chat Completions.
    SoftlandChat,
    /// The same on Responses.
    SoftlandResponses,
    /// Its state on a Redis.
    SoftlandRedis,
    /// Its state on a PostgreSQL.
    SoftlandPostgres,
    /// The default policy, no ledger.
    SoftlandOff,
    /// Its OpenAI route, where it need not translate: its cheapest.
    Noveum,
    /// Its Anthropic route: Chat Completions for the client, Messages upstream.
    NoveumTranslating,
    LiteLlm,
    Portkey,
}

impl Target {
    pub(crate) const ALL: [Self; 13] = [
        Self::Direct,
        Self::Nginx,
        Self::Bare,
        Self::Softland,
        Self::SoftlandChat,
        Self::SoftlandResponses,
        Self::SoftlandRedis,
        Self::SoftlandPostgres,
        Self::SoftlandOff,
        Self::Noveum,
        Self::NoveumTranslating,
        Self::LiteLlm,
        Self::Portkey,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Bare => "bare",
            Self::Softland => "softland",
            Self::SoftlandChat => "softland, chat",
            Self::SoftlandResponses => "softland, responses",
            Self::SoftlandRedis => "softland, redis",
            Self::SoftlandPostgres => "softland, postgres",
            Self::SoftlandOff => "softland, off",
            Self::Noveum => "noveum",
            Self::NoveumTranslating => "noveum, translating",
            Self::LiteLlm => "litellm",
            Self::Portkey => "portkey",
        }
    }

    /// The variable that names its program.
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Direct => None,
            Self::Nginx => Some("BENCH_NGINX"),
            Self::Bare => Some("BENCH_BARE"),
            Self::Softland
            | Self::SoftlandChat
            | Self::SoftlandResponses
            | Self::SoftlandRedis
            | Self::SoftlandPostgres
            | Self::SoftlandOff => Some("BENCH_SOFTLAND"),
            Self::Noveum | Self::NoveumTranslating => Some("BENCH_NOVEUM"),
            Self::LiteLlm => Some("BENCH_LITELLM"),
            Self::Portkey => Some("BENCH_PORTKEY"),
        }
    }

    /// Where its program is; `None` where it is not there.
    pub(crate) fn program(self) -> Option<PathBuf> {
        let path = std::env::var_os(self.variable()?).filter(|path| !path.is_empty())?;
        Some(PathBuf::from(path)).filter(|path| path.exists())
    }

    pub(crate) fn is_here(self) -> bool {
        let has_store = self.store_variable().is_none_or(|name| std::env::var_os(name).is_some());
        self == Self::Direct || self.program().is_some() && has_store
    }

    /// The variable with the address of the store for its state; `None` where that is in its memory.
    fn store_variable(self) -> Option<&'static str> {
        match self {
            Self::SoftlandRedis => Some("BENCH_REDIS"),
            Self::SoftlandPostgres => Some("BENCH_POSTGRES"),
            _ => None,
        }
    }

    /// Whether limits are on.
    pub(crate) fn governs(self) -> bool {
        self.store_variable().is_some()
            || matches!(self, Self::Softland | Self::SoftlandChat | Self::SoftlandResponses)
    }

    /// Whether a long history is governed: only Anthropic's has one with tools.
    pub(crate) fn has_long(self) -> bool {
        !matches!(self, Self::SoftlandChat | Self::SoftlandResponses)
    }

    /// What it is asked in.
    pub(crate) fn wire(self) -> Wire {
        match self {
            Self::Noveum | Self::NoveumTranslating | Self::SoftlandChat => Wire::Chat,
            Self::SoftlandResponses => Wire::Responses,
            _ => Wire::Messages,
        }
    }

    /// What a complete answer's end has.
    pub(crate) fn end(self, kind: Kind) -> &'static str {
        match (kind, self.wire()) {
            (Kind::Short | Kind::Long, _) => "}",
            (Kind::ShortStream, Wire::Messages) => MESSAGES_END,
            (Kind::ShortStream, Wire::Chat) => CHAT_END,
            (Kind::ShortStream, Wire::Responses) => RESPONSES_END,
        }
    }

    /// The request to it at `address`.
    pub(crate) fn template(
        self,
        kind: Kind,
        address: SocketAddr,
        upstream: SocketAddr,
    ) -> Template {
        let mut headers = match self {
            Self::Noveum => vec![("authorization", "Bearer sk-bench"), ("x-provider", "openai")],
            Self::NoveumTranslating => {
                vec![("authorization", "Bearer sk-bench"), ("x-provider", "anthropic")]
            }
            // Anthropic's short request names its session in its body.
            Self::SoftlandChat | Self::SoftlandResponses => {
                vec![("authorization", "Bearer sk-bench"), ("x-session-id", SESSION)]
            }
            Self::LiteLlm => vec![("x-api-key", LITELLM_KEY), ("anthropic-version", VERSION)],
            _ => vec![("x-api-key", "sk-ant-bench"), ("anthropic-version", VERSION)],
        };
        let host = format!("http://{upstream}/v1");
        if self == Self::Portkey {
            headers.extend([("x-portkey-provider", "anthropic"), ("x-portkey-custom-host", &host)]);
        }
        let served = address.to_string();
        headers.push(("host", &served));
        let owned: Vec<_> =
            headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Template::new(self.wire(), kind, &owned)
    }

    /// The command that serves on that port, with its files in that folder.
    pub(crate) fn command(
        self,
        folder: &Path,
        port: u16,
        upstream: SocketAddr,
    ) -> io::Result<Option<Command>> {
        let Some(program) = self.program() else { return Ok(None) };
        let mut command = Command::new(&program);
        command.current_dir(folder);
        match self {
            Self::Direct => return Ok(None),
            Self::Nginx => nginx(&mut command, folder, port, upstream)?,
            Self::Bare => {
                command.arg(port.to_string()).arg(upstream.to_string());
            }
            Self::Softland
            | Self::SoftlandChat
            | Self::SoftlandResponses
            | Self::SoftlandRedis
            | Self::SoftlandPostgres => {
                let mut config = governed(folder, port, upstream);
                if let Some(store) = self.store_variable() {
                    empty_store(self, store)?;
                    config += &format!("[shared]\nurl_env = \"{store}\"\n");
                }
                softland(&mut command, folder, &config)?;
            }
            Self::SoftlandOff => softland(&mut command, folder, &ungoverned(port, upstream))?,
            Self::Noveum | Self::NoveumTranslating => {
                command.env("PORT", port.to_string()).env("HOST", "127.0.0.1");
                command.env("RUST_LOG", "off");
                for name in ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"] {
                    command.env(name, format!("http://{upstream}"));
                }
            }
            Self::LiteLlm => litellm(&mut command, folder, port, upstream)?,
            Self::Portkey => {
                // A script of Node's.
                command = Command::new("node");
                command.current_dir(folder).arg(&program).arg("--headless");
                command.arg(format!("--port={port}"));
            }
        }
        Ok(Some(command))
    }
}

const VERSION: &str = "2023-06-01";
const LITELLM_KEY: &str = "sk-bench-3f9c1d7a5b8e2046";

fn nginx(command: &mut Command, folder: &Path, port: u16, upstream: SocketAddr) -> io::Result<()> {
    let at = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path {at}/{name};\n"))
        .collect();
    let config = format!(
        "daemon off;\nmaster_process off;\npid {at}/nginx.pid;\nerror_log stderr warn;\n\
         worker_rlimit_nofile 16384;\nevents {{ worker_connections 8192; }}\nhttp {{\n{temporary}  \
         access_log off;\n  tcp_nodelay on;\n  keepalive_requests 100000000;\n  \
         client_max_body_size 64m;\n  client_body_buffer_size 2m;\n  \
         upstream mock {{ server {upstream}; keepalive 256; keepalive_requests 100000000; }}\n  \
         server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    location / {{\n      \
         proxy_pass http://mock;\n      proxy_http_version 1.1;\n      \
         proxy_set_header Connection \"\";\n      proxy_buffering off;\n    }}\n  }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, config)?;
    command.arg("-p").arg(folder).arg("-e").arg("stderr").arg("-c").arg(file);
    Ok(())
}

fn softland(command: &mut Command, folder: &Path, config: &str) -> io::Result<()> {
    let file = folder.join("softland.toml");
    fs::write(&file, config)?;
    command.arg("serve").arg("--config").arg(file);
    // None of them logs each request here.
    command.env("SOFTLAND_LOG", "warn");
    Ok(())
}

/// Empties the store of a target, so that each round begins with nothing.
fn empty_store(target: Target, variable: &str) -> io::Result<()> {
    let url = std::env::var(variable).map_err(io::Error::other)?;
    let mut command = match target {
        Target::SoftlandPostgres => {
            let mut psql = Command::new("psql");
            let statements = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
            psql.env("PGOPTIONS", "-c client_min_messages=error")
                .args(["-qc", statements])
                .arg(url);
            psql
        }
        _ => {
            // redis-cli would take the empty user before the password for a name.
            let (password, place) =
                url.trim_start_matches("redis://:").split_once('@').unwrap_or_default();
            let (host, port) = place.rsplit_once(':').unwrap_or_default();
            let mut client = Command::new("redis-cli");
            client.env("REDISCLI_AUTH", password).args(["-e", "-h", host, "-p", port, "flushall"]);
            client
        }
    };
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// Every request is governed (a line goes into its newest result), metered against two budgets,
/// and recorded.
fn governed(folder: &Path, port: u16, upstream: SocketAddr) -> String {
    let ledger = folder.join("softland.db");
    format!(
        "listen = \"127.0.0.1:{port}\"\n\
         [upstream.anthropic]\nbase_url = \"http://{upstream}\"\n\
         [upstream.openai]\nbase_url = \"http://{upstream}\"\n\
         [policy.default]\ntool_calls_limit = 4\ncost_limit_usd = 1000\n\
         session_cost_limit_usd = 5000\n\
         [policy.long]\ntool_calls_limit = {LONG_LIMIT}\ncost_limit_usd = 100000\n\
         session_cost_limit_usd = 500000\n\
         [[route]]\nmodel = \"{LONG_MODEL}\"\npolicy = \"long\"\n\
         [ledger]\nurl = \"sqlite:{}\"\n",
        ledger.display()
    )
}

fn ungoverned(port: u16, upstream: SocketAddr) -> String {
    format!(
        "listen = \"127.0.0.1:{port}\"\n\
         [upstream.anthropic]\nbase_url = \"http://{upstream}\"\n[ledger]\nurl = \"off\"\n"
    )
}

fn litellm(
    command: &mut Command,
    folder: &Path,
    port: u16,
    upstream: SocketAddr,
) -> io::Result<()> {
    let model = |name: &str| {
        format!(
            "  - model_name: {name}\n    litellm_params:\n      model: anthropic/{name}\n      \
             api_base: http://{upstream}\n      api_key: sk-ant-bench\n"
        )
    };
    let config = format!(
        "model_list:\n{}{}general_settings:\n  master_key: {LITELLM_KEY}\n",
        model("claude-sonnet-5-5"),
        model(LONG_MODEL)
    );
    let file = folder.join("litellm.yaml");
    fs::write(&file, config)?;
    command.arg("--config").arg(file).args(["--host", "127.0.0.1", "--num_workers", "1"]);
    command.arg("--port").arg(port.to_string());
    command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_LOG", "ERROR");
    Ok(())
}
