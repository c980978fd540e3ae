//! Numbers of several rounds: percentiles, medians and how they are shown.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::targets::Target;

/// What is measured, in the unit that it is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    PlainCpu,
    PlainRate,
    PlainP50,
    PlainP99,
    IdlePss,
    Start,
    StreamCpu,
    StreamRate,
    HeadP50,
    HeadP99,
    OpenTotal,
    OpenPss,
    OpenCpu,
    LongCpu,
    LongP50,
    LongP99,
}

/// Figures by what and of whom, one per round.
#[derive(Default)]
pub(crate) struct Figures(BTreeMap<(Figure, Target), Vec<(usize, f64)>>);

impl Figures {
    pub(crate) fn add(&mut self, figure: Figure, target: Target, round: usize, value: f64) {
        self.0.entry((figure, target)).or_default().push((round, value));
    }

    fn of(&self, figure: Figure, target: Target) -> &[(usize, f64)] {
        self.0.get(&(figure, target)).map_or(&[], Vec::as_slice)
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, figure: Figure, target: Target) -> Option<f64> {
        median(self.of(figure, target).iter().map(|(_, value)| *value).collect())
    }

    /// The median of what it is above `direct` in the same round.
    pub(crate) fn added(&self, figure: Figure, target: Target) -> Option<f64> {
        let direct = self.of(figure, Target::Direct);
        let of_round = |round| direct.iter().find(|(r, _)| *r == round).map(|(_, value)| value);
        let above = self.of(figure, target).iter();
        median(above.filter_map(|(round, value)| Some(value - of_round(*round)?)).collect())
    }

    /// The median with the least and the most.
    pub(crate) fn spread(&self, figure: Figure, target: Target, digits: usize) -> String {
        let Some(median) = self.median(figure, target) else { return "–".to_owned() };
        let values = || self.of(figure, target).iter().map(|(_, value)| *value);
        let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
        format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
    }
}

/// A number with so many digits, or a dash.
pub(crate) fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// The value at a share of the sorted ones, in milliseconds; nearest rank.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map(|time| ms(*time))
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// KiB as MiB.
#[expect(clippy::cast_precision_loss, reason = "sizes of processes are far below 2^52")]
pub(crate) fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// A time shared by so many.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
pub(crate) fn each(time: f64, count: u64) -> f64 {
    time / count.max(1) as f64
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
        let times: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Some(100.0));
        assert_eq!(percentile(&times, 99), Some(198.0));
        assert_eq!(percentile(&times[..1], 99), Some(1.0));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn added_is_taken_round_by_round() {
        let mut figures = Figures::default();
        for (round, (direct, other)) in [(1.0, 2.0), (10.0, 14.0), (2.0, 4.0)].iter().enumerate() {
            figures.add(Figure::PlainP50, Target::Direct, round, *direct);
            figures.add(Figure::PlainP50, Target::Nginx, round, *other);
        }
        assert_eq!(figures.added(Figure::PlainP50, Target::Nginx), Some(2.0));
    }
}
