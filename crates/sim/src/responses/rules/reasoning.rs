//! Rules for reasoning items: unmodified, together with the items they belong to.

use super::items::item_not_stored;
use crate::constraints::ThinkingPresence;
use crate::history::Role;
use crate::json::Json;
use crate::models::open::{Dialect, OpenModel};
use crate::openai::{
    IssuedId, OpenAiRefusal, OpenAiResult, SealStatus, Sealer, ensure, refuse_with,
};
use crate::responses::request::ItemKind;
use crate::responses::store::Store;
use std::collections::BTreeSet;

pub(super) struct ReasoningCheck<'a> {
    pub(super) model: &'a OpenModel,
    pub(super) store: &'a Store,
    pub(super) seal: Sealer,
    pub(super) accept_foreign: bool,
    pub(super) thinking: ThinkingPresence,
}

impl ReasoningCheck<'_> {
    pub(super) fn check_all(&self, items: &[Json]) -> OpenAiResult {
        if self.model.dialect == Dialect::DeepSeek {
            return self.check_deepseek(items);
        }
        let mut given: BTreeSet<(u64, usize)> = BTreeSet::new();
        for (i, item) in items.iter().enumerate() {
            let kind = ItemKind::from_item(item);
            let id = item.str_at("id").unwrap_or("");
            let issued = IssuedId::from_id(id);
            if kind == ItemKind::Reasoning {
                self.check_unmodified(item, id)?;
                let follows = items.get(i + 1).map(ItemKind::from_item);
                let fine = follows.is_some_and(|k| k.is_model() || k == ItemKind::Made);
                ensure(fine, || reasoning_alone(id))?;
                given.extend(issued.map(|issued| (issued.number, issued.index)));
            } else if let Some(issued) = issued
                && let Some(index) = issued.reasoning
            {
                let there = given.contains(&(issued.number, index));
                ensure(there, || reasoning_missing(item, id, issued, index))?;
            }
        }
        Ok(())
    }

    fn check_unmodified(&self, item: &Json, id: &str) -> OpenAiResult {
        let Some(sealed) = item.str_at("encrypted_content") else {
            let kept = self.accept_foreign || id.is_empty() || self.store.find_item(id).is_some();
            return ensure(kept, || item_not_stored(id));
        };
        let fine = match self.seal.verify_token(sealed, "") {
            SealStatus::Good => true,
            SealStatus::Changed => false,
            SealStatus::Foreign => self.accept_foreign,
        };
        ensure(fine, || {
            let text = format!(
                "The encrypted content for item {id} could not be verified. Reason: Encrypted \
                 content could not be decrypted or parsed."
            );
            OpenAiRefusal::bad_request(text).with_code("invalid_encrypted_content")
        })
    }

    /// In thinking mode, every round of calls must have its plain reasoning before it.
    fn check_deepseek(&self, items: &[Json]) -> OpenAiResult {
        if self.thinking == ThinkingPresence::Off {
            return Ok(());
        }
        let mut reasoned = false;
        for item in items {
            match ItemKind::from_item(item) {
                ItemKind::Reasoning => {
                    let content = item.get("content").map_or(&[][..], Json::items);
                    reasoned = content.iter().any(|c| c.str_at("type") == Some("reasoning_text"));
                }
                ItemKind::Call if !reasoned => {
                    return refuse_with(
                        "The `reasoning_text` in the thinking mode must be passed back to \
                                the API.",
                    );
                }
                // The model's text before its calls belongs to the same turn.
                ItemKind::Output | ItemKind::Message(Role::User | Role::System) => reasoned = false,
                _ => {}
            }
        }
        Ok(())
    }
}

fn reasoning_alone(id: &str) -> OpenAiRefusal {
    let text = format!(
        "Item '{id}' of type 'reasoning' was provided without its required following item."
    );
    OpenAiRefusal::bad_request(text).with_param("input")
}

fn reasoning_missing(item: &Json, id: &str, issued: IssuedId, index: usize) -> OpenAiRefusal {
    let kind = item.str_at("type").unwrap_or("message");
    let needs = IssuedId { reasoning: None, index, ..issued }.id_with("rs");
    let text = format!(
        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item: \
         '{needs}'."
    );
    OpenAiRefusal::bad_request(text).with_param("input")
}
