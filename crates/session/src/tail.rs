//! The messages that softland adds behind the governed history within one client request.

use softland_core::models::capability::NudgeForm;
use softland_core::{Admission, Because, Call, VisibleText, lines};

use crate::framing::{JsonBytes, MessageWriter, Speaker};
use crate::reply::{self, Reply};
use crate::tags;

/// Returns the turn with all of its calls refused. The note stands again in the last one's answer.
pub(crate) fn refusal_messages(
    by: &dyn MessageWriter,
    reply: &Reply,
    because: &Because,
) -> Vec<JsonBytes> {
    let blocks = reply.kept_blocks(reply.has_cut_call());
    let calls: Vec<_> = reply.calls_in(&blocks).filter(|(call, _)| !call.server).collect();
    let last = calls.len().saturating_sub(1);
    let answers = calls.iter().enumerate().map(|(n, (call, _))| {
        let text =
            if n == last { lines::format_refusal(because) } else { lines::format_not_run(because) };
        (*call, text)
    });
    answered_turn(by, reply, &blocks, &answers.collect::<Vec<_>>())
}

/// Returns the turn with its calls refused by their tools' own limits.
pub(crate) fn tool_refusal_messages(
    by: &dyn MessageWriter,
    reply: &Reply,
    admissions: &[Admission],
) -> Vec<JsonBytes> {
    let blocks = reply.kept_blocks(reply.has_cut_call());
    let answers =
        reply.calls_in(&blocks).zip(admissions).filter(|((call, _), _)| !call.server).map(
            |((call, _), admission)| {
                let text = match admission {
                    Admission::ToolRefused(because) => {
                        lines::format_tool_refusal(call.name, because.limit)
                    }
                    Admission::Refused(because) => lines::format_refusal(because),
                    Admission::Run | Admission::Server | Admission::Answer => String::new(),
                };
                (call, text)
            },
        );
    answered_turn(by, reply, &blocks, &answers.collect::<Vec<_>>())
}

/// Returns a turn and the answers to its calls. Calls that are written as text come first; their
/// answers are text.
fn answered_turn(
    by: &dyn MessageWriter,
    reply: &Reply,
    blocks: &[reply::Block],
    answers: &[(Call<'_>, String)],
) -> Vec<JsonBytes> {
    let mut messages = vec![by.assistant_message(blocks)];
    let written = reply.text_call_count().min(answers.len());
    let (texts, others) = answers.split_at(written);
    if !others.is_empty() || texts.is_empty() {
        messages.push(by.result_messages(others));
    }
    if !texts.is_empty() {
        let texts = texts.iter().map(|(call, text)| (call.name, text.as_str()));
        messages.push(by.text_message(Speaker::User, &tags::results_text(texts)));
    }
    messages
}

/// Returns the messages behind an empty turn, which tell the model to go on in a way that is not
/// the cause again.
pub(crate) fn nudge_messages(
    by: &dyn MessageWriter,
    reply: &Reply,
    form: NudgeForm,
) -> Vec<JsonBytes> {
    match form {
        NudgeForm::MidSystem => vec![by.text_message(Speaker::System, lines::NUDGE)],
        NudgeForm::BareUser => vec![by.text_message(Speaker::User, lines::NUDGE)],
        NudgeForm::Pair => {
            let mut blocks = reply.kept_blocks(false).into_owned();
            blocks.retain(reply::Block::is_thinking);
            blocks.push((by.form().text_block)(lines::NO_ANSWER));
            vec![by.assistant_message(&blocks), by.text_message(Speaker::User, lines::NUDGE)]
        }
    }
}

/// Returns the messages behind a request that was given up because a limit was reached meanwhile.
pub(crate) fn expiry_messages(by: &dyn MessageWriter, because: &Because) -> Vec<JsonBytes> {
    vec![
        by.text_message(Speaker::Assistant, lines::NO_ANSWER),
        by.text_message(Speaker::User, &lines::format_ask(because)),
    ]
}

/// Returns the messages behind a truncated turn. There are none without anything visible to keep:
/// the request is then sent as it was.
pub(crate) fn continuation_messages(by: &dyn MessageWriter, reply: &Reply) -> Vec<JsonBytes> {
    let blocks = reply.kept_blocks(reply.has_cut_call());
    if VisibleText::is_invisible_text(&reply::joined_text(&blocks)) {
        return Vec::new();
    }
    vec![by.assistant_message(&blocks), by.text_message(Speaker::User, lines::CONTINUE)]
}
