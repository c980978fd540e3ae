//! The result of a server's tool, as text for a model.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::tool::{ToolOutput, cut_line};

/// Returns the result as text. Content that is not text is described.
pub(super) fn result_output(result: &CallToolResult) -> ToolOutput {
    let mut parts: Vec<String> = result.content.iter().map(block_text).collect();
    // The protocol asks for the structured form as text too. Without such a text, the structure is
    // shown.
    if let Some(structured) = result.structured_content.as_ref().filter(|_| parts.is_empty()) {
        parts.push(structured.to_string());
    }
    let content = parts.join("\n");
    if result.is_error == Some(true) {
        let content =
            if content.trim().is_empty() { "the tool failed".to_owned() } else { content };
        return ToolOutput::error(content);
    }
    ToolOutput::ok(content)
}

fn block_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => describe_binary("an image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => describe_binary("a sound", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match &embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {}]\n{text}", cut_line(uri, 400))
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.as_deref().unwrap_or("of unknown type");
                describe_binary(&format!("resource {}", cut_line(uri, 400)), kind, blob)
            }
            _ => "[a resource of a kind that is not known]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.as_deref().map(|about| format!(": {about}"));
            format!(
                "[link to resource {} ({}){}]",
                cut_line(&link.uri, 400),
                cut_line(&link.name, 100),
                cut_line(&about.unwrap_or_default(), 400)
            )
        }
        _ => "[content of a kind that is not known]".to_owned(),
    }
}

/// Describes binary content. `data` is base64, in which four characters stand for three bytes.
fn describe_binary(what: &str, kind: &str, data: &str) -> String {
    let bytes = data.trim_end_matches('=').len() * 3 / 4;
    format!("[{what}, {}, {bytes} bytes, cannot be shown]", cut_line(kind, 100))
}
