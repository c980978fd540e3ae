//! The list of the protocols' framings.

use softland_wire::Api;

use crate::anthropic::AnthropicFraming;
use crate::chat::ChatFraming;
use crate::framing::{Framing, StreamTerms};
use crate::responses::ResponsesFraming;

/// Returns the framing of an API.
pub(crate) fn new_framing(api: Api, asks: StreamTerms) -> Box<dyn Framing> {
    match api {
        Api::Anthropic => Box::new(AnthropicFraming::new()),
        Api::Chat => Box::new(ChatFraming::new(asks)),
        Api::Responses => Box::new(ResponsesFraming::new(asks)),
    }
}
