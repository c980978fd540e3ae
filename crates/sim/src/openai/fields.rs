//! Checks of single fields that both protocols share, with OpenAI's error texts.

use super::error::{OpenAiRefusal, OpenAiResult, ensure};
use crate::history::Choice;
use crate::json::Json;

/// The type of a field; `null` always counts as absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    Bool,
    Text,
    List,
    Map,
}

/// Refuses an unknown field with 400.
pub(crate) fn check_known(json: &Json, path: &str, fields: &[&str]) -> OpenAiResult {
    let unknown = json.entries().iter().find(|(key, _)| !fields.contains(&key.as_str()));
    let Some((key, _)) = unknown else { return Ok(()) };
    let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
    let message = format!("Unknown parameter: '{full}'.");
    Err(OpenAiRefusal::bad_request(message).with_code("unknown_parameter").with_param(full))
}

/// Refuses a field of the wrong type with 400.
pub(crate) fn check_types(json: &Json, fields: &[(&str, FieldType)]) -> OpenAiResult {
    for (key, wanted) in fields {
        let Some(value) = json.get(key).filter(|v| **v != Json::Null) else { continue };
        let (ok, name) = match wanted {
            FieldType::Bool => (value.as_bool().is_some(), "a boolean"),
            FieldType::Text => (value.as_str().is_some(), "a string"),
            FieldType::List => (matches!(value, Json::List(_)), "an array"),
            FieldType::Map => (value.is_map(), "an object"),
        };
        ensure(ok, || wrong_type(key, name, value))?;
    }
    Ok(())
}

pub(crate) fn wrong_type(path: &str, wanted: &str, value: &Json) -> OpenAiRefusal {
    let got = match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Int(_) => "an integer",
        Json::Float(_) => "a decimal",
        Json::Str(_) => "a string",
        Json::List(_) => "an array",
        Json::Map(_) => "an object",
    };
    let message = format!("Invalid type for '{path}': expected {wanted}, but got {got} instead.");
    OpenAiRefusal::bad_request(message).with_code("invalid_type").with_param(path)
}

/// Refuses a number out of bounds with 400.
pub(crate) fn check_bounds(json: &Json, fields: &[(&str, f64, f64)]) -> OpenAiResult {
    for (key, least, most) in fields {
        let Some(value) = json.get(key).filter(|v| **v != Json::Null) else { continue };
        let Some(x) = value.as_f64() else { return Err(wrong_type(key, "a decimal", value)) };
        let outside = |side: &str, sign: &str, bound: f64, code: &'static str| {
            let text = value.to_text();
            let message = format!(
                "Invalid '{key}': decimal {side} value. Expected a value {sign} {bound}, but got \
                 {text} instead."
            );
            OpenAiRefusal::bad_request(message).with_code(code).with_param(*key)
        };
        let over = || outside("above maximum", "<=", *most, "decimal_above_max_value");
        ensure(x <= *most, over)?;
        let under = || outside("below minimum", ">=", *least, "decimal_below_min_value");
        ensure(x >= *least, under)?;
    }
    Ok(())
}

/// Reads an integer of at least `least`, if the field is present.
pub(crate) fn read_integer(json: &Json, key: &str, least: u64) -> OpenAiResult<Option<u64>> {
    let Some(value) = json.get(key).filter(|v| **v != Json::Null) else { return Ok(None) };
    match (value, value.as_u64()) {
        (_, Some(n)) if n >= least => Ok(Some(n)),
        (Json::Int(_), _) => {
            let text = value.to_text();
            let message = format!(
                "Invalid '{key}': integer below minimum value. Expected a value >= {least}, but \
                 got {text} instead."
            );
            Err(OpenAiRefusal::bad_request(message)
                .with_code("integer_below_min_value")
                .with_param(key))
        }
        _ => Err(wrong_type(key, "an integer", value)),
    }
}

