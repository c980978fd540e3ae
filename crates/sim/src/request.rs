//! One HTTP request, as the simulator takes it. What its body says is the protocols' to read.

/// One HTTP request, as the simulator takes it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST`, …
    pub method: &'a str,
    /// Path with or without a query.
    pub path: &'a str,
    /// Header names in any case, with their values.
    pub headers: &'a [(String, String)],
    /// The whole body.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The first header of that name, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The path without its query.
    pub(crate) fn route(&self) -> &'a str {
        self.path.split('?').next().unwrap_or("")
    }
}
