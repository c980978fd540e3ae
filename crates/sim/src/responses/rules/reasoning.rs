//! Rules for reasoning items: unmodified, together with the items they belong to.

use super::items::not_kept;
use crate::history::Role;
use crate::json::Json;
use crate::laws::Thinks;
use crate::models::open::{Dialect, OpenModel};
use crate::openai::{Checked, Found, Issued, Refusal, Seal, bad, ensure};
use crate::responses::request::Kind;
use crate::responses::store::Store;
use std::collections::BTreeSet;

pub(super) struct Check<'a> {
    pub(super) model: &'a OpenModel,
    pub(super) store: &'a Store,
    pub(super) seal: Seal,
    pub(super) accept_foreign: bool,
    pub(super) thinking: Thinks,
}

impl Check<'_> {
    pub(super) fn all(&self, items: &[Json]) -> Checked {
        if self.model.dialect == Dialect::DeepSeek {
            return self.deepseek(items);
        }
        let mut given: BTreeSet<(u64, usize)> = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let kind = Kind::of(item);
            let id = item.str_at("id").unwrap_or("");
            let issued = Issued::read(id);
            if kind == Kind::Reasoning {
                self.unmodified(item, id)?;
                let follows = items.get(i + 1).map(Kind::of);
                let fine = follows.is_some_and(|k| k.is_model() || k == Kind::Made);
                ensure(fine, || alone(id))?;
                given.extend(issued.map(|issued| (issued.number, issued.index)));
            } else if let Some(issued) = issued
                && let Some(index) = issued.reasoning
            {
                let there = given.contains(&(issued.number, index));
                ensure(there, || without(item, id, issued, index))?;
            }
        }
        Ok(())
    }

    fn unmodified(&self, item: &Json, id: &str) -> Checked {
        let Some(sealed) = item.str_at("encrypted_content") else {
            let kept = self.accept_foreign || id.is_empty() || self.store.item(id).is_some();
            return ensure(kept, || not_kept(id));
        };
        let fine = match self.seal.verify(sealed, "") {
            Found::Good => true,
            Found::Changed => false,
            Found::Foreign => self.accept_foreign,
        };
        ensure(fine, || {
            let text = format!(
                "The encrypted content for item {id} could not be verified. Reason: Encrypted \
                 content could not be decrypted or parsed."
            );
            Refusal::bad(text).code("invalid_encrypted_content")
        })
    }

    /// In thinking mode, every round of calls must have its plain reasoning before it.
    fn deepseek(&self, items: &[Json]) -> Checked {
        if self.thinking == Thinks::Off {
            return Ok(());
        }
        let mut reasoned = false;
        for item in items {
            match Kind::of(item) {
                Kind::Reasoning => {
                    let content = item.get("content").map_or(&[][..], Json::items);
                    reasoned = content.iter().any(|c| c.str_at("type") == Some("reasoning_text"));
                }
                Kind::Call if !reasoned => {
                    return bad(
                        "The `reasoning_text` in the thinking mode must be passed back to \
                                the API.",
                    );
                }
                // The model's text before its calls belongs to the same turn.
                Kind::Output | Kind::Message(Role::User | Role::System) => reasoned = false,
                _ => {}
            }
        }
        Ok(())
    }
}

fn alone(id: &str) -> Refusal {
    let text = format!(
        "Item '{id}' of type 'reasoning' was provided without its required following item."
    );
    Refusal::bad(text).at("input")
}

fn without(item: &Json, id: &str, issued: Issued, index: usize) -> Refusal {
    let kind = item.str_at("type").unwrap_or("message");
    let needs = Issued { reasoning: None, index, ..issued }.id("rs");
    let text = format!(
        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: \
         '{needs}'."
    );
    Refusal::bad(text).at("input")
}