/// Refuses sampling parameters, which a reasoning model does not have.
pub(crate) fn check_sampling(body: &Json) -> OpenAiResult {
    for (key, default) in [
        ("temperature", 1.0),
        ("top_p", 1.0),
        ("presence_penalty", 0.0),
        ("frequency_penalty", 0.0),
    ] {
        let value = body.get(key).filter(|v| v.as_f64().is_some_and(|x| x != default));
        let Some(value) = value else { continue };
        let text = value.to_text();
        let message = format!(
            "Unsupported value: '{key}' does not support {text} with this model. Only the default \
             ({default}) value is supported."
        );
        return Err(OpenAiRefusal::bad_request(message)
            .with_code("unsupported_value")
            .with_param(key));
    }
    Ok(())
}

/// The position of a tool's name: under `function` (Chat) or beside the type (Responses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolFormat {
    Nested,
    Flat,
}

impl ToolFormat {
    /// Returns the definition of a tool of this type, or the choice of one.
    pub(crate) fn inner_json<'a>(self, tool: &'a Json, kind: &str) -> Option<&'a Json> {
        match self {
            Self::Nested => tool.get(kind),
            Self::Flat => Some(tool),
        }
    }

    fn field_path(self, kind: &str) -> String {
        match self {
            Self::Nested => kind.to_owned(),
            Self::Flat => "name".to_owned(),
        }
    }
}

/// The tools of a request and how they may be chosen.
#[derive(Clone, Debug)]
pub(crate) struct Tools<'a> {
    pub(crate) all: &'a [Json],
    pub(crate) choice: Choice<'a>,
    /// The tools that may be called, if not all.
    pub(crate) allowed: Option<Vec<&'a str>>,
    pub(crate) parallel: bool,
}

impl<'a> Tools<'a> {
    /// Reads and checks `tools`, `tool_choice` and `parallel_tool_calls`.
    ///
    /// # Errors
    /// Refuses with 400.
    pub(crate) fn from_body(body: &'a Json, form: ToolFormat) -> OpenAiResult<Self> {
        let all = body.get("tools").map_or(&[][..], Json::items);
        for (i, tool) in all.iter().enumerate() {
            check_definition(tool, i, form)?;
        }
        let mut tools = Self {
            all,
            choice: Choice::Auto,
            allowed: None,
            parallel: body.get("parallel_tool_calls").and_then(Json::as_bool) != Some(false),
        };
        if let Some(choice) = body.get("tool_choice").filter(|c| **c != Json::Null) {
            tools.read_choice(choice, form)?;
        }
        Ok(tools)
    }

