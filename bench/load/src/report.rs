//! What is printed: Markdown tables, and the targets with `pass` or `FAIL` beside them.

use crate::figures::{Figure, Figures, shown};
use crate::targets::Target;

/// A limit and what was measured against it.
struct Aim {
    what: &'static str,
    value: Option<f64>,
    limit: Option<f64>,
    unit: &'static str,
    digits: usize,
}

/// The tables.
pub(crate) fn tables(figures: &Figures, targets: &[Target]) -> String {
    let mut text = String::from("### A request of 1.5 KB, answered whole\n\n");
    let head = "CPU ms/request|requests/s|added p50 ms|added p99 ms|PSS idle MiB|start ms";
    rows(&mut text, head, targets, |target| {
        vec![
            figures.spread(Figure::PlainCpu, target, 4),
            shown(figures.median(Figure::PlainRate, target), 0),
            added(figures, Figure::PlainP50, target, 3),
            added(figures, Figure::PlainP99, target, 3),
            shown(figures.median(Figure::IdlePss, target), 1),
            figures.spread(Figure::Start, target, 0),
        ]
    });
    text += "\n### A stream of 68 events, 15 KB at once; and how late a lone head event comes\n\n";
    rows(&mut text, "CPU ms/stream|streams/s|head p50 ms|head p99 ms", targets, |target| {
        vec![
            figures.spread(Figure::StreamCpu, target, 4),
            shown(figures.median(Figure::StreamRate, target), 0),
            figures.spread(Figure::HeadP50, target, 3),
            shown(figures.median(Figure::HeadP99, target), 3),
        ]
    });
    text += "\n### 200 open streams, an event each 5 ms (at least 335 ms)\n\n";
    rows(&mut text, "CPU ms/stream|whole p50 ms|PSS peak MiB", targets, |target| {
        vec![
            figures.spread(Figure::OpenCpu, target, 3),
            shown(figures.median(Figure::OpenTotal, target), 0),
            figures.spread(Figure::OpenPss, target, 1),
        ]
    });
    text += "\n### A request of 1 MB (400 turns), answered whole\n\n";
    rows(&mut text, "CPU ms/request|added p50 ms|added p99 ms", targets, |target| {
        vec![
            figures.spread(Figure::LongCpu, target, 2),
            added(figures, Figure::LongP50, target, 2),
            added(figures, Figure::LongP99, target, 2),
        ]
    });
    text
}

fn rows(text: &mut String, head: &str, targets: &[Target], row: impl Fn(Target) -> Vec<String>) {
    let columns = head.split('|').count();
    *text += &format!("| | {} |\n|---|{}\n", head.replace('|', " | "), "--:|".repeat(columns));
    for target in targets {
        *text += &format!("| {} | {} |\n", target.name(), row(*target).join(" | "));
    }
}

/// What it is above `direct`, and for `direct` what it is.
fn added(figures: &Figures, figure: Figure, target: Target, digits: usize) -> String {
    if target == Target::Direct {
        return format!("(direct: {})", shown(figures.median(figure, target), digits));
    }
    shown(figures.added(figure, target), digits)
}

/// The targets of softland, each met or not; the second says whether all were.
pub(crate) fn verdicts(figures: &Figures) -> (String, bool) {
    let (mut text, mut all) = (String::new(), true);
    for aim in aims(figures) {
        let (word, met) = match (aim.value, aim.limit) {
            (Some(value), Some(limit)) if value <= limit => ("pass", true),
            (Some(_), Some(_)) => ("FAIL", false),
            _ => ("not measured", false),
        };
        all &= met;
        let (value, limit) = (shown(aim.value, aim.digits), shown(aim.limit, aim.digits));
        text += &format!("{word:<12} {}: {value} {1}, at most {limit} {1}\n", aim.what, aim.unit);
    }
    (text, all)
}

fn aims(figures: &Figures) -> Vec<Aim> {
    let of = |figure, target| figures.median(figure, target);
    let ours = |figure| of(figure, Target::Softland);
    let times = |share: f64, figure, target| of(figure, target).map(|value| value * share);
    let aim = |what, value, limit, unit, digits| Aim { what, value, limit, unit, digits };
    vec![
        aim(
            "1.5 KB governed, CPU, 4 × nginx",
            ours(Figure::PlainCpu),
            times(4.0, Figure::PlainCpu, Target::Nginx),
            "ms",
            4,
        ),
        aim(
            "1.5 KB governed, CPU, 1.1 × noveum",
            ours(Figure::PlainCpu),
            times(1.1, Figure::PlainCpu, Target::Noveum),
            "ms",
            4,
        ),
        aim(
            "a stream of 68 events, CPU, 0.3 × noveum",
            ours(Figure::StreamCpu),
            times(0.3, Figure::StreamCpu, Target::Noveum),
            "ms",
            4,
        ),
        aim(
            "Chat Completions, 1.5 KB, CPU, 1.3 × Messages",
            of(Figure::PlainCpu, Target::SoftlandChat),
            times(1.3, Figure::PlainCpu, Target::Softland),
            "ms",
            4,
        ),
        aim(
            "Responses, 1.5 KB, CPU, 1.3 × Messages",
            of(Figure::PlainCpu, Target::SoftlandResponses),
            times(1.3, Figure::PlainCpu, Target::Softland),
            "ms",
            4,
        ),
        aim(
            "Chat Completions, a stream, CPU, 1.3 × Messages",
            of(Figure::StreamCpu, Target::SoftlandChat),
            times(1.3, Figure::StreamCpu, Target::Softland),
            "ms",
            4,
        ),
        aim(
            "Responses, a stream, CPU, 1.3 × Messages",
            of(Figure::StreamCpu, Target::SoftlandResponses),
            times(1.3, Figure::StreamCpu, Target::Softland),
            "ms",
            4,
        ),
        aim("200 open streams, PSS", ours(Figure::OpenPss), Some(30.0), "MiB", 1),
        aim("1 MB governed, CPU", ours(Figure::LongCpu), Some(4.0), "ms", 2),
        aim(
            "1 MB governed, added p50",
            figures.added(Figure::LongP50, Target::Softland),
            Some(4.0),
            "ms",
            2,
        ),
        aim("head event forwarded, p50", ours(Figure::HeadP50), Some(0.3), "ms", 3),
        aim("start to the first answer", ours(Figure::Start), Some(50.0), "ms", 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aims_are_met_or_not() {
        let mut figures = Figures::default();
        for (target, cpu) in [(Target::Nginx, 0.01), (Target::Softland, 0.039)] {
            figures.add(Figure::PlainCpu, target, 0, cpu);
        }
        figures.add(Figure::OpenPss, Target::Softland, 0, 31.0);
        let (text, all) = verdicts(&figures);
        assert!(!all);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "pass         1.5 KB governed, CPU, 4 × nginx: 0.0390 ms, at most 0.0400 ms"
        );
        assert!(lines[1].starts_with("not measured") && lines[7].starts_with("FAIL"));
    }
}
