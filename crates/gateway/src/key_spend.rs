//! The counter of what each key has spent.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use softland_govern::ClientKey;
use softland_session::core::NanoUsd;

use crate::dollars::DollarCounter;

/// The number of keys with a label of their own. Reloads with ever new keys add no further ones.
const MOST: usize = 1_000;

/// The label of the keys beyond that number.
const OTHERS: &str = "(others)";

type SpendFamily = Family<KeyLabels, DollarCounter>;

/// What each key has spent, in dollars.
#[derive(Debug, Default)]
pub(crate) struct KeySpend {
    /// The counters, for the registry.
    pub(crate) family: SpendFamily,
    known: Mutex<HashSet<Arc<str>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KeyLabels {
    key: Arc<str>,
    account: Arc<str>,
}

impl KeySpend {
    /// Adds what a request of this key has cost.
    pub(crate) fn add_spend(&self, key: &ClientKey, amount: NanoUsd) {
        let labels = if self.has_label(&key.name) {
            let account = key.account.clone().unwrap_or_default();
            KeyLabels { key: Arc::clone(&key.name), account }
        } else {
            KeyLabels { key: OTHERS.into(), account: Arc::default() }
        };
        self.family.get_or_create(&labels).add_amount(amount);
    }

    fn has_label(&self, name: &Arc<str>) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(name) || known.len() < MOST && known.insert(Arc::clone(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_grow_without_end() {
        let spend = KeySpend::default();
        let key = |n: usize| ClientKey { name: format!("k{n}").into(), ..ClientKey::default() };
        for n in 0..MOST + 5 {
            spend.add_spend(&key(n), NanoUsd(1_000_000_000));
        }
        let value = |name: &str| {
            let labels = KeyLabels { key: name.into(), account: Arc::default() };
            spend.family.get_or_create(&labels).sum().to_dollars()
        };
        assert_eq!((value("k0"), value(OTHERS)), (1.0, 5.0));
        spend.add_spend(&key(0), NanoUsd(1_000_000_000));
        assert_eq!(value("k0"), 2.0);
    }
}