    /// Returns the names of the tools that the client runs.
    pub(crate) fn client_names(&self, form: ToolFormat) -> impl Iterator<Item = &'a str> {
        self.all.iter().filter_map(move |tool| client_tool_name(tool, form))
    }

    fn read_choice(&mut self, choice: &'a Json, form: ToolFormat) -> OpenAiResult {
        match choice {
            Json::Str(word) => {
                self.choice = match word.as_str() {
                    "none" => Choice::None,
                    "auto" => Choice::Auto,
                    "required" => Choice::Any,
                    _ => return Err(unknown_choice(word)),
                };
                Ok(())
            }
            Json::Map(_) => self.read_choice_object(choice, form),
            _ => Err(wrong_type("tool_choice", "one of a string or an object", choice)),
        }
    }

    fn read_choice_object(&mut self, choice: &'a Json, form: ToolFormat) -> OpenAiResult {
        let kind = choice.str_at("type").unwrap_or("");
        match kind {
            "function" | "custom" => {
                let inner = form.inner_json(choice, kind).and_then(|inner| inner.str_at("name"));
                let Some(name) = inner else {
                    return Err(missing_parameter(format!(
                        "tool_choice.{}",
                        form.field_path(kind)
                    )));
                };
                ensure(self.client_names(form).any(|n| n == name), || {
                    let message = format!("Tool choice '{name}' not found in 'tools' parameter.");
                    OpenAiRefusal::bad_request(message).with_param("tool_choice")
                })?;
                self.choice = Choice::Tool(name);
                Ok(())
            }
            "allowed_tools" => self.read_allowed(choice, form),
            // The provider runs its own tools, and those of MCP servers.
            "" => Err(missing_parameter("tool_choice.type".to_owned())),
            _ if form == ToolFormat::Flat => {
                self.choice = Choice::Auto;
                Ok(())
            }
            other => Err(unknown_choice(other)),
        }
    }

    fn read_allowed(&mut self, choice: &'a Json, form: ToolFormat) -> OpenAiResult {
        let inner = form.inner_json(choice, "allowed_tools");
        let Some(list) = inner.and_then(|i| i.get("tools")) else {
            return Err(missing_parameter("tool_choice.tools".to_owned()));
        };
        self.choice = match inner.and_then(|i| i.str_at("mode")) {
            Some("auto") => Choice::Auto,
            Some("required") => Choice::Any,
            _ => return Err(missing_parameter("tool_choice.mode".to_owned())),
        };
        let names: Vec<&str> =
            list.items().iter().filter_map(|t| client_tool_name(t, form)).collect();
        for name in &names {
            ensure(self.client_names(form).any(|n| n == *name), || {
                let message = format!("Tool choice '{name}' not found in 'tools' parameter.");
                OpenAiRefusal::bad_request(message).with_param("tool_choice")
            })?;
        }
        self.allowed = Some(names);
        Ok(())
    }
}

/// Returns the name of a tool that the client runs.
fn client_tool_name(tool: &Json, form: ToolFormat) -> Option<&str> {
    let kind = tool.str_at("type")?;
    let mine = matches!(kind, "function" | "custom");
    mine.then(|| form.inner_json(tool, kind)?.str_at("name")).flatten()
}

fn check_definition(tool: &Json, at: usize, form: ToolFormat) -> OpenAiResult {
    ensure(tool.is_map(), || wrong_type(&format!("tools[{at}]"), "an object", tool))?;
    let Some(kind) = tool.str_at("type") else {
        return Err(missing_parameter(format!("tools[{at}].type")));
    };
    if !matches!(kind, "function" | "custom") {
        // Responses has provider tools, and some vendors have them in Chat.
        return Ok(());
    }
    let path = match form {
        ToolFormat::Nested => format!("tools[{at}].{kind}"),
        ToolFormat::Flat => format!("tools[{at}]"),
    };
    let Some(inner) = form.inner_json(tool, kind) else { return Err(missing_parameter(path)) };
    let Some(name) = inner.str_at("name") else {
        return Err(missing_parameter(format!("{path}.name")));
    };
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    ensure(!name.is_empty() && name.len() <= 64 && name.bytes().all(word), || {
        let message = format!(
            "Invalid '{path}.name': string does not match pattern. Expected a string that matches \
             the pattern '^[a-zA-Z0-9_-]+$'."
        );
        OpenAiRefusal::bad_request(message)
            .with_code("invalid_value")
            .with_param(format!("{path}.name"))
    })
}

pub(crate) fn missing_parameter(path: String) -> OpenAiRefusal {
    let message = format!("Missing required parameter: '{path}'.");
    OpenAiRefusal::bad_request(message).with_code("missing_required_parameter").with_param(path)
}

pub(crate) fn empty_array(path: &str) -> OpenAiRefusal {
    let message = format!(
        "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty \
         array instead."
    );
    OpenAiRefusal::bad_request(message).with_code("empty_array").with_param(path)
}

fn unknown_choice(word: &str) -> OpenAiRefusal {
    let message =
        format!("Invalid value: '{word}'. Supported values are: 'none', 'auto', and 'required'.");
    OpenAiRefusal::bad_request(message).with_code("invalid_value").with_param("tool_choice")
}
