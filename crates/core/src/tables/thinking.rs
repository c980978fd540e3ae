//! Thinking that models write as text, within tags, where nothing between them and the client takes
//! it out.

/// The tags around thinking, without regard to case. Sources: the reasoning parsers of vLLM
/// (`vllm/reasoning`) and SGLang (`srt/parser/reasoning_parser.py`), and the reasoning tags that
/// Open WebUI knows (`utils/middleware.py`).
const TAGS: [(&str, &str); 16] = [
    // DeepSeek, Qwen, GLM, MiniMax, Kimi K2, Granite and most others.
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    // EXAONE, and Gemini behind its layer for OpenAI's API.
    ("<thought>", "</thought>"),
    ("<reason>", "</reason>"),
    ("<reasoning>", "</reasoning>"),
    // Seed-OSS.
    ("<seed:think>", "</seed:think>"),
    // MiniMax M3.
    ("<mm:think>", "</mm:think>"),
    // Magistral and later models of Mistral.
    ("[THINK]", "[/THINK]"),
    // The first Kimi that thinks, and K3.
    ("\u{25c1}think\u{25b7}", "\u{25c1}/think\u{25b7}"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    // gpt-oss.
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|>"),
    // Gemma 4.
    ("<|channel>thought", "<channel|>"),
    // Command A.
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    // Apertus.
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    // Sky-T1, OpenThinker.
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
];

/// Tags that end a thinking which has no beginning in the text: the templates of these models begin
/// it in the prompt (DeepSeek R1, Seed-OSS, MiniMax).
const PROMPTED: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("<mm:think>", "</mm:think>")];

/// Returns a text without the thinking that it opens with. `invisible` tells characters that show
/// nothing.
pub(crate) fn without_thinking(text: &str, invisible: fn(char) -> bool) -> &str {
    let mut rest = text;
    loop {
        let from = rest.trim_start_matches(invisible);
        let Some((open, close)) = TAGS.iter().find(|(open, _)| starts_with_tag(from, open)) else {
            break;
        };
        let within = from.get(open.len()..).unwrap_or_default();
        let end = find_tag(within, close).map(|at| at + close.len());
        rest = end.and_then(|end| within.get(end..)).unwrap_or_default();
    }
    if is_ended_thinking(rest.trim_end_matches(invisible)) { "" } else { rest }
}

/// Returns true if a text with these ends may hold thinking.
pub(crate) fn may_hold_thinking(head: &str, tail: &str) -> bool {
    TAGS.iter().any(|(open, _)| starts_with_tag(head, open))
        || PROMPTED.iter().any(|(_, close)| strip_end_tag(tail, close).is_some())
}

/// Returns true if a text does nothing but end a thinking that began before it: the tag stands on
/// the last line alone, and nothing opens it. An answer that speaks of the tag has it in a line, or
/// shows both.
fn is_ended_thinking(text: &str) -> bool {
    PROMPTED.iter().any(|(open, close)| {
        strip_end_tag(text, close).is_some_and(|before| {
            let line = before.trim_end_matches([' ', '\t']);
            (line.is_empty() || line.ends_with('\n')) && find_tag(before, open).is_none()
        })
    })
}

fn strip_end_tag<'t>(text: &'t str, tag: &str) -> Option<&'t str> {
    let (before, end) = text.split_at_checked(text.len().checked_sub(tag.len())?)?;
    end.eq_ignore_ascii_case(tag).then_some(before)
}

fn starts_with_tag(text: &str, tag: &str) -> bool {
    text.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag))
}

/// Returns the place of a tag in a text.
fn find_tag(text: &str, tag: &str) -> Option<usize> {
    let first = tag.chars().next()?;
    let mut places = text.match_indices(first).map(|(at, _)| at);
    places.find(|at| text.get(*at..).is_some_and(|from| starts_with_tag(from, tag)))
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;

    use super::*;

    fn said(text: &str) -> &str {
        without_thinking(text, char::is_whitespace)
    }

    #[test]
    fn c164_thinking_in_any_tags_is_no_answer() {
        for (open, close) in TAGS {
            for thought in ["hm", "", "a\n\nb", "it is 4"] {
                for (text, rest) in [
                    (format!("{open}{thought}{close}"), ""),
                    (format!(" \n{open}{thought}{close}\n\n"), "\n\n"),
                    (format!("{open}{thought}"), ""),
                    (format!("{open}{thought}{close}{open}{thought}{close}"), ""),
                    (format!("{open}{thought}{close}It is 4."), "It is 4."),
                    (format!("{open}{thought}{close}<answer>4</answer>"), "<answer>4</answer>"),
                ] {
                    assert_eq!(said(&text), rest, "{text}");
                    let upper = text.to_ascii_uppercase();
                    assert_eq!(said(&upper), rest.to_ascii_uppercase(), "{upper}");
                }
            }
        }
    }

    #[test]
    fn c164_an_answer_that_speaks_of_a_tag_is_one() {
        for (open, close) in TAGS {
            for text in [
                format!("`{open}` opens a thought, and `{close}` ends it."),
                format!("The model writes {open}hm{close}"),
                format!("Write it so:\n{open}\nhm\n{close}"),
                format!("End it with {close}"),
                format!("It is 4.\n{close}\nThat is all."),
                format!("\"{open}hm{close}\" is what it wrote."),
                format!("```\n{open}hm{close}\n```"),
                open.get(..open.len() - 1).unwrap_or("x").to_owned(),
            ] {
                assert_eq!(said(&text), text);
            }
        }
        for text in ["It is 4.\n<|end|>", "<thoughts>", "[THINKING]", "<b>4</b>", "<reasons>x"] {
            assert_eq!(said(text), text);
        }
    }

    #[test]
    fn c164_a_thinking_that_began_in_the_prompt_is_no_answer() {
        for (_, close) in PROMPTED {
            for text in [
                format!("I look at it.\n{close}\n\n"),
                format!("a\n\nb\n {close}"),
                close.to_owned(),
            ] {
                assert_eq!(said(&text), "", "{text}");
            }
            let answered = format!("I look at it.\n{close}\n\nIt is 4.");
            assert_eq!(said(&answered), answered);
        }
    }
}
