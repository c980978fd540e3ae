//! Expands `${VAR}` and `${VAR:-else}` in a text of the file, like Claude Code (its MCP page,
//! "Environment variable expansion in .mcp.json"). Other dollar signs stand for themselves.

/// Returns the text with the values of its variables.
///
/// # Errors
/// Returns an error for a variable that is not set and has no `:-`.
pub(super) fn expand_variables(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        expanded.push_str(before);
        let named = behind.split_once('}').map(|(inner, after)| {
            let (name, or) = match inner.split_once(":-") {
                Some((name, or)) => (name, Some(or)),
                None => (inner, None),
            };
            (name, or, after)
        });
        let Some((name, or, after)) = named.filter(|(name, ..)| is_variable(name)) else {
            expanded.push_str("${");
            rest = behind;
            continue;
        };
        match (env(name), or) {
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(or)) => expanded.push_str(or),
            (None, None) => {
                return Err(format!(
                    "the variable {name} is not set; set it, or write ${{{name}:-VALUE}}"
                ));
            }
        }
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
