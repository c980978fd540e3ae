//! The messages that softland adds behind the governed history within one client request.

use softland_core::models::capability::Nudge;
use softland_core::{Admission, Because, Call, Text, lines};

use crate::framing::{Framing, Json, Who};
use crate::reply::{self, Reply};
use crate::tags;

/// Returns the turn with all of its calls refused. The note stands again in the last one's answer.
pub(crate) fn refusal(by: &dyn Framing, reply: &Reply, because: &Because) -> Vec<Json> {
    let blocks = reply.kept(reply.cut_call());
    let calls: Vec<_> = reply.calls_in(&blocks).filter(|(call, _)| !call.server).collect();
    let last = calls.len().saturating_sub(1);
    let answers = calls.iter().enumerate().map(|(n, (call, _))| {
        let text = if n == last { lines::refused(because) } else { lines::beyond(because) };
        (*call, text)
    });
    answered(by, reply, &blocks, &answers.collect::<Vec<_>>())
}

/// Returns the turn with its calls refused by their tools' own limits.
pub(crate) fn tool_refusal(by: &dyn Framing, reply: &Reply, admissions: &[Admission]) -> Vec<Json> {
    let blocks = reply.kept(reply.cut_call());
    let answers = reply
        .calls_in(&blocks)
        .zip(admissions)
        .filter(|((call, _), _)| !call.server)
        .map(|((call, _), admission)| {
            let text = match admission {
                Admission::ToolRefused(because) => lines::tool_refused(call.name, because.limit),
                Admission::Refused(because) => lines::refused(because),
                Admission::Run | Admission::Server | Admission::Answer => String::new(),
            };
            (call, text)
        });
    answered(by, reply, &blocks, &answers.collect::<Vec<_>>())
}

/// Returns a turn and the answers to its calls. Calls that are written as text come first; their
/// answers are text.
fn answered(
    by: &dyn Framing,
    reply: &Reply,
    blocks: &[reply::Block],
    answers: &[(Call<'_>, String)],
) -> Vec<Json> {
    let mut messages = vec![by.assistant(blocks)];
    let written = reply.written().min(answers.len());
    let (texts, others) = answers.split_at(written);
    if !others.is_empty() || texts.is_empty() {
        messages.push(by.results(others));
    }
    if !texts.is_empty() {
        let texts = texts.iter().map(|(call, text)| (call.name, text.as_str()));
        messages.push(by.said(Who::User, &tags::results_text(texts)));
    }
    messages
}

/// Returns the messages behind an empty turn, which tell the model to go on in a way that is not
/// the cause again.
pub(crate) fn nudge(by: &dyn Framing, reply: &Reply, form: Nudge) -> Vec<Json> {
    match form {
        Nudge::MidSystem => vec![by.said(Who::System, lines::NUDGE)],
        Nudge::BareUser => vec![by.said(Who::User, lines::NUDGE)],
        Nudge::Pair => {
            let mut blocks = reply.kept(false).into_owned();
            blocks.retain(reply::Block::is_thinking);
            blocks.push(by.text(lines::NO_ANSWER));
            vec![by.assistant(&blocks), by.said(Who::User, lines::NUDGE)]
        }
    }
}

/// Returns the messages behind a request that was given up because a limit was reached meanwhile.
pub(crate) fn expired(by: &dyn Framing, because: &Because) -> Vec<Json> {
    vec![by.said(Who::Assistant, lines::NO_ANSWER), by.said(Who::User, &lines::ask(because))]
}

/// Returns the messages behind a truncated turn. There are none without anything visible to keep:
/// the request is then sent as it was.
pub(crate) fn go_on(by: &dyn Framing, reply: &Reply) -> Vec<Json> {
    let blocks = reply.kept(reply.cut_call());
    if Text::shows_nothing(&reply::text(&blocks)) {
        return Vec::new();
    }
    vec![by.assistant(&blocks), by.said(Who::User, lines::CONTINUE)]
}
