//! A counter of money: exact, and written as a decimal.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use softland_session::core::NanoUsd;

/// A counter of dollars that adds nano-dollars, so that no sum has the rounding of its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct DollarCounter(Arc<AtomicU64>);

impl DollarCounter {
    /// Adds an amount.
    pub(crate) fn add_amount(&self, amount: NanoUsd) {
        self.0.fetch_add(amount.0, Ordering::Relaxed);
    }

    /// Returns the sum.
    pub(crate) fn sum(&self) -> NanoUsd {
        NanoUsd(self.0.load(Ordering::Relaxed))
    }
}

impl TypedMetric for DollarCounter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for DollarCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.sum().to_dollars(), None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_sum_is_written_as_a_decimal() {
        let (mut registry, spent) = (Registry::default(), DollarCounter::default());
        registry.register("spent", "Money", spent.clone());
        for _ in 0..3 {
            // As binary fractions, three times 0.1 are 0.30000000000000004.
            spent.add_amount(NanoUsd(100_000_000));
        }
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("a text");
        assert!(out.contains("\nspent_total 0.3\n"), "{out}");
    }
}
