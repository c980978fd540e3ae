//! The memory that the request bodies of all connections share: each body alone is bounded, the
//! number of bodies is not.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::BodyError;

/// Bodies up to this size are not counted; larger ones are counted in steps of it.
const STEP: usize = 64 << 10;

/// The memory that all bodies may use together.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    /// One permit for each step.
    free: Arc<Semaphore>,
}

impl BodyBudget {
    /// Creates a budget of `bytes`.
    pub(crate) fn from_limit(bytes: usize) -> Self {
        let steps = (bytes / STEP).min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(steps)) }
    }

    /// Returns an empty share, for a body that is about to be read.
    pub(crate) fn new_share(&self) -> BudgetShare {
        BudgetShare { budget: self.clone(), held: None }
    }
}

/// The part of the budget that one body uses, until it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: BodyBudget,
    held: Option<OwnedSemaphorePermit>,
}

impl BudgetShare {
    /// Enlarges the share to a body of `bytes`.
    ///
    /// # Errors
    /// Returns [`BodyError::Full`] if there is no room for them.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), BodyError> {
        if bytes <= STEP {
            return Ok(());
        }
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(STEP).saturating_sub(held);
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).map_err(|_| BodyError::Full)?;
        let free = Arc::clone(&self.budget.free);
        let got = free.try_acquire_many_owned(more).map_err(|_| BodyError::Full)?;
        match &mut self.held {
            Some(held) => held.merge(got),
            none => *none = Some(got),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_what_there_is_and_give_it_back() {
        let budget = BodyBudget::from_limit(3 * STEP);
        let (mut one, mut other) = (budget.new_share(), budget.new_share());
        assert_eq!(one.grow_to(STEP), Ok(()));
        assert_eq!(budget.free.available_permits(), 3, "a small one is not counted");
        assert_eq!(one.grow_to(STEP + 1), Ok(()));
        assert_eq!(one.grow_to(2 * STEP), Ok(()));
        assert_eq!(budget.free.available_permits(), 1);
        assert_eq!(other.grow_to(2 * STEP), Err(BodyError::Full));
        assert_eq!(other.grow_to(STEP), Ok(()));
        drop(one);
        assert_eq!(other.grow_to(3 * STEP), Ok(()));
        drop(other);
        assert_eq!(budget.free.available_permits(), 3);
    }
}
