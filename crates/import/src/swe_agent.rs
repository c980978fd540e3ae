//! Trajectories of SWE-agent: one document. A step is a response, its action and the observation.
//! Demonstrations hold a history alone.

use softland_session::ResultRead;

use crate::draft::{Draft, Results};
use crate::fields::{Fields, with_str};
use crate::input::{Broken, Input};
use crate::messages::{Conversation, command, message};
use crate::out::{Out, Said};
use crate::step::{Begin, Talk};

pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>) {
    while input.peek().is_some() {
        if let Err(broken) = document(input, out) {
            out.broken(input, &broken);
            input.pass_line();
        }
    }
}

fn document(input: &mut Input<'_>, out: &mut Out<'_>) -> Result<(), Broken> {
    let line = input.line_number();
    let head = crate::kind::objects(input.ahead(1 << 20), 1);
    let session = head.first().and_then(|seen| seen.string("environment"));
    let begin = Begin { session: session.as_deref(), line: Some(line), ..Begin::default() };
    let mut talk = None;
    let read = input.object(&mut |input, key| match key {
        "trajectory" if talk.is_none() && input.peek() == Some(b'[') => {
            let talk = *talk.insert(out.begin(&begin));
            let task = Said { line: Some(line), ..Said::default() };
            out.texts(talk, &["the task"], task);
            steps(input, out, talk)
        }
        "history" if talk.is_none() && input.peek() == Some(b'[') => {
            let talk = *talk.insert(out.begin(&begin));
            let mut conversation = Conversation::new(talk, None);
            let read = input.array(&mut |input| message(input, out, &mut conversation));
            conversation.flush(out);
            read
        }
        _ => Ok(()),
    });
    if let Some(talk) = talk {
        out.end(talk);
    }
    read
}

fn steps(input: &mut Input<'_>, out: &mut Out<'_>, talk: Talk) -> Result<(), Broken> {
    let mut count = 0_u64;
    input.array(&mut |input| {
        let line = input.line_number();
        let Some(piece) = input.take()? else {
            out.unreadable(Some(line), "a step is longer than 64 MiB");
            return Ok(());
        };
        out.mended(&piece);
        count += 1;
        match Fields::of(&piece.text) {
            Ok(fields) => step(out, talk, &fields, count, piece.line),
            Err(reason) => out.unreadable(Some(piece.line), reason),
        }
        Ok(())
    })
}

fn step(out: &mut Out<'_>, talk: Talk, fields: &Fields<'_>, count: u64, line: u64) {
    let mut draft = Draft { line: Some(line), ..Draft::default() };
    if let Some(text) = fields.str("response") {
        draft.text(text);
    }
    let action = fields.text("action").unwrap_or_default();
    let id = format!("call_{count}");
    let called = !action.trim().is_empty();
    if called {
        draft.calls.push(command(id.clone(), "bash", action.trim_end_matches('\n')));
    }
    draft.submits = action.split_whitespace().next() == Some("submit");
    draft.give(out, talk);
    let observed = fields.text("observation");
    if !called || observed.is_none() {
        return;
    }
    let mut read = ResultRead::default();
    with_str(&observed.unwrap_or_default(), |text| read.text(text));
    let mut results = Results { line: Some(line), ..Results::default() };
    results.list.push((id, read.facts()));
    results.give(out, talk);
}
