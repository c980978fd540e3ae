//! The `mcpServers` file: the list of servers, in the format of other clients.
//!
//! Every mistake names the file and the server or line, and what is allowed. Reading the file
//! starts nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::tool::cut_line;

mod expand;

use expand::expand_variables;

/// The largest file that is read, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The known keys of a server.
const KEYS: [&str; 8] = ["type", "command", "args", "env", "cwd", "url", "headers", "timeout"];

/// A file of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServersFile {
    /// The servers, in the file's order.
    pub servers: Vec<DeclaredServer>,
    /// Warnings that do not prevent the use of the file.
    pub warnings: Vec<String>,
    /// The file, as the caller named it.
    pub label: String,
}

/// A server of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredServer {
    /// The server's name, which is part of the names of its tools.
    pub name: String,
    /// The location of the server.
    pub place: ServerLocation,
    /// The time limit of a call in milliseconds, if the file sets it.
    pub timeout_ms: Option<u64>,
}

/// The location of a server.
#[derive(Clone, PartialEq, Eq)]
pub enum ServerLocation {
    /// A program that speaks over its standard input and output.
    Program(ServerProgram),
    /// An address that speaks streamable HTTP.
    Http {
        /// The URL.
        url: String,
        /// The headers of every request.
        headers: BTreeMap<String, String>,
    },
}

/// A server that is a program.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerProgram {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables, in addition to the few that every server gets.
    pub env: BTreeMap<String, String>,
    /// The working folder; `None` is that of this process.
    pub cwd: Option<PathBuf>,
}

/// Shows no values, since they may be credentials.
impl fmt::Debug for ServerLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => f.debug_tuple("Program").field(program).finish(),
            Self::Http { .. } => f.write_str("Http"),
        }
    }
}

impl fmt::Debug for ServerProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("command", &self.command).finish_non_exhaustive()
    }
}

impl ServersFile {
    /// Reads a file from disk; `env` looks up the variables for `${VAR}`.
    ///
    /// # Errors
    /// Returns all mistakes.
    pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        let label = path.display().to_string();
        let one = |what: String| vec![format!("{label}: {what}")];
        let size = std::fs::metadata(path)
            .map_err(|error| one(format!("the file cannot be read: {error}")))?;
        if !size.is_file() || size.len() > MAX_BYTES as u64 {
            return Err(one(format!("must be a file of at most {MAX_BYTES} bytes")));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| one(format!("the file cannot be read: {error}")))?;
        Self::parse(&label, &text, env)
    }

    /// Parses the text of a file; `label` names it in messages.
    ///
    /// # Errors
    /// Returns all mistakes.
    pub fn parse(
        label: &str,
        text: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Vec<String>> {
        let shape: UniqueKeys = serde_json::from_str(text).map_err(|error| {
            let form = "{\"mcpServers\": {\"NAME\": {\"command\": …} or {\"url\": …}}} is allowed";
            vec![format!("{label}:{}: {error}; {form}", error.line())]
        })?;
        let UniqueKeys(Value::Object(file)) = shape else {
            return Err(vec![format!("{label}: must be an object with `mcpServers`")]);
        };
        let mut reader = ServersReader { label, env, problems: Vec::new(), warnings: Vec::new() };
        for key in file.keys().filter(|key| *key != "mcpServers") {
            reader.warnings.push(format!(
                "{label}: unknown key `{}`, ignored; known is mcpServers",
                cut_line(key, 60)
            ));
        }
        let Some(Value::Object(listed)) = file.get("mcpServers") else {
            return Err(vec![format!(
                "{label}: `mcpServers` must be an object of servers by name"
            )]);
        };
        let servers =
            listed.iter().filter_map(|(name, value)| reader.read_server(name, value)).collect();
        let ServersReader { problems, warnings, .. } = reader;
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { servers, warnings, label: label.to_owned() })
    }

    /// Returns the server with that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&DeclaredServer> {
        self.servers.iter().find(|server| server.name == name)
    }

    /// Returns the names of the servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.name.as_str())
    }
}

