//! Any bytes as a request body of a protocol: without edits it is itself; with every edit made, the
//! result is a request again, which says what was edited in and else what it said before.

use softland_wire::{
    Api, Splice,
    request::{BlockKind, Content, Message, Request, ResultContent, Role, ToolChoiceKind},
};

const LINE: &str = "3 tool calls remaining \"\\\n\u{1F6EC}";

/// The whole input is the body.
pub(crate) fn run(api: Api, data: &[u8]) {
    let Ok(request) = Request::from_body(api, data) else { return };
    assert_eq!(Splice::new().apply(data).unwrap(), data);
    let (splice, results) = every_edit(&request);
    let edited = splice.apply(data).unwrap();
    let again = Request::from_body(api, &edited).expect("an edited request is a request");

    assert_eq!((again.model, again.stream), (request.model, request.stream));
    assert_eq!(again.tools.map(|t| t.list.len()), request.tools.map(|t| t.list.len()));
    assert_eq!(again.tool_choice.unwrap().kind, ToolChoiceKind::None);
    assert_eq!(again.max_tokens.unwrap().value, 77);
    let asked = again.stream_options.and_then(|options| options.include_usage);
    assert_eq!(asked.is_some_and(|asked| asked.value), api == Api::Chat);
    let (before, after) = (&request.messages.list, &again.messages.list);
    assert_eq!(after.len(), before.len() + 2);
    for (before, after) in before.iter().zip(after) {
        assert_eq!(after.role, before.role);
        assert_eq!(ends_in_line(after), takes_text(before), "{after:?}");
    }
    assert_eq!(after.iter().map(lines_in_results).sum::<usize>(), results);
}

/// Makes every possible edit. Returns the number of results that accept a line.
fn every_edit(request: &Request<'_>) -> (Splice, usize) {
    let (mut splice, mut results) = (Splice::new(), 0);
    splice.append_messages(request, &[r#"{"role":"user","content":"on"}"#; 2]);
    let none = if request.api == Api::Anthropic { r#"{"type":"none"}"# } else { r#""none""# };
    splice.set_tool_choice(request, none);
    splice.set_max_tokens(request, 77);
    if request.api == Api::Chat {
        splice.request_stream_usage(request.text, request.span, request.stream_options);
    }
    for message in &request.messages.list {
        splice.append_to_message(request.api, message, LINE);
        if let Content::Blocks { blocks, .. } = &message.content {
            let added = blocks.iter().filter(|b| splice.append_to_result(request.api, b, LINE));
            results += added.count();
        }
    }
    (splice, results)
}

/// Returns true if a text can be added to the message: to its string, its list or its content.
fn takes_text(message: &Message<'_>) -> bool {
    match &message.content {
        Content::Text(..) => true,
        Content::Blocks { span, .. } if *span != message.span => true,
        Content::Blocks { blocks, .. } => match blocks.last() {
            Some(last) => matches!(last.kind, BlockKind::Text { .. }),
            None => message.role != Role::System,
        },
    }
}

fn ends_in_line(message: &Message<'_>) -> bool {
    match &message.content {
        Content::Text(text, _) => text.unescape().ends_with(LINE),
        Content::Blocks { blocks, .. } => blocks.last().is_some_and(|last| match last.kind {
            BlockKind::Text { text, .. } => text.unescape().ends_with(LINE),
            _ => false,
        }),
    }
}

fn lines_in_results(message: &Message<'_>) -> usize {
    let Content::Blocks { blocks, .. } = &message.content else { return 0 };
    let ended = blocks.iter().filter(|block| {
        let BlockKind::ToolResult(result) = &block.kind else { return false };
        match &result.content {
            ResultContent::Text(text, _) => text.unescape().ends_with(LINE),
            ResultContent::Parts { parts, .. } => {
                let last = parts.iter().rev().find_map(|part| part.text);
                last.is_some_and(|(text, _)| text.unescape().ends_with(LINE))
            }
            ResultContent::Absent(_) | ResultContent::Opaque(_) => false,
        }
    });
    ended.count()
}
