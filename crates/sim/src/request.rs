//! The HTTP requests of the simulator. Protocols read their bodies.

/// One HTTP request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// The path, with or without a query.
    pub path: &'a str,
    /// The headers, with names in any case.
    pub headers: &'a [(String, String)],
    /// The whole body.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns the value of the first header with this name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Returns the path without its query.
    pub(crate) fn route(&self) -> &'a str {
        self.path.split('?').next().unwrap_or("")
    }
}
