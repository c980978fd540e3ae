//! The thinking settings of a request. Every dialect has its own member for them.

use crate::json::{Cursor, Error, Kind, Span, Str};

/// The thinking settings of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestThinking<'a> {
    /// `reasoning_effort` (OpenAI, Groq, xAI), or `reasoning.effort` (OpenRouter).
    pub effort: Option<Str<'a>>,
    /// A budget in tokens: `thinking.budget_tokens` or `reasoning.max_tokens`.
    pub budget: Option<u64>,
    /// The value of `thinking` (DeepSeek, z.ai, Anthropic's layer), unless null.
    pub thinking: Option<Span>,
    /// The value of `reasoning` (OpenRouter), unless null.
    pub reasoning: Option<Span>,
    /// The last switch in the request: `thinking.type`, `reasoning.enabled`, `enable_thinking`
    /// (Qwen), also within `chat_template_kwargs` (vLLM).
    switch: Option<bool>,
}

/// The thinking that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedThinking {
    /// The request does not say, so the model's default applies, which is on for many models.
    Default,
    /// The request turns thinking on.
    On,
    /// The request turns thinking off.
    Off,
}

impl<'a> RequestThinking<'a> {
    /// Returns the thinking that the request asks for. A switch takes precedence over an effort, an
    /// effort over a budget.
    #[must_use]
    pub fn requested_thinking(&self) -> RequestedThinking {
        match (self.switch, self.effort, self.budget) {
            (Some(true), ..) => RequestedThinking::On,
            (Some(false), ..) => RequestedThinking::Off,
            (None, Some(effort), _) if effort == "none" => RequestedThinking::Off,
            (None, Some(_), _) => RequestedThinking::On,
            (None, None, Some(0)) => RequestedThinking::Off,
            (None, None, Some(_)) => RequestedThinking::On,
            // OpenRouter: `reasoning: {}` turns it on with the default effort.
            (None, None, None) if self.reasoning.is_some() => RequestedThinking::On,
            (None, None, None) => RequestedThinking::Default,
        }
    }

    /// Reads the top-level member `key` if it concerns thinking.
    pub(super) fn read_member(&mut self, key: &str, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        match key {
            "reasoning_effort" => self.effort = cursor.read_text_or_skip()?.or(self.effort),
            "enable_thinking" => self.switch = cursor.read_bool_or_skip()?.or(self.switch),
            "thinking" => {
                self.thinking = cursor.clone().skip_unless_null()?;
                self.read_object(cursor)?;
            }
            "reasoning" => {
                self.reasoning = cursor.clone().skip_unless_null()?;
                self.read_object(cursor)?;
            }
            "chat_template_kwargs" => self.read_object(cursor)?,
            _ => {}
        }
        Ok(())
    }

    fn read_object(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => {
                    let kind = cursor.read_text_or_skip()?;
                    self.switch = kind.map(|kind| kind != "disabled").or(self.switch);
                }
                "enabled" | "enable_thinking" | "thinking" => {
                    self.switch = cursor.read_bool_or_skip()?.or(self.switch);
                }
                "effort" => self.effort = cursor.read_text_or_skip()?.or(self.effort),
                "budget_tokens" | "max_tokens" => {
                    self.budget = cursor.read_uint_or_skip()?.or(self.budget);
                }
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}
