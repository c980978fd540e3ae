//! The query of a page's request: known names, each once, with values within bounds. Other queries
//! are refused with an error that says what is allowed.

use std::ops::RangeInclusive;

use http::StatusCode;
use http::request::Parts;
use url::form_urlencoded;

use super::page_refusal;
use softland_govern::Refusal;

/// The parameters of a request, by name.
pub(super) struct PageQuery(Vec<(String, String)>);

impl PageQuery {
    /// Reads the query of a request to a path that accepts these names.
    ///
    /// # Errors
    /// Returns a refusal for an unknown or repeated parameter.
    pub(super) fn from_parts(parts: &Parts, names: &[&str]) -> Result<Self, Refusal> {
        let query = parts.uri.query().unwrap_or_default();
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        for (at, (name, _)) in pairs.iter().enumerate() {
            let shown: String = name.chars().take(40).collect();
            if !names.contains(&name.as_str()) {
                let allowed = match names {
                    [] => "none is known here".to_owned(),
                    names => format!("known here: {}", names.join(", ")),
                };
                return Err(bad_parameter(&format!("there is no parameter {shown:?}; {allowed}")));
            }
            if pairs.iter().take(at).any(|(had, _)| had == name) {
                return Err(bad_parameter(&format!("{name} is there more than once")));
            }
        }
        Ok(Self(pairs))
    }

    /// Returns the value of a parameter, if it is present.
    pub(super) fn find_text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(had, _)| had == name).map(|(_, value)| value.as_str())
    }

    /// Returns a time in milliseconds since 1970, if the parameter is present: `2026-11-22` (its
    /// beginning in UTC), `2026-11-22T01:44:00Z`, or a number of milliseconds.
    ///
    /// # Errors
    /// Returns a refusal for any other text.
    pub(super) fn parse_time(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.find_text(name).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let time = text.parse().ok().or_else(|| softland_ledger::parse_timestamp(text));
        time.map(Some).ok_or_else(|| {
            bad_parameter(&format!(
                "{name} must be a day such as 2026-11-22, a time such as 2026-11-22T01:44:00Z, or \
                 milliseconds since 1970"
            ))
        })
    }

    /// Returns a whole number, or `otherwise` if the parameter is absent.
    ///
    /// # Errors
    /// Returns a refusal for a value that is not within the bounds.
    pub(super) fn parse_number(
        &self,
        name: &str,
        within: RangeInclusive<i64>,
        otherwise: i64,
    ) -> Result<i64, Refusal> {
        let Some(text) = self.find_text(name) else { return Ok(otherwise) };
        let number = text.parse().ok().filter(|number| within.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (within.start(), within.end());
            bad_parameter(&format!("{name} must be a whole number from {least} to {most}"))
        })
    }
}

pub(super) fn bad_parameter(what: &str) -> Refusal {
    page_refusal(StatusCode::BAD_REQUEST, what)
}
