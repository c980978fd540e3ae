//! The texts in which clients write calls and results into a history, although the model itself
//! calls tools by its API.

use super::starts_ignoring_case;

/// The texts of one client's flattened histories.
#[derive(Clone, Copy, Debug)]
pub struct FlatFormat {
    /// The line behind which a turn's calls stand, as a list.
    pub calls: &'static str,
    /// The line before results that names a call and is no part of the result.
    pub id: &'static str,
    /// The beginning of results.
    pub result: &'static str,
    /// The beginning of errors.
    pub error: &'static str,
    /// The line behind which a person's words stand in the message of results.
    pub asks: &'static str,
    /// The client.
    #[cfg_attr(not(test), expect(dead_code, reason = "kept beside its row; tests read it"))]
    pub(super) source: &'static str,
}

/// Clients that flatten their histories.
pub static FLAT: &[FlatFormat] = &[FlatFormat {
    calls: "Calling tools:\n",
    id: "Call id: ",
    result: "Observation:\n",
    error: "Error:\n",
    asks: "\nNew task:\n",
    source: "smolagents, memory.py ActionStep.to_messages",
}];

/// A message of results, written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlatResult<'t> {
    /// The results.
    pub text: &'t str,
    /// True if the results report an error.
    pub failed: bool,
    /// The words of a person behind them.
    pub said: Option<&'t str>,
}

impl FlatFormat {
    /// Parses a text of results; `None` for any other text.
    #[must_use]
    pub fn parse_results<'t>(&self, text: &'t str) -> Option<FlatResult<'t>> {
        let named = starts_ignoring_case(text, self.id).then(|| text.split_once('\n')).flatten();
        let (_, text) = named.unwrap_or(("", text));
        let failed = text.starts_with(self.error);
        let opening = if failed { self.error } else { self.result };
        let text = text.strip_prefix(opening)?;
        let (text, said) = match text.rsplit_once(self.asks) {
            Some((text, said)) => (text, Some(said)),
            None => (text, None),
        };
        Some(FlatResult { text, failed, said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_by_their_opening() {
        let [flat] = FLAT else { panic!("one row") };
        assert!(!flat.source.is_empty());
        let result = |text, failed, said| Some(FlatResult { text, failed, said });
        assert_eq!(flat.parse_results("Observation:\n1"), result("1", false, None));
        assert_eq!(
            flat.parse_results("Call id: c\nError:\nno\nNow"),
            result("no\nNow", true, None)
        );
        let text = "Observation:\n1\nNew task:\nWhat else?";
        assert_eq!(flat.parse_results(text), result("1", false, Some("What else?")));
        for text in ["", "Observation: I see", "What is an Observation:\n?", "Call id: c"] {
            assert_eq!(flat.parse_results(text), None, "{text}");
        }
    }
}
