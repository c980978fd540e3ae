//! The model behind the name that an agent gives it.

use serde::{Deserialize, Serialize};
use softland_session::core::models::Price;

/// The model that answers when an agent asks a transport for a name.
///
/// ```
/// use softland_agent::http::ServedModel;
///
/// let model = ServedModel::from_name("anthropic/claude-sonnet-5-5");
/// assert_eq!(model.provider.as_deref(), Some("anthropic"));
/// assert_eq!(model.request_name, "claude-sonnet-5-5");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServedModel {
    /// The provider whose prices and capabilities apply; `None` if the model's name says enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model whose price and capabilities apply.
    pub name: String,
    /// The model's name in requests.
    pub request_name: String,
    /// The price; `None` is the price of the built-in table.
    #[serde(skip)]
    pub price: Option<Price>,
}

impl ServedModel {
    /// Creates a model that requests name as the tables do.
    #[must_use]
    pub fn new(provider: Option<&str>, name: &str) -> Self {
        let (provider, name) = (provider.map(str::to_owned), name.to_owned());
        Self { provider, request_name: name.clone(), name, price: None }
    }

    /// Reads `PROVIDER/MODEL`, or `MODEL` alone.
    #[must_use]
    pub fn from_name(model: &str) -> Self {
        match model.split_once('/') {
            Some((provider, name)) => Self::new(Some(provider), name),
            None => Self::new(None, model),
        }
    }

    /// Sets the name in requests.
    #[must_use]
    pub fn with_request_name(self, name: &str) -> Self {
        Self { request_name: name.to_owned(), ..self }
    }

    /// Sets the price.
    #[must_use]
    pub fn with_price(self, price: Price) -> Self {
        Self { price: Some(price), ..self }
    }
}
