//! Any bytes as a request body: without edits it is itself; with every edit made, the result is a
//! request again, which says what was edited in and else what it said before.

use softland_wire::anthropic::{
    BlockKind, Content, Request, RequestMessage, ResultContent, ToolChoiceKind,
};
use softland_wire::{Api, Splice};

const LINE: &str = "3 tool calls remaining \"\\\n\u{1F6EC}";

/// The whole input is the body.
pub(crate) fn run(data: &[u8]) {
    let Ok(request) = Request::scan(data) else { return };
    assert_eq!(Splice::new().apply(data).unwrap(), data);

    let mut splice = Splice::new();
    splice.set_tool_choice(&request, r#"{"type":"none"}"#);
    splice.set_max_tokens(&request, 77);
    let mut results = 0;
    for message in &request.messages.list {
        splice.append_to_message(Api::Anthropic, message, LINE);
        if let Content::Blocks { blocks, .. } = &message.content {
            results +=
                blocks.iter().filter(|b| splice.append_to_result(Api::Anthropic, b, LINE)).count();
        }
    }
    splice.append_messages(&request, &[r#"{"role":"user","content":"on"}"#; 2]);

    let edited = splice.apply(data).unwrap();
    let again = Request::scan(&edited).expect("an edited request is a request");
    assert_eq!(again.model, request.model);
    assert_eq!(again.tools.map(|t| t.list.len()), request.tools.map(|t| t.list.len()));
    assert_eq!(again.tool_choice.unwrap().kind, ToolChoiceKind::None);
    assert_eq!(again.max_tokens.unwrap().value, 77);
    assert_eq!(again.messages.list.len(), request.messages.list.len() + 2);
    for message in &again.messages.list[..request.messages.list.len()] {
        ends_in_line(message);
        results -= lines_in_results(message);
    }
    assert_eq!(results, 0);
}

fn ends_in_line(message: &RequestMessage<'_>) {
    let text = match &message.content {
        Content::Text(text, _) => text.unescape(),
        Content::Blocks { blocks, .. } => match &blocks.last().unwrap().kind {
            BlockKind::Text { text, .. } => text.unescape(),
            other => panic!("{other:?}"),
        },
    };
    assert!(text.ends_with(LINE), "{text}");
}

fn lines_in_results(message: &RequestMessage<'_>) -> usize {
    let Content::Blocks { blocks, .. } = &message.content else { return 0 };
    let ended = blocks.iter().filter(|block| {
        let BlockKind::ToolResult(result) = &block.kind else { return false };
        match &result.content {
            ResultContent::Text(text, _) => text.unescape().ends_with(LINE),
            ResultContent::Parts { parts, .. } => {
                let last = parts.iter().rev().find_map(|part| part.text);
                last.is_some_and(|(text, _)| text.unescape().ends_with(LINE))
            }
            ResultContent::Absent(_) | ResultContent::Opaque => false,
        }
    });
    ended.count()
}
