//! Trajectories of SWE-agent: one document. A step is a response, its action and the observation.
//! Demonstrations hold a history alone.

use softland_session::ResultReader;

use crate::draft::{Results, TurnDraft};
use crate::fields::{Fields, with_str};
use crate::input::{Input, JsonError};
use crate::messages::{Conversation, command_call, read_message};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = read_document(input, out) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
}

fn read_document(input: &mut Input<'_>, out: &mut StepOutput<'_>) -> Result<(), JsonError> {
    let line = input.line_number();
    let head = crate::kind::preview_objects(input.peek_bytes(1 << 20), 1);
    let session = head.first().and_then(|seen| seen.short_string("environment"));
    let begin = ConversationStart {
        session: session.as_deref(),
        line: Some(line),
        ..ConversationStart::default()
    };
    let mut talk = None;
    let read = input.take_object(&mut |input, key| match key {
        "trajectory" if talk.is_none() && input.peek() == Some(b'[') => {
            let talk = *talk.insert(out.begin_conversation(&begin));
            let task = MessageFacts { line: Some(line), ..MessageFacts::default() };
            out.send_texts(talk, &["the task"], task);
            read_steps(input, out, talk)
        }
        "history" if talk.is_none() && input.peek() == Some(b'[') => {
            let talk = *talk.insert(out.begin_conversation(&begin));
            let mut conversation = Conversation::new(talk, None);
            let read = input.take_array(&mut |input| read_message(input, out, &mut conversation));
            conversation.flush(out);
            read
        }
        _ => Ok(()),
    });
    if let Some(talk) = talk {
        out.end_conversation(talk);
    }
    read
}

fn read_steps(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    talk: ConversationId,
) -> Result<(), JsonError> {
    let mut count = 0_u64;
    input.take_array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take_value()? else {
            out.list_unreadable(Some(line), "a step is longer than 64 MiB");
            return Ok(());
        };
        out.list_mended(&piece);
        count += 1;
        match Fields::from_json(&piece.text) {
            Ok(fields) => read_step(out, talk, &fields, count, piece.line),
            Err(reason) => out.list_unreadable(Some(piece.line), reason),
        }
        Ok(())
    })
}

fn read_step(
    out: &mut StepOutput<'_>,
    talk: ConversationId,
    fields: &Fields<'_>,
    count: u64,
    line: u64,
) {
    let mut draft = TurnDraft { line: Some(line), ..TurnDraft::default() };
    if let Some(text) = fields.str("response") {
        draft.add_text(text);
    }
    let action = fields.text("action").unwrap_or_default();
    let id = format!("call_{count}");
    let called = !action.trim().is_empty();
    if called {
        draft.calls.push(command_call(id.clone(), "bash", action.trim_end_matches('\n')));
    }
    draft.submits = action.split_whitespace().next() == Some("submit");
    draft.emit_turn(out, talk);
    let observed = fields.text("observation");
    if !called || observed.is_none() {
        return;
    }
    let mut read = ResultReader::default();
    with_str(&observed.unwrap_or_default(), |text| read.add_text(text));
    let mut results = Results { line: Some(line), ..Results::default() };
    results.list.push((id, read.to_facts()));
    results.emit_results(out, talk);
}