struct ServersReader<'a> {
    label: &'a str,
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl ServersReader<'_> {
    fn read_server(&mut self, name: &str, value: &Value) -> Option<DeclaredServer> {
        let at = format!("{}: server `{}`", self.label, cut_line(name, 80));
        if !is_server_name(name) {
            self.problems.push(format!(
                "{at}: a name must be 1 to 48 of a-z A-Z 0-9 _ -, without `__` and without _ at \
                 its ends: it stands in the names of the tools"
            ));
            return None;
        }
        let Value::Object(members) = value else {
            self.problems.push(format!("{at}: must be an object with `command` or `url`"));
            return None;
        };
        for key in members.keys().filter(|key| !KEYS.contains(&key.as_str())) {
            self.warnings.push(format!(
                "{at}: unknown key `{}`, ignored; known are {}",
                cut_line(key, 60),
                KEYS.join(", ")
            ));
        }
        let before = self.problems.len();
        let place = self.read_location(&at, members);
        let timeout_ms = match members.get("timeout") {
            None | Some(Value::Null) => None,
            Some(given) => {
                let read = given.as_u64().filter(|time| *time > 0);
                if read.is_none() {
                    self.problems.push(format!(
                        "{at}: timeout: must be milliseconds, a whole number above 0, got {given}"
                    ));
                }
                read
            }
        };
        (self.problems.len() == before).then_some(place).flatten().map(|place| DeclaredServer {
            name: name.to_owned(),
            place,
            timeout_ms,
        })
    }

    fn read_location(&mut self, at: &str, members: &Map<String, Value>) -> Option<ServerLocation> {
        let kind = match (members.get("type"), members.contains_key("url")) {
            (None | Some(Value::Null), true) => "http",
            (None | Some(Value::Null), false) => "stdio",
            (Some(Value::String(kind)), _) => kind.as_str(),
            (Some(_), _) => "",
        };
        match kind {
            "stdio" => {
                let command = self.read_text(at, members, "command")?;
                let args = self.read_list(at, members, "args")?;
                let env = self.read_table(at, members, "env")?;
                let cwd = match members.contains_key("cwd") {
                    true => Some(PathBuf::from(self.read_text(at, members, "cwd")?)),
                    false => None,
                };
                Some(ServerLocation::Program(ServerProgram { command, args, env, cwd }))
            }
            "http" | "streamable-http" => {
                let url = self.read_text(at, members, "url")?;
                if !(url.starts_with("http://") || url.starts_with("https://")) {
                    self.problems.push(format!("{at}: url: must begin with http:// or https://"));
                    return None;
                }
                let headers = self.read_table(at, members, "headers")?;
                Some(ServerLocation::Http { url, headers })
            }
            _ => {
                let hint =
                    if kind == "sse" { "; the older HTTP with SSE is not supported" } else { "" };
                self.problems.push(format!("{at}: type: must be stdio or http{hint}"));
                None
            }
        }
    }

    fn expand_text(&mut self, at: &str, key: &str, text: &str) -> Option<String> {
        match expand_variables(text, self.env) {
            Ok(text) => Some(text),
            Err(why) => {
                self.problems.push(format!("{at}: {key}: {why}"));
                None
            }
        }
    }

    fn read_text(&mut self, at: &str, members: &Map<String, Value>, key: &str) -> Option<String> {
        match members.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => self.expand_text(at, key, text),
            _ => {
                self.problems.push(format!("{at}: {key}: must be text that is not empty"));
                None
            }
        }
    }

    fn read_list(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
    ) -> Option<Vec<String>> {
        let items = match members.get(key) {
            None | Some(Value::Null) => return Some(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(_) => &Vec::from([Value::Null]),
        };
        let mut texts = Vec::new();
        for item in items {
            let Value::String(text) = item else {
                self.problems.push(format!("{at}: {key}: must be a list of texts"));
                return None;
            };
            texts.push(self.expand_text(at, key, text)?);
        }
        Some(texts)
    }

    fn read_table(
        &mut self,
        at: &str,
        members: &Map<String, Value>,
        key: &str,
    ) -> Option<BTreeMap<String, String>> {
        let table = match members.get(key) {
            None | Some(Value::Null) => return Some(BTreeMap::new()),
            Some(Value::Object(table)) => table.clone(),
            Some(_) => Map::from_iter([(String::new(), Value::Null)]),
        };
        let mut texts = BTreeMap::new();
        for (name, value) in table {
            let text = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                _ => {
                    self.problems.push(format!("{at}: {key}: must be an object of texts"));
                    return None;
                }
            };
            let text = self.expand_text(at, &format!("{key}.{}", cut_line(&name, 60)), &text)?;
            texts.insert(name, text);
        }
        Some(texts)
    }
}

fn is_server_name(name: &str) -> bool {
    (1..=48).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        && !name.contains("__")
        && !name.starts_with('_')
        && !name.ends_with('_')
}

/// JSON in which no object has a key twice. Of two servers with one name, none could be preferred.
struct UniqueKeys(Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if members.contains_key(&key) {
                let key = cut_line(&key, 80);
                return Err(serde::de::Error::custom(format!("`{key}` is there twice")));
            }
            let UniqueKeys(value) = map.next_value()?;
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(UniqueKeys(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::from(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}
